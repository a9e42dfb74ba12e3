// Random worlds of queues that take capacity back from each other, against a model that keeps
// nothing but who holds what: every eviction is justified, nobody is displaced in turns, and once
// nothing happens any more everything comes to rest.
//
// A failure prints the seed and the shortest world that still fails. BERTH_SOAK=1 runs 150,000
// worlds; BERTH_SEED=N runs that one, also where it ends the process; BERTH_SEEDS=N-M lists each of
// these that fails, in a line.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/shrink_test.h"
#include "core/engine/claim_worlds_test.h"
#include "core/engine/decision_log.h"
#include "core/engine/describe.h"
#include "core/engine/naive_claims_test.h"
#include "core/engine/replay.h"
#include "core/engine/world_test.h"

namespace berth::core {
namespace {

struct Tally {
  std::int64_t by_rule[8] = {};
  std::int64_t evictions = 0;
  std::int64_t held_times = 0;
};

// One world as it runs: the engine, the model and the harbour between them.
class WorldRun {
 public:
  explicit WorldRun(bool written = false, const EngineConfig& config = {})
      : engine_(Engine::create(config).value()), written_(written) {}

  // What is wrong, in words; empty when all is well.
  std::string run(const std::vector<ClaimStep>& steps) {
    for (std::size_t i = 0; i < steps.size() && wrong_.empty(); ++i) {
      now_ = now_ + steps[i].after;
      if (const auto* answer = std::get_if<Answer>(&steps[i].what)) {
        answer_evictions(answer->all);
      } else {
        tell(std::get<EventBody>(steps[i].what));
      }
    }
    come_to_rest();
    return wrong_;
  }

  const std::string& text() const { return text_; }
  const std::vector<Event>& events() const { return events_; }
  const NaiveClaims& model() const { return model_; }

 private:
  void tell(EventBody body) {
    events_.push_back({now_, std::move(body)});
    const Event& event = events_.back();
    const std::span<const Action> actions = engine_->apply(event);
    for (const Action& action : actions) {
      if (const auto* wake = std::get_if<WakeAt>(&action)) {
        wake_ = wake->time;
      }
    }
    if (written_) {
      fmt::format_to(std::back_inserter(text_), "  {}\n", describe(event));
      for (const Action& action : actions) {
        fmt::format_to(std::back_inserter(text_), "      {}\n", describe(action, *engine_));
      }
    }
    wrong_ = model_.follow(event, actions, *engine_);
    if (wrong_.empty()) {
      const Result<void> sound = verify(*engine_);
      wrong_ = sound.ok() ? "" : sound.error().message();
    }
  }

  void answer_evictions(bool all) {
    for (const std::string& uid : model_.asked_to_leave()) {
      if (model_.comes_back(uid)) {
        tell(GrantLost{.uid = uid, .why = "evicted", .requeue = true});
      } else {
        tell(GrantReleased{uid});
      }
      if (!all || !wrong_.empty()) {
        return;
      }
    }
  }

  // Nothing comes from outside any more but answers: after a while nothing happens.
  void come_to_rest() {
    constexpr int kMostRounds = 120;
    constexpr Duration kQuiet{std::int64_t{4} * 3'600'000};
    Time last = now_;
    for (int round = 0; round < kMostRounds; ++round) {
      if (!wrong_.empty()) {
        return;
      }
      if (!model_.asked_to_leave().empty()) {
        answer_evictions(true);
        last = now_;
        continue;
      }
      if (now_ > last + kQuiet) {
        return;
      }
      const Time least = now_ + Duration(600'000);
      now_ = wake_.has_value() && *wake_ > now_ ? std::min(*wake_, least) : least;
      tell(TimeReached{});
      last = model_.moved() ? now_ : last;
    }
    wrong_ = "it does not come to rest";
  }

  std::unique_ptr<Engine> engine_;
  NaiveClaims model_;
  Time now_{1000};
  std::optional<Time> wake_;
  std::vector<Event> events_;
  bool written_ = false;
  std::string text_;
  std::string wrong_;
};

std::vector<ClaimStep> world_of(std::uint64_t seed) {
  return ClaimWorlds(seed).world(12 + static_cast<std::size_t>(seed % 40));
}

std::string failure_of(const std::vector<ClaimStep>& steps, Tally* tally = nullptr) {
  WorldRun run;
  std::string wrong = run.run(steps);
  if (tally != nullptr) {
    tally->evictions += run.model().evictions();
    tally->held_times += run.model().held_times();
    for (std::size_t rule = 0; rule < std::size(tally->by_rule); ++rule) {
      tally->by_rule[rule] += run.model().evictions(static_cast<Evicted::Rule>(rule));
    }
  }
  return wrong;
}

std::string queues_of(const QueueConfig& config) {
  std::string text;
  for (const QueueSpec& queue : config.queues) {
    fmt::format_to(std::back_inserter(text), "    queue {}: parent {}, priority {}", queue.name,
                   queue.parent, queue.priority);
    for (const QueueDimension& d : queue.dimensions) {
      fmt::format_to(std::back_inserter(text), "; {}: deserved {} limit {} reserved {} weight {}",
                     dimension_name(d), d.deserved, d.limit, d.reserved, d.weight);
    }
    fmt::format_to(std::back_inserter(text),
                   "; reclaim {} preempt {} order {} run {}/{} delay {} caps {}/{} stop {}\n",
                   static_cast<int>(queue.reclaim), static_cast<int>(queue.preempt),
                   static_cast<int>(queue.order), queue.min_runtime.reclaim.count(),
                   queue.min_runtime.preempt.count(), queue.preemption_delay.count(),
                   queue.evictions.per_workload_per_hour, queue.evictions.per_claim,
                   static_cast<int>(queue.stop));
  }
  return text;
}

std::string transcript(const std::vector<ClaimStep>& steps) {
  std::string text;
  for (const ClaimStep& step : steps) {
    const auto* body = std::get_if<EventBody>(&step.what);
    const auto* queues = body == nullptr ? nullptr : std::get_if<QueuesChanged>(body);
    const auto* node = body == nullptr ? nullptr : std::get_if<NodeUpserted>(body);
    const auto* work = body == nullptr ? nullptr : std::get_if<WorkloadSubmitted>(body);
    if (queues != nullptr) {
      text += queues_of(queues->config);
    } else if (node != nullptr) {
      fmt::format_to(std::back_inserter(text), "    node {}: {} x {} in {}\n", node->node.name,
                     node->node.devices.size(), node->node.devices.front().model,
                     node->node.labels.at("rack"));
    } else if (work != nullptr) {
      const WorkloadOptions& o = work->workload.options();
      fmt::format_to(std::back_inserter(text),
                     "    {}: queue {} priority {} preemptible {} restartable {} delay {}",
                     work->workload.uid(), o.queue, o.priority, o.preemptible, o.restartable,
                     o.preemption_delay.count());
      if (const Gang* gang = work->workload.gang()) {
        fmt::format_to(std::back_inserter(text), " gang min {} required '{}' whole {}",
                       gang->root.min, gang->root.topology.required, gang->options.whole_only);
      }
      text += "\n";
    }
  }
  return text;
}

// A failure without its numbers: what stays the same while its world shrinks.
std::string kind_of(std::string failure) {
  std::erase_if(failure, [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
  return failure;
}

std::string shortest_failure(const std::vector<ClaimStep>& steps) {
  const std::string kind = kind_of(failure_of(steps));
  const std::vector<ClaimStep> shortest = shrink(
      steps, [&](const std::vector<ClaimStep>& some) { return kind_of(failure_of(some)) == kind; });
  WorldRun run(true);
  const std::string wrong = run.run(shortest);
  return wrong + "\n" + transcript(shortest) + run.text();
}

// Runs in a child, for worlds that break an assertion or never end: what it says, or how it died.
std::string in_a_child(const std::function<std::string()>& what) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return "no pipe";
  }
  const pid_t child = fork();
  if (child == 0) {
    (void)std::freopen("/dev/null", "w", stderr);
    alarm(20);
    const std::string said = what().substr(0, 4000);  // fits into the pipe
    const auto written = write(ends[1], said.data(), said.size());
    _exit(written < 0 ? 1 : 0);
  }
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  std::array<char, 4096> buffer{};
  const auto size = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  if (WIFSIGNALED(status)) {
    return fmt::format("ends the process by signal {}", WTERMSIG(status));
  }
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))};
}

bool crashes(const std::vector<ClaimStep>& steps) {
  const auto run = [&] {
    (void)failure_of(steps);
    return std::string();
  };
  return !in_a_child(run).empty();
}

volatile std::uint64_t running_seed = 0;

void name_the_seed(int signal) {
  std::fprintf(stderr, "while running a random world; again: BERTH_SEED=%llu\n",
               static_cast<unsigned long long>(running_seed));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

TEST(ClaimsPropertySoak, SeedsAskedFor) {
  const char* const asked = std::getenv("BERTH_SEEDS");
  if (asked == nullptr) {
    GTEST_SKIP() << "BERTH_SEEDS=N-M lists those that fail";
  }
  char* end = nullptr;
  const std::uint64_t first = std::strtoull(asked, &end, 10);
  const std::uint64_t last = *end == '-' ? std::strtoull(end + 1, nullptr, 10) : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const std::vector<ClaimStep> steps = world_of(seed);
    EXPECT_EQ(in_a_child([&] { return failure_of(steps); }), "") << "seed " << seed;
  }
}

// As in a fleet on which too much runs for everybody to be asked.
TEST(ClaimsProperty, ABoundedSearchIsAsJust) {
  constexpr std::uint64_t kWorlds = 800;
  EngineConfig bounded;
  bounded.exact_runners = 0;
  const auto failure = [&](const std::vector<ClaimStep>& steps) {
    return WorldRun(false, bounded).run(steps);
  };
  std::int64_t evictions = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    running_seed = seed;
    const std::vector<ClaimStep> steps = world_of(seed);
    WorldRun run(false, bounded);
    const std::string wrong = run.run(steps);
    evictions += run.model().evictions();
    if (!wrong.empty()) {
      const std::string kind = kind_of(wrong);
      WorldRun again(true, bounded);
      const std::vector<ClaimStep> shortest =
          shrink(steps, [&](const auto& some) { return kind_of(failure(some)) == kind; });
      FAIL() << "seed " << seed << ": " << again.run(shortest) << "\n"
             << transcript(shortest) << again.text();
    }
  }
  EXPECT_GT(evictions, 500);
}

TEST(ClaimsPropertySoak, EveryEvictionIsJustifiedAndEverythingComesToRest) {
  const char* const one = std::getenv("BERTH_SEED");
  const bool soak = std::getenv("BERTH_SOAK") != nullptr;
  const std::uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const std::uint64_t last = one != nullptr ? first : soak ? 150'000 : 5'000;
  Tally tally;
  std::signal(SIGABRT, name_the_seed);
  std::signal(SIGSEGV, name_the_seed);
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    running_seed = seed;
    const std::vector<ClaimStep> steps = world_of(seed);
    if (one != nullptr && crashes(steps)) {
      const std::vector<ClaimStep> shortest = shrink(steps, crashes);
      FAIL() << "seed " << seed << " ends the process\n" << transcript(shortest);
    }
    const std::string failure = failure_of(steps, &tally);
    if (!failure.empty()) {
      FAIL() << "seed " << seed << ": " << failure << "\n" << shortest_failure(steps);
    }
  }
  // The worlds reach what they are for.
  if (one == nullptr) {
    for (const Evicted::Rule rule : {Evicted::Rule::guarantee, Evicted::Rule::fair_share,
                                     Evicted::Rule::priority, Evicted::Rule::consolidation}) {
      EXPECT_GT(tally.by_rule[static_cast<std::size_t>(rule)], 100) << static_cast<int>(rule);
    }
    EXPECT_GT(tally.held_times, 1'000);
  }
}

// The same world with its nodes and the entries of its queue files in another order.
std::vector<ClaimStep> shuffled(std::vector<ClaimStep> steps, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto is_node = [](const ClaimStep& step) {
    const auto* body = std::get_if<EventBody>(&step.what);
    return body != nullptr && std::holds_alternative<NodeUpserted>(*body);
  };
  const auto first = std::ranges::find_if(steps, is_node);
  std::shuffle(first, std::find_if_not(first, steps.end(), is_node), random);
  for (ClaimStep& step : steps) {
    auto* body = std::get_if<EventBody>(&step.what);
    auto* queues = body == nullptr ? nullptr : std::get_if<QueuesChanged>(body);
    if (queues != nullptr) {
      std::shuffle(queues->config.queues.begin(), queues->config.queues.end(), random);
    }
  }
  return steps;
}

// What was said and answered once the nodes and the first queues were there.
std::string answers(const std::vector<ClaimStep>& steps) {
  WorldRun run(true);
  (void)run.run(steps);
  return run.text().substr(run.text().find(" queues\n"));
}

TEST(ClaimsProperty, DecidesTheSameInWhateverOrderNodesAndQueuesCame) {
  const std::uint64_t last = std::getenv("BERTH_SOAK") != nullptr ? 20'000 : 800;
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    const std::vector<ClaimStep> steps = world_of(seed);
    ASSERT_EQ(answers(steps), answers(shuffled(steps, seed))) << "seed " << seed;
  }
}

TEST(ClaimsProperty, AnEngineRebuiltFromItsLogDecidesTheSame) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    WorldRun run;
    ASSERT_EQ(run.run(world_of(seed)), "") << "seed " << seed;
    const std::unique_ptr<Engine> engine = Engine::create({}).value();
    std::string log;
    append_header(log, engine->config());
    for (const Event& event : run.events()) {
      append_event(log, event);
      append_actions(log, engine->apply(event), *engine);
    }
    const Result<ReplayReport> report = replay(log);
    ASSERT_TRUE(report.ok()) << report.error().message();
    ASSERT_FALSE(report->difference.has_value())
        << "seed " << seed << ": " << describe(*report->difference);
  }
}

// Lessons 4, 5 and 15: shares that differ by less than one job are left alone.
TEST(ClaimsProperty, NearEqualSharesAreLeftAloneForAThousandCycles) {
  const std::unique_ptr<Engine> engine = Engine::create({}).value();
  NaiveClaims model;
  Time now{0};
  const auto tell = [&](EventBody body) {
    const Event event{now, std::move(body)};
    ASSERT_EQ(model.follow(event, engine->apply(event), *engine), "");
  };
  tell(NodeUpserted{node_of("n0", 11, 24)});
  QueueConfig config;
  for (const std::string name : {"a", "b", "c"}) {
    QueueSpec& queue = config.queues.emplace_back();
    queue.name = name;
    queue.order = name == "c" ? QueueOrder::best_effort : QueueOrder::fifo;
    queue.dimensions = {{.device_class = "*", .kind = DimensionKind::devices, .deserved = 2000}};
  }
  tell(QueuesChanged{config});
  std::int64_t made = 0;
  const auto submit = [&](const std::string& queue) {
    WorkloadOptions options{.queue = queue};
    options.preemptible = true;
    tell(WorkloadSubmitted{Workload::task(fmt::format("{}{}", queue, made++),
                                          asking(DeviceAsk::whole_devices(1)), options)});
  };
  for (int i = 0; i < 6; ++i) {
    for (const QueueSpec& queue : config.queues) {
      submit(queue.name);
    }
  }
  const std::int64_t before = model.evictions();
  std::mt19937_64 random(1);
  for (int cycle = 0; cycle < 1000; ++cycle) {
    now = now + Duration(1000);
    std::vector<std::string> running;
    for (std::int64_t i = 0; i < made; ++i) {
      for (const QueueSpec& queue : config.queues) {
        const std::string uid = fmt::format("{}{}", queue.name, i);
        if (engine->outcome(uid) == Outcome::granted) {
          running.push_back(uid);
        }
      }
    }
    ASSERT_EQ(running.size(), 11U);
    const std::string ends = running[random() % running.size()];
    tell(GrantReleased{ends});
    submit(ends.substr(0, 1));
    ASSERT_EQ(model.evictions(), before) << "in cycle " << cycle;
  }
}

}  // namespace
}  // namespace berth::core
