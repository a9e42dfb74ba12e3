#include "kube/client/credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/client/client.h"
#include "kube/client/exec_plugin.h"
#include "kube/client/text.h"
#include "kube/client/wire_server_test_support.h"

namespace berth::kube {
namespace {

using testing::HasSubstr;
using testing::Not;
using Reply = WireServer::Reply;

// The machine's clock, with the calendar set forward or back.
class CalendarClock : public Clock {
 public:
  Time now() const override { return machine_clock().now() + ahead; }
  std::int64_t wall_us() const override {
    read_late += late_each;
    return machine_clock().wall_us() + ahead.count() * 1'000 + read_late;
  }
  Duration ahead{};
  std::int64_t late_each = 0;  // every reading is so many microseconds after the one before
  mutable std::int64_t read_late = 0;
};

// A server that takes one token only; its clients read theirs from files and plug-ins.
struct KubeCredentials : testing::Test {
  KubeCredentials() {
    std::string name = testing::TempDir() + "berth-credentials-XXXXXX";
    folder = mkdtemp(name.data());
    server = std::make_unique<WireServer>([this](std::size_t, const std::string& request) {
      const bool known = request.find("Bearer " + good() + "\r\n") != std::string::npos;
      return Reply{WireServer::answer(known ? 200 : 401, "{}")};
    });
    access.server = server->url();
    access.origin = "the test";
    options.clock = &clock;
  }
  ~KubeCredentials() override {
    its.reset();
    server.reset();
    std::filesystem::remove_all(folder);
  }

  std::string good() {
    const std::lock_guard lock(mutex);
    return good_token;
  }
  void take_only(const std::string& token) {
    const std::lock_guard lock(mutex);
    good_token = token;
  }

  std::string put(const std::string& name, const std::string& text, bool program = false) const {
    const std::string path = folder + "/" + name;
    std::ofstream(path) << text;
    if (program) chmod(path.c_str(), 0700);
    return path;
  }

  void plugin(const std::string& script) {
    access.identity.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                                      .command = put("plugin", "#!/bin/sh\n" + script, true),
                                      .environment = {{"TOKEN_FILE", folder + "/plugin-token"}},
                                      .install_hint = "install it",
                                      .interactive_mode = "Never"};
  }

  // A script that prints what plugin-token says, and counts its runs.
  std::string printing(const std::string& more = "") const {
    return "echo run >>" + folder + "/runs\ncat <<END\n" +
           R"x({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)x" +
           R"x("status":{"token":"$(cat "$TOKEN_FILE")")x" + more + "}}\nEND\n";
  }
  std::size_t runs() const {
    std::ifstream file(folder + "/runs");
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);)
      ++count;
    return count;
  }

  // The status of a call, or -1; `problem` says why.
  int status(Retry retry = Retry::never) {
    if (its == nullptr) its = std::move(Client::make(access, options)).value();
    int got = 0;
    its->call({.method = Method::post, .path = "/", .body = "b", .retry = retry},
              [&](const Answer& answer) {
                got = answer.outcome == Outcome::answered ? answer.status : -1;
                problem = answer.problem;
              });
    for (int i = 0; i < 400 && got == 0; ++i)
      its->turn(Duration(50));
    return got;
  }

  std::string folder;
  std::mutex mutex;
  std::string good_token = "one";
  std::unique_ptr<WireServer> server;
  CalendarClock clock;
  Access access;
  ClientOptions options;
  std::unique_ptr<Client> its;
  std::string problem;
};

TEST_F(KubeCredentials, ATokenFileIsReadAgainAfterA401) {
  access.identity.token_file = put("token", "one\n");
  EXPECT_EQ(status(), 200);
  take_only("two");
  put("token", "two\n");
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(server->requests().size(), 3U) << "a refused call is repeated once";
  take_only("three");
  EXPECT_EQ(status(), 401);
  EXPECT_EQ(server->requests().size(), 4U) << "not while the file is the same";
}

TEST_F(KubeCredentials, ATokenFileIsReadAgainEveryMinute) {
  access.identity.token_file = put("token", "one");
  EXPECT_EQ(status(), 200);
  take_only("two");
  put("token", "two");
  clock.ahead = Duration(61'000);
  its->turn(Duration(0));
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(server->requests().size(), 2U);
}

TEST_F(KubeCredentials, AFileThatIsGoneForAMomentLeavesTheOldToken) {
  access.identity.token_file = put("token", "one");
  EXPECT_EQ(status(), 200);
  std::filesystem::remove(folder + "/token");
  clock.ahead = Duration(61'000);
  its->turn(Duration(0));
  EXPECT_THAT(its->trouble(), HasSubstr("/token cannot be read"));
  EXPECT_EQ(status(), 200);
}

TEST_F(KubeCredentials, APluginIsRunOnceForAllCallsThatWait) {
  plugin(printing());
  put("plugin-token", "one");
  its = std::move(Client::make(access, options)).value();
  int fine = 0;
  for (int i = 0; i < 5; ++i) {
    its->call({.path = "/"}, [&fine](const Answer& answer) { fine += answer.ok() ? 1 : 0; });
  }
  for (int i = 0; i < 200 && fine < 5; ++i)
    its->turn(Duration(50));
  EXPECT_EQ(fine, 5);
  EXPECT_EQ(runs(), 1U);
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(runs(), 1U);
}

TEST_F(KubeCredentials, APluginWithoutAnEndIsTakenHoweverFastTheClockRuns) {
  put("plugin-token", "one");
  plugin(printing());
  clock.late_each = 5;
  EXPECT_EQ(status(), 200) << problem;
}

TEST_F(KubeCredentials, APluginIsRunAgainWhenItsCredentialEnds) {
  const auto ends_in = [this](std::int64_t seconds) {
    put("end", micro_time(machine_clock().wall_us() + seconds * 1'000'000));
  };
  plugin(printing(",\"expirationTimestamp\":\"$(cat " + folder + "/end)\""));
  put("plugin-token", "one");
  ends_in(3'600);
  EXPECT_EQ(status(), 200) << problem;
  take_only("two");
  put("plugin-token", "two");
  ends_in(7'200);
  clock.ahead = Duration(4'000'000);
  EXPECT_EQ(status(), 200) << problem;
  EXPECT_EQ(server->requests().size(), 2U) << "no call fails in between";
  EXPECT_EQ(runs(), 2U);
  // One that has ended before it came is not tried, nor asked for again and again.
  clock.ahead = Duration(8'000'000);
  EXPECT_EQ(status(), -1);
  EXPECT_THAT(problem, HasSubstr("printed a credential that ended on 20"));
  EXPECT_EQ(runs(), 3U);
}

TEST_F(KubeCredentials, APluginIsRunAgainAfterA401ButNotAgainAndAgain) {
  plugin(printing());
  put("plugin-token", "one");
  EXPECT_EQ(status(), 200);
  take_only("two");
  put("plugin-token", "two");
  EXPECT_EQ(status(), 401) << "a fresh credential is not doubted";
  clock.ahead = Duration(10'000);
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(runs(), 2U);
}

TEST_F(KubeCredentials, APluginThatFailsIsNamedWithoutWhatItSaid) {
  plugin("echo sesame; exit 3");
  EXPECT_EQ(status(), -1);
  EXPECT_THAT(problem, HasSubstr("/plugin failed with exit code 3; run it by hand to see why"));
  EXPECT_THAT(problem, Not(HasSubstr("sesame")));
  EXPECT_TRUE(server->requests().empty());
  plugin(printing());
  put("plugin-token", "one");
  EXPECT_EQ(status(), 200) << "the next call tries it again";
}

TEST_F(KubeCredentials, APluginThatIsNotThereIsNamedWithTheHint) {
  plugin("");
  access.identity.exec->command = "/no/such/plugin";
  EXPECT_EQ(status(), -1);
  EXPECT_EQ(problem,
            "the credential plug-in /no/such/plugin cannot be run: No such file or directory; "
            "install it");
}

TEST_F(KubeCredentials, RefuseWhatIsNoTokenAtOnce) {
  access.identity.token_file = put("token", "one\r\nX-Evil: 1");
  const auto client = Client::make(access, options);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message(), HasSubstr("has characters that no token has"));
  access.identity.token_file = folder + "/nothing";
  EXPECT_THAT(Client::make(access, options).error().message(), HasSubstr("cannot be read"));
}

TEST_F(KubeCredentials, RefuseACertificateThatHasExpired) {
  const std::string make = "cd " + folder +
                           " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
                           "-nodes -keyout key -out crt -days 1 -subj /CN=x >/dev/null 2>&1";
  ASSERT_EQ(std::system(make.c_str()), 0);
  access.identity.certificate_file = folder + "/crt";
  access.identity.key_file = folder + "/key";
  EXPECT_TRUE(Client::make(access, options).ok());
  clock.ahead = Duration(200'000'000);
  const auto client = Client::make(access, options);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message(), HasSubstr("/crt expired on 20"));
  EXPECT_THAT(client.error().message(), HasSubstr("UTC; get a new one"));
  access.identity.certificate_file = put("text", "hello");
  EXPECT_THAT(Client::make(access, options).error().message(),
              HasSubstr("it is no certificate in PEM form"));
}

TEST(KubeExecPlugin, IsToldWhatItAsksFor) {
  const ExecPlugin plugin{.api_version = "client.authentication.k8s.io/v1",
                          .command = "x",
                          .provide_cluster_info = true};
  EXPECT_EQ(exec_info(plugin, {.server = "https://s", .ca_pem = "foo", .insecure = false}),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)"
            R"("spec":{"interactive":false,"cluster":{"server":"https://s",)"
            R"("certificate-authority-data":"Zm9v"}}})");
}

TEST(KubeExecPlugin, AnswersThatAreNoneAreRefused) {
  const ExecPlugin plugin{.api_version = "client.authentication.k8s.io/v1", .command = "x"};
  const std::string head =
      R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":)";
  EXPECT_TRUE(read_exec_credential(head + R"({"token":"t"}})", plugin).ok());
  for (const std::string& text :
       {std::string("sesame"), std::string("{}"), head + "7}", head + "{}}",
        head + R"({"clientCertificateData":"sesame"}})",
        head + R"({"token":"sesame","expirationTimestamp":"soon"}})",
        std::string(
            R"({"apiVersion":"v2","kind":"ExecCredential","status":{"token":"sesame"}})")}) {
    const auto credential = read_exec_credential(text, plugin);
    ASSERT_FALSE(credential.ok()) << text;
    EXPECT_THAT(credential.error().message(), Not(HasSubstr("sesame")));
  }
}

}  // namespace
}  // namespace berth::kube
