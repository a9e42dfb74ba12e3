// Random histories of everything that can happen, against a model that keeps nothing.
//
// A failure prints the seed and the shortest sequence of events that still fails, as text.
// BERTH_SOAK=1 runs ten million events; BERTH_SEED=N runs that one history, also
// one that ends the process.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/shrink_test.h"
#include "core/engine/decision_log.h"
#include "core/engine/describe.h"
#include "core/engine/engine.h"
#include "core/engine/naive_model_test.h"
#include "core/engine/random_events_test.h"
#include "core/engine/replay.h"

namespace berth::core {
namespace {

constexpr std::size_t kEvents = 200;

struct History {
  EngineConfig config;
  std::vector<Event> events;
};

History history_of(std::uint64_t seed) {
  RandomEvents random(seed);
  EngineConfig config = random.config();
  return {std::move(config), random.history(kEvents)};
}

struct Tally {
  std::int64_t granted = 0;
  std::int64_t promised = 0;
  std::int64_t never = 0;
};

// Everything that is known ends: the books must be empty afterwards.
Result<void> finish(Engine& engine, NaiveModel& model) {
  for (const std::string& uid : model.uids()) {
    const Event event{engine.now(), WorkloadCancelled{uid}};
    TRY_VOID(model.follow(event, engine.apply(event), engine));
  }
  if (!model.uids().empty() || engine.waiting_count() != 0) {
    return Error(ErrorCode::internal, "somebody is left after everybody was cancelled");
  }
  for (std::size_t i = 0; i < engine.fleet().device_slots(); ++i) {
    const DeviceBook& book = engine.ledger().book(DeviceId(i));
    if (!book.holdings.empty() ||
        book.requests + book.charged + book.limits + book.nano + book.compute + book.releasing !=
            0) {
      return Error(ErrorCode::internal, "a device still has something on its books at the end");
    }
  }
  return success();
}

// The first thing that is wrong, in words; empty when all is well.
std::string failure_of(const EngineConfig& config, const std::vector<Event>& events,
                       Tally* tally = nullptr) {
  const std::unique_ptr<Engine> engine = Engine::create(config).value();
  NaiveModel model(config);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (std::holds_alternative<DeviceObserved>(events[i].body)) {
      // What deadlines end does not explain the sample: the model must see them first.
      const Event tick{events[i].time, TimeReached{}};
      const Result<void> ticked = model.follow(tick, engine->apply(tick), *engine);
      if (!ticked.ok()) {
        return fmt::format("before event {}: {}", i + 1, ticked.error().message());
      }
    }
    const Result<void> result = model.follow(events[i], engine->apply(events[i]), *engine);
    if (!result.ok()) {
      return fmt::format("after event {}: {}", i + 1, result.error().message());
    }
  }
  const Result<void> end = finish(*engine, model);
  if (tally != nullptr) {
    tally->granted += model.granted();
    tally->promised += model.promised();
    tally->never += model.never();
  }
  return end.ok() ? "" : "at the end: " + end.error().message();
}

// Events and answers as people read them.
std::string transcript(const EngineConfig& config, const std::vector<Event>& events) {
  std::string text = fmt::format(
      "policy {}, reservations {}, cap {}, sample age {} ms, burst {} %, "
      "horizon {} ms\n",
      config.policy, config.reservations, config.device_cap.value_or(0),
      config.max_sample_age.value_or(Duration(0)).count(), config.limit_overcommit_percent,
      config.releasing_horizon.count());
  const std::unique_ptr<Engine> engine = Engine::create(config).value();
  for (const Event& event : events) {
    fmt::format_to(std::back_inserter(text), "  {}\n", describe(event));
    for (const Action& action : engine->apply(event)) {
      fmt::format_to(std::back_inserter(text), "      {}\n", describe(action, *engine));
    }
  }
  return text;
}

std::string shortest_failure(const History& history) {
  const std::vector<Event> shortest = shrink(history.events, [&](const std::vector<Event>& some) {
    return !failure_of(history.config, some).empty();
  });
  return failure_of(history.config, shortest) + "\n" + transcript(history.config, shortest);
}

// Whether the events end the process: run in a child, for histories that break an assertion.
bool crashes(const EngineConfig& config, const std::vector<Event>& events) {
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    (void)failure_of(config, events);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

std::string shortest_crash(const History& history) {
  const std::vector<Event> shortest = shrink(history.events, [&](const std::vector<Event>& some) {
    return crashes(history.config, some);
  });
  return "it ends the process with its last event\n" +
         transcript(history.config, {shortest.begin(), shortest.end() - 1}) + "  " +
         describe(shortest.back()) + "\n";
}

// The history that runs, for those that end the process.
volatile std::uint64_t running_seed = 0;

void name_the_seed(int signal) {
  std::fprintf(stderr, "while running a random history; again: BERTH_SEED=%llu\n",
               static_cast<unsigned long long>(running_seed));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

TEST(EngineProperty, KeepsEveryPromiseOfTheContractWhateverHappens) {
  const char* const one = std::getenv("BERTH_SEED");
  const bool soak = std::getenv("BERTH_SOAK") != nullptr;
  const std::uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const std::uint64_t last = one != nullptr ? first : soak ? 50'000 : 500;
  Tally tally;
  std::signal(SIGABRT, name_the_seed);
  std::signal(SIGSEGV, name_the_seed);
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    running_seed = seed;
    const History history = history_of(seed);
    if (one != nullptr && crashes(history.config, history.events)) {
      FAIL() << "seed " << seed << ": " << shortest_crash(history);
    }
    const std::string failure = failure_of(history.config, history.events, &tally);
    if (!failure.empty()) {
      FAIL() << "seed " << seed << ": " << failure << "\n" << shortest_failure(history);
    }
  }
  // The histories reach what they are for.
  if (one == nullptr) {
    EXPECT_GT(tally.granted, 4'500);
    EXPECT_GT(tally.promised, 20);
    EXPECT_GT(tally.never, 500);
  }
}

std::string log_of(const History& history) {
  const std::unique_ptr<Engine> engine = Engine::create(history.config).value();
  std::string log;
  append_header(log, history.config);
  for (const Event& event : history.events) {
    append_event(log, event);
    append_actions(log, engine->apply(event), *engine);
  }
  return log;
}

TEST(EngineProperty, GivesTheSameLogForTheSameEventsAndReplaysIt) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const History history = history_of(seed);
    const std::string log = log_of(history);
    ASSERT_EQ(log, log_of(history)) << "seed " << seed;
    const Result<ReplayReport> report = replay(log);
    ASSERT_TRUE(report.ok()) << report.error().message();
    ASSERT_FALSE(report->difference.has_value())
        << "seed " << seed << ": " << describe(*report->difference);
    ASSERT_EQ(report->records, history.events.size());
  }
}

// Answers by name, so that ids do not matter.
std::string answers(Engine& engine, const Event& event) {
  std::string text;
  for (const Action& action : engine.apply(event)) {
    fmt::format_to(std::back_inserter(text), "{}\n", describe(action, engine));
  }
  return text;
}

// The nodes that a history begins with, each device on one of them only.
std::vector<Event> separate_nodes(std::vector<Event> nodes) {
  std::set<std::string> seen;
  for (Event& event : nodes) {
    std::vector<Device>& devices = std::get<NodeUpserted>(event.body).node.devices;
    std::erase_if(devices, [&](const Device& device) { return !seen.insert(device.uuid).second; });
  }
  return nodes;
}

TEST(EngineProperty, DecidesTheSameInWhateverOrderTheNodesCame) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    RandomEvents random(seed);
    const EngineConfig config = random.config();
    const std::vector<Event> history = random.history(120);
    const auto rest = history.begin() + 4;
    const std::vector<Event> nodes = separate_nodes({history.begin(), rest});
    std::vector<Event> shuffled = nodes;
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(seed));
    const std::unique_ptr<Engine> a = Engine::create(config).value();
    const std::unique_ptr<Engine> b = Engine::create(config).value();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      (void)a->apply(nodes[i]);
      (void)b->apply(shuffled[i]);
    }
    for (auto event = rest; event != history.end(); ++event) {
      ASSERT_EQ(answers(*a, *event), answers(*b, *event))
          << "seed " << seed << ", policy " << a->config().policy << ": " << describe(*event);
    }
  }
}

}  // namespace
}  // namespace berth::core
