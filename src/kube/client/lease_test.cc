#include "kube/client/lease.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "json/value.h"
#include "kube/client/script_test_support.h"

namespace berth::kube {
namespace {

// One Lease object behind its API: preconditions on resourceVersion, and watches. A model of the
// rules that a real server is seen to keep in tests/kube.
class LeaseServer {
 public:
  struct Reply {
    int status = 0;
    std::string body = {};
  };

  Reply handle(const Call& call) {
    if (call.method == Method::get) {
      return record_.has_value() ? Reply{200, json::dump(*record_)} : Reply{404, {}};
    }
    json::Value body = *json::parse(call.body);
    if (call.method == Method::post) {
      if (record_.has_value()) return {409, {}};
    } else {
      if (!record_.has_value()) return {404, {}};
      if (version_of(body) != version_of(*record_)) return {409, {}};
    }
    json::Value metadata = *body.find("metadata");
    metadata.set("uid", "aaaaaaaa-0000-4000-8000-000000000001");
    metadata.set("resourceVersion", std::to_string(++version_));
    body.set("metadata", std::move(metadata));
    record_ = std::move(body);
    ++writes;
    return {call.method == Method::post ? 201 : 200, json::dump(*record_)};
  }

  std::string first_frames() const {
    std::string frames;
    if (record_.has_value()) frames += frame("ADDED");
    return frames + fmt::format(R"({{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":)"
                                R"("{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}})"
                                "\n",
                                version_);
  }
  std::string frame(std::string_view type) const {
    return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, json::dump(*record_));
  }
  int version() const { return version_; }
  std::string spec(std::string_view name) const {
    const json::Value* value = record_->find("spec")->find(name);
    return value == nullptr ? "" : json::dump(*value);
  }
  // Another writer's word.
  void set(json::Value record) {
    json::Value metadata = *record.find("metadata");
    metadata.set("resourceVersion", std::to_string(++version_));
    record.set("metadata", std::move(metadata));
    record_ = std::move(record);
  }

  int writes = 0;

 private:
  static std::string version_of(const json::Value& lease) {
    return std::string(lease.find("metadata")->text("resourceVersion"));
  }

  std::optional<json::Value> record_;
  int version_ = 100;
};

// One scheduler that wants the lease, with its own way to the server.
struct Candidate : LeaseListener {
  Candidate(ManualClock& clock, LeaseServer& server_in, std::string name, std::uint64_t seed)
      : server(server_in),
        timers(clock),
        chance(seed),
        lease(caller, timers, chance,
              {.namespace_name = "berth-system", .name = "berth", .identity = std::move(name)},
              *this) {
    lease.start();
  }

  void on_leading() override { ++led; }
  void on_lost(std::string_view why) override { lost = why; }
  void on_leader(std::string_view identity) override { leader = identity; }
  void on_trouble(std::string_view what) override { troubles.emplace_back(what); }

  // Answers everything that it has asked by now.
  void serve() {
    while (!caller.asked.empty()) {
      ScriptedCaller::Asked asked = caller.take();
      if (asked.sink != nullptr) {
        asked.sink->on_bytes(server.first_frames());
        watched = server.version();
        stream = std::move(asked);
      } else {
        const LeaseServer::Reply reply = server.handle(asked.call);
        ScriptedCaller::answer(asked, reply.status, reply.body);
      }
    }
    if (stream.sink != nullptr && watched != server.version() && !lease.leads()) {
      watched = server.version();
      stream.sink->on_bytes(server.frame("MODIFIED"));
    }
  }

  LeaseServer& server;
  Timers timers;
  Chance chance;
  ScriptedCaller caller;
  ScriptedCaller::Asked stream;
  int watched = 0;
  int led = 0;
  std::string lost;
  std::string leader;
  std::vector<std::string> troubles;
  LeaderLease lease;
};

struct KubeLease : testing::Test {
  std::unique_ptr<Candidate> candidate(const std::string& name) {
    return std::make_unique<Candidate>(clock, server, name, ++seed);
  }

  // Time passes; who is given runs, the others are stopped.
  void run(Duration time, const std::vector<Candidate*>& who) {
    for (std::int64_t ms = 0; ms < time.count(); ms += 50) {
      clock.pass(Duration(50));
      for (Candidate* one : who) {
        one->timers.run_due();
        one->serve();
      }
    }
  }

  ManualClock clock;
  LeaseServer server;
  std::uint64_t seed = 0;
};

TEST_F(KubeLease, IsMadeWhereThereIsNone) {
  const auto a = candidate("a");
  run(Duration(100), {a.get()});
  EXPECT_TRUE(a->lease.may_write());
  EXPECT_EQ(a->led, 1);
  EXPECT_EQ(server.spec("holderIdentity"), "\"a\"");
  EXPECT_EQ(server.spec("leaseDurationSeconds"), "15");
  run(Duration(60'000), {a.get()});
  EXPECT_TRUE(a->lease.may_write());
  EXPECT_NEAR(server.writes, 31, 1) << "one renewal every 2 s";
}

TEST_F(KubeLease, PassesOnAfterItsDurationWhenTheLeaderDies) {
  const auto a = candidate("a");
  run(Duration(100), {a.get()});
  const auto b = candidate("b");
  run(Duration(20'000), {a.get(), b.get()});
  EXPECT_FALSE(b->lease.leads());
  EXPECT_EQ(b->leader, "a");
  const Time died = clock.now();
  while (!b->lease.leads())
    run(Duration(50), {b.get()});
  EXPECT_LE((clock.now() - died).count(), 15'000 + 2'000);
  EXPECT_GE((clock.now() - died).count(), 13'000);
  EXPECT_EQ(server.spec("leaseTransitions"), "1");
}

TEST_F(KubeLease, IsFencedInALeaderThatWasPaused) {
  const auto a = candidate("a");
  run(Duration(100), {a.get()});
  const auto b = candidate("b");
  run(Duration(5'000), {a.get(), b.get()});
  ASSERT_TRUE(a->lease.may_write());
  // a stands still for 20 s; nobody asks it anything. What it would say is looked at all the time.
  bool overlap = false;
  for (int i = 0; i < 400; ++i) {
    run(Duration(50), {b.get()});
    overlap = overlap || (a->lease.may_write() && b->lease.may_write());
  }
  EXPECT_FALSE(overlap);
  EXPECT_FALSE(a->lease.may_write());
  EXPECT_TRUE(b->lease.may_write());
  const int writes = server.writes;
  a->timers.run_due();
  a->serve();
  EXPECT_EQ(server.writes, writes) << "a resumed leader writes nothing";
  EXPECT_FALSE(a->lost.empty());
  run(Duration(30'000), {a.get(), b.get()});
  EXPECT_FALSE(a->lease.leads());
  EXPECT_TRUE(b->lease.leads());
}

TEST_F(KubeLease, IsLostWhenItCannotBeRenewedForTenSeconds) {
  const auto a = candidate("a");
  run(Duration(100), {a.get()});
  const Time last = clock.now();
  while (a->lost.empty() && (clock.now() - last).count() < 60'000) {
    clock.pass(Duration(50));
    a->timers.run_due();
    while (!a->caller.asked.empty()) {
      ScriptedCaller::Asked asked = a->caller.take();
      ScriptedCaller::lose(asked, Outcome::unknown);
    }
  }
  EXPECT_NEAR(static_cast<double>((clock.now() - last).count()), 10'000, 200);
  EXPECT_EQ(a->lost, "it could not be renewed in time");
}

TEST_F(KubeLease, IsGivenBackOnACleanStop) {
  const auto a = candidate("a");
  run(Duration(5'000), {a.get()});
  bool released = false;
  a->lease.release([&released] { released = true; });
  EXPECT_FALSE(a->lease.may_write());
  run(Duration(100), {a.get()});
  EXPECT_TRUE(released);
  EXPECT_EQ(server.spec("holderIdentity"), "\"\"");
  const auto b = candidate("b");
  run(Duration(100), {b.get()});
  EXPECT_TRUE(b->lease.leads());
}

TEST_F(KubeLease, KeepsFieldsThatItDoesNotKnow) {
  const auto a = candidate("a");
  run(Duration(100), {a.get()});
  const Call get{.path = "x"};
  json::Value record = *json::parse(server.handle(get).body);
  json::Value spec = *record.find("spec");
  spec.set("strategy", "OldestEmulationVersion");
  record.set("spec", spec);
  server.set(std::move(record));
  run(Duration(10'000), {a.get()});
  EXPECT_TRUE(a->lease.leads());
  EXPECT_EQ(server.spec("strategy"), "\"OldestEmulationVersion\"");
}

TEST_F(KubeLease, IsPolledWhereItMayNotBeWatched) {
  const auto a = candidate("a");
  run(Duration(100), {a.get()});
  const auto b = candidate("b");
  int reads = 0;
  for (int i = 0; i < 400; ++i) {  // 20 s
    run(Duration(50), {a.get()});
    b->timers.run_due();
    while (!b->caller.asked.empty()) {
      ScriptedCaller::Asked asked = b->caller.take();
      if (asked.sink != nullptr) {
        ScriptedCaller::answer(asked, 403, R"({"kind":"Status","reason":"Forbidden"})");
        continue;
      }
      ++reads;
      const LeaseServer::Reply reply = server.handle(asked.call);
      ScriptedCaller::answer(asked, reply.status, reply.body);
    }
  }
  EXPECT_NEAR(reads, 9, 2);
  EXPECT_FALSE(b->lease.leads());
  EXPECT_EQ(b->leader, "a");
}

// Pauses, lost requests and lost answers by chance: never may two write.
TEST_F(KubeLease, IsNeverHeldByTwo) {
  for (std::uint64_t round = 0; round < 40; ++round) {
    Chance fate(round);
    server = {};
    std::vector<std::unique_ptr<Candidate>> all;
    for (const char* name : {"a", "b", "c"})
      all.push_back(candidate(name));
    std::vector<int> stands(all.size());
    for (int step = 0; step < 4'000; ++step) {  // 200 s
      clock.pass(Duration(50));
      int writers = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        Candidate& one = *all[i];
        if (!one.lost.empty()) all[i] = candidate(fmt::format("n{}", ++seed));
        if (stands[i] > 0) {
          --stands[i];
        } else {
          if (fate.between(Duration(0), Duration(300)).count() == 0) {
            stands[i] = static_cast<int>(fate.between(Duration(20), Duration(500)).count());
          }
          all[i]->timers.run_due();
          // Some are served late, some requests and some answers are lost.
          const std::int64_t luck = fate.between(Duration(0), Duration(9)).count();
          if (luck > 3) {
            all[i]->serve();
          } else if (luck < 2 && !all[i]->caller.asked.empty()) {
            ScriptedCaller::Asked asked = all[i]->caller.take();
            if (luck == 0 && asked.sink == nullptr) server.handle(asked.call);
            ScriptedCaller::lose(asked, Outcome::unknown);
          }
        }
        if (all[i]->lease.may_write()) ++writers;
      }
      ASSERT_LE(writers, 1) << "round " << round << ", step " << step;
    }
    std::vector<Candidate*> running;
    for (const auto& one : all)
      running.push_back(one.get());
    std::erase_if(running, [](const Candidate* one) { return !one->lost.empty(); });
    run(Duration(40'000), running);
    const auto leaders =
        std::ranges::count_if(running, [](const Candidate* one) { return one->lease.may_write(); });
    EXPECT_EQ(leaders, running.empty() ? 0 : 1) << "round " << round;
  }
}

}  // namespace
}  // namespace berth::kube
