// Configuration and tokens as administrators meet them: what the daemon gets, and the verbs.
#include "cli/serve_options.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_berth_test.h"
#include "net/server.h"
#include "net/token.h"
#include "serve/sources.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// What the reference calls a default is what the daemon does without a file.
TEST(ServeOptions, TheDefaultsOfTheFileAreThoseOfTheService) {
  const config::DaemonConfig config;
  const lease::ServiceConfig made = service_config(config);
  lease::ServiceConfig plain;
  plain.engine.policy = "spread";
  plain.engine.max_sample_age = Duration(3'000);
  EXPECT_EQ(made.engine, plain.engine);
  EXPECT_EQ(made.confirm, plain.confirm);
  EXPECT_EQ(made.ttl, plain.ttl);
  EXPECT_EQ(made.silence, plain.silence);
  EXPECT_EQ(made.forced, plain.forced);
  EXPECT_EQ(made.age_memory, plain.age_memory);
  EXPECT_EQ(made.keep_ended, plain.keep_ended);
  EXPECT_EQ(made.grace, plain.grace);
  EXPECT_EQ(made.max_waiting_per_owner, plain.max_waiting_per_owner);
  EXPECT_EQ(made.max_ended, plain.max_ended);
  EXPECT_EQ(made.gpu_enabled, plain.gpu_enabled);
  EXPECT_EQ(made.ledger_only, plain.ledger_only);
  EXPECT_EQ(made.overuse, plain.overuse);
  EXPECT_EQ(made.burst_grace, plain.burst_grace);
  EXPECT_EQ(made.burst, plain.burst);
  const net::ServerOptions server;
  EXPECT_EQ(config.limits.max_connections, static_cast<std::int64_t>(server.max_connections));
  EXPECT_EQ(config.limits.connections_per_user,
            static_cast<std::int64_t>(server.max_connections_per_user));
  const serve::SourceOptions sources;
  EXPECT_EQ(config.gpu.library, sources.nvml.library);
  EXPECT_EQ(config.gpu.margin, sources.nvml.safety_margin);
}

TEST(AdministrationDocs, EndWithTheTablesOfTheKeys) {
  std::ostringstream stream;
  stream << std::ifstream(std::string(BERTH_SOURCE_DIR) + "/docs/administration.md").rdbuf();
  const std::string text = stream.str();
  const std::size_t marker = text.find(config::kDaemonReferenceMarker);
  ASSERT_NE(marker, std::string::npos);
  EXPECT_EQ(text.substr(marker),
            config::kDaemonReferenceMarker + std::string("\n\n") + config::daemon_reference_text())
      << "the tables changed: run\n  sed -i '/^<!-- From here on/,$d' docs/administration.md && "
         "build/bin/berth config fields >> docs/administration.md";
}

class ConfigCheck : public BerthInAFolder {};

TEST_F(ConfigCheck, PrintsWhatAFileComesTo) {
  write("b.yaml", "node: lab1\nleases: {ttl: 5min}\n");
  const Answer answer = berth({"config", "check", path("b.yaml")});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("node: lab1\n"), HasSubstr("  ttl: 5min\n"),
                                HasSubstr("  confirm: 5min  # default\n")));
  write("again.yaml", answer.out);
  EXPECT_EQ(berth({"config", "check", path("again.yaml")}).code, ExitCode::done);
}

TEST_F(ConfigCheck, TellsWhatTheFileNamesWrongly) {
  write("b.yaml",
        "listen: [\"unix:relative\", nonsense]\ntokens_file: /no/such/file\n"
        "tls: {plain_loopback: true}\nadmins: [no-such-user-here]\n"
        "queues_file: /no/queues.yaml\n");
  const Answer answer = berth({"config", "check", path("b.yaml")});
  EXPECT_EQ(answer.code, ExitCode::usage);
  EXPECT_EQ(answer.out, "");
  EXPECT_THAT(answer.err, AllOf(HasSubstr("b.yaml:1:9: listen: "),
                                HasSubstr("b.yaml:2:14: tokens_file: the token file /no/such/file"),
                                HasSubstr("b.yaml:4:9: admins: no user of this machine is called"),
                                HasSubstr("b.yaml:5:14: queues_file: ")));
}

TEST_F(ConfigCheck, TellsWhatTheDaemonWouldStumbleOnLater) {
  write("b.yaml",
        "listen: [\"unix:/a.sock\", \"unix:/a.sock\"]\n"
        "gpu: {guard: /no/guard.so, dcgm: [\"ftp://x\"], prometheus: \"prometheus:9090\"}\n");
  const Answer answer = berth({"config", "check", path("b.yaml")});
  EXPECT_EQ(answer.code, ExitCode::usage);
  EXPECT_THAT(
      answer.err,
      AllOf(HasSubstr("b.yaml:1:9: listen: unix:/a.sock stands twice: keep one\n"),
            HasSubstr("b.yaml:2:14: gpu.guard: the guard library /no/guard.so cannot be read: No "),
            HasSubstr("gpu.dcgm: ftp://x is no address"),
            HasSubstr("gpu.prometheus: prometheus:9090 is no address")));
  write("b.yaml", "gpu: {guard: /no/guard.so}\n");
  const Answer served = berth({"serve", "--config", path("b.yaml"), "--simulate", "1x1GiB",
                               "--listen", "unix:" + path("s"), "--state", path("state")});
  EXPECT_NE(served.code, ExitCode::done);
  EXPECT_THAT(served.err, HasSubstr("the guard library /no/guard.so cannot be read"));
}

TEST_F(ConfigCheck, RefusesAWrongFileWithPlaces) {
  write("b.yaml", "gpu: {samplng: 1s}\n");
  const Answer answer = berth({"config", "check", path("b.yaml")});
  EXPECT_EQ(answer.code, ExitCode::usage);
  EXPECT_THAT(answer.err, HasSubstr("b.yaml:1:7: samplng: 'samplng' is not a key of 'gpu'; did you "
                                    "mean 'sampling'?"));
}

class Tokens : public BerthInAFolder {};

TEST_F(Tokens, AreMadeListedAndKnown) {
  const std::string file = path("tokens");
  const Answer user = berth({"token", "new", "airflow", "--file", file});
  ASSERT_EQ(user.code, ExitCode::done) << user.err;
  const Answer admin = berth({"token", "new", "ops", "--admin", "--file", file});
  ASSERT_EQ(admin.code, ExitCode::done) << admin.err;
  EXPECT_THAT(user.out, StartsWith("berth_"));
  const auto mode = std::filesystem::status(file).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto tokens = net::TokenSet::load(file);
  ASSERT_TRUE(tokens.ok()) << tokens.error().message();
  const auto caller = tokens->find(admin.out.substr(0, admin.out.size() - 1));
  ASSERT_NE(caller, nullptr);
  EXPECT_TRUE(caller->admin);
  const Answer list = berth({"token", "list", "--file", file});
  EXPECT_THAT(list.out, AllOf(HasSubstr("airflow                  user   sha256:"),
                              HasSubstr("ops                      admin  sha256:")));
  EXPECT_THAT(list.out, testing::Not(HasSubstr("berth_")));
}

TEST_F(Tokens, AWrongNameOrFileChangesNothing) {
  const std::string file = path("tokens");
  EXPECT_EQ(berth({"token", "new", "two words", "--file", file}).code, ExitCode::usage);
  EXPECT_FALSE(std::filesystem::exists(file));
  write("tokens", "what is this\n");
  EXPECT_EQ(berth({"token", "new", "a", "--file", file}).code, ExitCode::failed);
  EXPECT_EQ(berth({"token", "list", "--file", file}).code, ExitCode::failed);
  EXPECT_EQ(berth({"token", "list", "--file", path("none")}).code, ExitCode::failed);
}

TEST_F(Tokens, ALastLineWithoutItsEndGetsOne) {
  const std::string file = path("tokens");
  const auto old = net::make_token("old", false);
  ASSERT_TRUE(old.ok());
  write("tokens", old->line.substr(0, old->line.size() - 1));
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_EQ(berth({"token", "new", "new", "--file", file}).code, ExitCode::done);
  EXPECT_EQ(net::TokenSet::load(file)->size(), 2U);
}

}  // namespace
}  // namespace berth::cli
