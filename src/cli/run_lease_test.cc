// Waiting for a lease with a daemon that refuses, restarts and loses, as a script says.
#include "cli/run_lease.h"

#include <csignal>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/net_test_support.h"

namespace berth::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kGranted =
    R"({"id":"l-1","version":2,"state":"granted","memory_mib":4096,"waited_seconds":3,"devices":[
        {"uuid":"GPU-1","index":0,"model":"GPU","node":"n1","mig":false}]})";
constexpr const char* kWaiting =
    R"({"id":"l-1","version":1,"state":"waiting","reason":"no-room","message":"n1/GPU-1 is full",
        "queue":{"name":"default","position":1,"of":1,"shortfall_mib":7}})";

// Answers one call after the other; remembers what was asked.
class Script {
 public:
  using Answers = std::vector<std::pair<int, std::string>>;
  explicit Script(Answers answers)
      : answers_(std::move(answers)), harbour_([this](net::Request request, net::Reply reply) {
          std::string line = request.method + " " + request.path;
          if (request.path == "/v1/release") {
            line += " " + request.body;
            asked_.push_back(line);
            reply.send({.body = R"({"released":true,"lease":null})"});
            return;
          }
          if (request.path == "/v1/devices") {
            reply.send({.body = R"({"devices":[{"uuid":"GPU-1","node":"n1","index":0}]})"});
            return;
          }
          asked_.push_back(line);
          if (asked_.size() > answers_.size()) {
            late_.push_back(std::move(reply));  // a long poll that nothing ends
            return;
          }
          const auto& [status, body] = answers_[asked_.size() - 1];
          net::Response response{.status = status, .body = body};
          if (status == 503) response.headers.emplace_back("Retry-After", "1");
          reply.send(std::move(response));
        }) {}

  std::string address() const { return harbour_.address(); }
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  Answers answers_;
  std::vector<std::string> asked_;
  std::vector<net::Reply> late_;
  net::Harbour harbour_;
};

class Obtaining : public testing::Test {
 protected:
  Obtained obtain(const Script& script) {
    StatusLine line(console_);
    return obtain_lease(script.address(), json::object({{"key", "k"}, {"memory", 4096}}), signals_,
                        line);
  }

  std::ostringstream out_;
  std::ostringstream err_;
  Console console_{.out = out_, .err = err_};
  SignalWatch signals_;
};

TEST_F(Obtaining, IsSilentWhereThereIsRoom) {
  const Script script({{201, kGranted}});
  const Obtained obtained = obtain(script);
  EXPECT_EQ(obtained.kind, Obtained::Kind::granted);
  EXPECT_EQ(obtained.lease.text("id"), "l-1");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(Obtaining, WaitsByLongPollsAndTellsOnceWhy) {
  const Script script({{202, kWaiting}, {200, kWaiting}, {200, kGranted}});
  EXPECT_EQ(obtain(script).kind, Obtained::Kind::granted);
  EXPECT_EQ(err_.str(),
            "berth run: waiting, place 1 of 1 in queue default, 7 MiB missing: GPU 0 is full\n"
            "berth run: GPU 0 of n1, 4096 MiB after 3s\n");
  EXPECT_THAT(script.asked(),
              ElementsAre("POST /v1/leases", "GET /v1/leases/l-1", "GET /v1/leases/l-1"));
}

TEST_F(Obtaining, AsksAgainWithTheSameKeyAfterALoss) {
  const Script script({{202, kWaiting},
                       {200, R"({"id":"l-1","version":3,"state":"expired"})"},
                       {404, R"({"error":{"code":"unknown-lease","message":"no"}})"},
                       {201, kGranted}});
  EXPECT_EQ(obtain(script).kind, Obtained::Kind::granted);
  EXPECT_THAT(script.asked(), ElementsAre("POST /v1/leases", "GET /v1/leases/l-1",
                                          "POST /v1/leases", "POST /v1/leases"));
}

TEST_F(Obtaining, WaitsForADaemonThatIsNotReady) {
  const Script script(
      {{503, R"({"error":{"code":"ledger-unwritable","message":"the disk is full","hint":"h"}})"},
       {201, kGranted}});
  EXPECT_EQ(obtain(script).kind, Obtained::Kind::granted);
  EXPECT_EQ(err_.str(), "berth run: waiting: the disk is full\n");
}

TEST_F(Obtaining, EndsWhereTheAnswerIsNever) {
  const Script script({{422, R"({"error":{"code":"never","field":"memory","message":"needs 9 MiB",
                "hint":"h","largest_mib":8}})"}});
  const Obtained obtained = obtain(script);
  EXPECT_EQ(obtained.kind, Obtained::Kind::refused);
  EXPECT_EQ(obtained.code, ExitCode::failed);
  EXPECT_EQ(err_.str(),
            "berth run: needs 9 MiB\n"
            "berth run: waiting would not help; ask for at most 8 MiB on one GPU\n");
}

TEST_F(Obtaining, AdvisesLessMemoryOnlyWhereThatWouldHelp) {
  const Script script({{422, R"({"error":{"code":"never","field":"count","message":"needs 3 GPUs",
                                "hint":"h","largest_mib":8}})"}});
  EXPECT_EQ(obtain(script).kind, Obtained::Kind::refused);
  EXPECT_EQ(err_.str(),
            "berth run: needs 3 GPUs\n"
            "berth run: waiting would not help: nothing here could ever serve that\n");
}

TEST_F(Obtaining, EndsAsAUsageErrorWhereAFieldIsWrong) {
  const Script script(
      {{400, R"({"error":{"code":"invalid-field","message":"no queue x","hint":"try y"}})"}});
  EXPECT_EQ(obtain(script).code, ExitCode::usage);
  EXPECT_EQ(err_.str(), "berth run: no queue x\nberth run: try y\n");
}

TEST_F(Obtaining, LeavesTheQueueByKeyWhenASignalComes) {
  const Script script({{202, kWaiting}});
  std::thread other([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(getpid(), SIGTERM);
  });
  const Obtained obtained = obtain(script);
  other.join();
  EXPECT_EQ(obtained.kind, Obtained::Kind::signalled);
  EXPECT_EQ(obtained.signal, SIGTERM);
  EXPECT_THAT(script.asked().back(), HasSubstr(R"(POST /v1/release {"key":"k")"));
  EXPECT_THAT(err_.str(), HasSubstr("berth run: left the queue\n"));
}

}  // namespace
}  // namespace berth::cli
