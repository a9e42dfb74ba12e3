// kill -9 of the daemon at every step to its disk and between every commit and its answers: no
// lease is lost, none is doubled, the order of those that wait is kept, and a client that repeats
// its call with the same key goes on as if nothing had been.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "json/value.h"
#include "served_test.h"

namespace berth::serve {
namespace {

// Counts steps and kills the process at one of them.
class KillAt final : public store::FaultHook {
 public:
  explicit KillAt(int position) : position_(position) {}

  store::DiskFault before(const store::DiskStep& step) override {
    if (step.deed != store::DiskDeed::read) count();
    return {};
  }

  void count() {
    if (++steps_ == position_) {
      raise(SIGKILL);
    }
  }

 private:
  int position_;
  int steps_ = 0;
};

struct Row {
  std::string key;
  std::string state;
  std::int64_t mib = 0;
  std::int64_t position = 0;
};

// Empty: no answer, the daemon died.
std::optional<std::map<std::string, Row>> leases_of(Served& served) {
  std::map<std::string, Row> rows;
  const auto answer = served.call("GET", "/v1/leases", "");
  if (!answer.has_value()) return std::nullopt;
  const Result<json::Value> value = json::parse(answer->body);
  for (const json::Value& lease : value->find("leases")->as_array()) {
    Row row;
    row.key = lease.text("key");
    row.state = lease.text("state");
    row.mib = lease.integer("memory_mib");
    row.position = lease.find("queue")->integer("position");
    EXPECT_FALSE(rows.contains(row.key)) << "two leases of the key " << row.key;
    rows[row.key] = row;
  }
  return rows;
}

// What a client does, one call after the other, and what must hold once it was answered.
struct Step {
  std::string verb;  // reserve, confirm, renew, release
  std::string key;
  int mib = 0;
  std::map<std::string, std::string> then;  // key -> state, as far as they were answered for
};

const std::vector<Step>& script() {
  static const std::vector<Step> steps = {
      {"reserve", "a", 6000, {{"a", "granted"}}},
      {"reserve", "b", 6000, {{"a", "granted"}, {"b", "granted"}}},
      {"reserve", "c", 7000, {{"c", "waiting"}}},
      {"reserve", "d", 7000, {{"c", "waiting"}, {"d", "waiting"}}},
      {"confirm", "a", 0, {{"a", "active"}}},
      {"renew", "a", 0, {{"a", "active"}}},
      {"release", "b", 0, {{"b", "released"}, {"c", "granted"}, {"d", "waiting"}}},
      {"confirm", "c", 0, {{"c", "active"}}},
      {"reserve", "e", 7000, {{"e", "waiting"}}},
      {"release", "d", 0, {{"d", "cancelled"}, {"e", "waiting"}}},
      {"release", "c", 0, {{"c", "released"}, {"e", "granted"}}},
      {"release", "a", 0, {{"a", "released"}}},
  };
  return steps;
}

// What no moment may show.
void check_books(const std::map<std::string, Row>& rows,
                 const std::map<std::string, std::string>& promised, const std::string& when) {
  std::int64_t held = 0;
  for (const auto& [key, row] : rows) {
    if (row.state == "granted" || row.state == "active" || row.state == "suspect") held += row.mib;
  }
  EXPECT_LE(held, kUsableMib) << when;
  for (const auto& [key, state] : promised) {
    const auto row = rows.find(key);
    ASSERT_NE(row, rows.end()) << when << ": " << key << " is lost";
    // What was answered stands; what was asked since may have come on top.
    const std::string& now = row->second.state;
    const bool later = (state == "waiting" && (now == "granted" || now == "cancelled")) ||
                       (state == "granted" && (now == "active" || now == "released")) ||
                       (state == "active" && now == "released");
    EXPECT_TRUE(now == state || later) << when << ": " << key << " was " << state << ", is " << now;
  }
  const auto c = rows.find("c");
  const auto d = rows.find("d");
  if (c != rows.end() && d != rows.end() && c->second.state == "waiting" &&
      d->second.state == "waiting") {
    EXPECT_LT(c->second.position, d->second.position) << when;
  }
}

std::optional<net::Response> play(Served& served, const Step& step,
                                  std::map<std::string, std::string>& ids) {
  if (step.verb == "reserve") {
    auto answer = served.call("POST", "/v1/leases",
                              fmt::format(R"({{"key":"{}","memory":{}}})", step.key, step.mib));
    if (answer.has_value()) {
      const Result<json::Value> value = json::parse(answer->body);
      if (value.ok()) ids[step.key] = value->text("id");
    }
    return answer;
  }
  return served.call("POST", fmt::format("/v1/leases/{}/{}", ids[step.key], step.verb), "{}");
}

// Plays the script with a kill at `position`. False: the script ended before it came to that.
bool play_with_kill(int position) {
  const Folder folder;
  KillAt kill_at(position);
  auto served = std::make_unique<Served>(folder.path(), &kill_at, [&kill_at] { kill_at.count(); });
  bool killed = false;
  const auto revive = [&](const std::map<std::string, std::string>& promised,
                          const std::string& when) {
    killed = true;
    served.reset();  // its lock goes when it has ended
    served = std::make_unique<Served>(folder.path());
    ASSERT_TRUE(served->ready()) << when;
    const auto rows = leases_of(*served);
    ASSERT_TRUE(rows.has_value()) << when;
    check_books(*rows, promised, when);
  };
  std::map<std::string, std::string> promised;
  std::map<std::string, std::string> ids;
  if (!served->ready())
    revive(promised, fmt::format("killed at step {}, before it was ready", position));
  for (const Step& step : script()) {
    const std::string when =
        fmt::format("killed at step {}, near {} {}", position, step.verb, step.key);
    auto answer = play(*served, step, ids);
    if (!answer.has_value()) {
      revive(promised, when);
      answer = play(*served, step, ids);
    }
    EXPECT_TRUE(answer.has_value() && answer->status / 100 == 2)
        << when << ": " << (answer.has_value() ? answer->body : "no answer");
    for (const auto& [key, state] : step.then)
      promised[key] = state;
    if (const auto rows = leases_of(*served)) {
      check_books(*rows, promised, when + ", after it");
    } else {
      revive(promised, when + ", after it");
    }
    if (testing::Test::HasFailure()) return false;
  }
  auto rows = leases_of(*served);
  if (!rows.has_value()) {
    revive(promised, fmt::format("killed at step {}, after the last call", position));
    rows = leases_of(*served);
  }
  EXPECT_TRUE(rows.has_value() && rows->size() == 5);
  for (const auto& [key, state] : std::map<std::string, std::string>{{"a", "released"},
                                                                     {"b", "released"},
                                                                     {"c", "released"},
                                                                     {"d", "cancelled"},
                                                                     {"e", "granted"}}) {
    EXPECT_EQ((*rows)[key].state, state) << "killed at step " << position << ": " << key;
  }
  return killed;
}

// All positions, a part per test so that they run side by side.
void play_every(int first, int stride) {
  int position = first;
  while (play_with_kill(position)) {
    if (testing::Test::HasFailure()) return;
    position += stride;
  }
  EXPECT_GT(position, 30) << "the script has hardly any steps: the kills do not reach it";
}

TEST(ServeCrash, LosesAndDoublesNothingAtAnyStepOddOnes) { play_every(1, 2); }

TEST(ServeCrash, LosesAndDoublesNothingAtAnyStepEvenOnes) { play_every(2, 2); }

}  // namespace
}  // namespace berth::serve
