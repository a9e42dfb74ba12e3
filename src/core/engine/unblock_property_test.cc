// What a verdict says would unblock a workload does: in random worlds, every set that is named for
// anybody who waits is carried out on an engine that has lived the same life, and the workload
// starts. And whoever asks for verdicts changes no decision.
//
// A failure prints the seed and the world. BERTH_SEED=N runs that one.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/engine/claim_worlds_test.h"
#include "core/engine/describe.h"
#include "core/engine/random_events_test.h"
#include "core/engine/world_test.h"
#include "core/ledger/ledger.h"

namespace berth::core {
namespace {

using Life = std::vector<Event>;

struct Tally {
  std::int64_t waiting = 0;
  std::int64_t explained = 0;  // of them, with a set at least
  std::int64_t sets = 0;
  std::int64_t freed = 0;
  std::int64_t evicted = 0;
  std::int64_t evicted_several = 0;
  std::int64_t waited = 0;
  std::int64_t gangs = 0;
};

std::string text_of(const Unblock& way) {
  return fmt::format("{} mib {} device {} workloads {} until {}", static_cast<int>(way.kind),
                     way.mib, way.device, fmt::join(way.workloads, ","), way.until.ms());
}

class Carried {
 public:
  Carried(const EngineConfig& config, const Life& life) : engine_(Engine::create(config).value()) {
    for (const Event& event : life) {
      tell(event.time, event.body);
    }
    started_.clear();
  }

  // Whether `uid` starts by it; empty = yes.
  std::string carry_out(const Unblock& way, const std::string& uid) {
    started_.clear();
    switch (way.kind) {
      case Unblock::Kind::free_memory: free_memory(way); break;
      case Unblock::Kind::evict:
        for (const std::string& leaving : way.workloads) {
          evict(leaving);
        }
        break;
      case Unblock::Kind::wait: wait_until(way.until); break;
    }
    return std::ranges::find(started_, uid) != started_.end() ? "" : "it does not start\n" + text_;
  }

  // What is in use on the device and belongs to nobody.
  std::int64_t foreign_mib(const std::string& device) const {
    return Memory::bytes(engine_->ledger().book(engine_->fleet().find_device(device)).foreign)
        .floor_mib();
  }

 private:
  void tell(Time time, EventBody body) {
    now_ = std::max(now_, time);
    const Event event{time, std::move(body)};
    text_ += "  " + describe(event) + "\n";
    for (const Action& action : engine_->apply(event)) {
      text_ += "      " + describe(action, *engine_) + "\n";
      if (const auto* granted = std::get_if<Granted>(&action)) {
        started_.emplace_back(engine_->uid(granted->workload));
        const std::optional<Workload> work = engine_->workload(started_.back());
        const Grant* grant = engine_->grant(started_.back());
        if (grant != nullptr && work->options().max_run.has_value()) {
          ends_.emplace_back(grant->granted_at + *work->options().max_run, started_.back());
        }
      } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
        wake_ = wake->time;
      }
    }
  }

  void evict(const std::string& uid) {
    const std::optional<Workload> work = engine_->workload(uid);
    if (engine_->grant(uid) == nullptr) {
      tell(now_, WorkloadCancelled{uid});  // a gang
    } else if (work->options().restartable) {
      tell(now_, GrantLost{.uid = uid, .why = "evicted", .requeue = true});
    } else {
      tell(now_, GrantReleased{uid});
    }
  }

  void free_memory(const Unblock& way) {
    const DeviceId device = engine_->fleet().find_device(way.device);
    const DeviceBook& book = engine_->ledger().book(device);
    DeviceObserved sample;
    sample.uuid = way.device;
    sample.sampled_at = now_;
    sample.attributed = true;
    sample.used = Memory::bytes(book.foreign - Memory::mib(way.mib).in_bytes());
    tell(now_, sample);
  }

  // As time goes: what is due in the engine, and work that ends when it said so.
  void wait_until(Time until) {
    const Time begin = now_;
    while (true) {
      std::optional<std::pair<Time, std::string>> end;
      for (const auto& [at, uid] : ends_) {
        const Grant* grant = engine_->grant(uid);
        const std::optional<Duration> run =
            grant == nullptr ? std::nullopt : engine_->workload(uid)->options().max_run;
        const bool runs = run.has_value() && grant->state != GrantState::promised &&
                          grant->granted_at + *run == at;
        if (runs && at > begin && (!end.has_value() || std::pair(at, uid) < *end)) {
          end = {at, uid};
        }
      }
      const bool due =
          wake_.has_value() && *wake_ > now_ && (!end.has_value() || *wake_ < end->first);
      const Time next = due ? *wake_ : end.has_value() ? end->first : until + Duration(1);
      if (next > until) {
        return;
      }
      if (due) {
        tell(next, TimeReached{});
      } else {
        tell(next, GrantReleased{end->second});
      }
    }
  }

  std::unique_ptr<Engine> engine_;
  Time now_;
  std::optional<Time> wake_;
  std::vector<std::string> started_;
  std::vector<std::pair<Time, std::string>> ends_;
  std::string text_;
};

// Everybody who waits at the end of the life is asked; empty = all is well.
std::string check(const EngineConfig& config, const Life& life, Tally& tally) {
  const auto asked = Engine::create(config).value();
  for (const Event& event : life) {
    asked->apply(event);
  }
  const bool measured = std::ranges::any_of(
      life, [](const Event& event) { return std::holds_alternative<DeviceObserved>(event.body); });
  for (const WaitingItem& item : asked->waiting()) {
    const std::string uid(item.uid);
    const Verdict verdict = asked->explain(uid).value();
    if (const Result<void> sound = verify(*asked); !sound.ok()) {
      return uid + " was explained: " + sound.error().to_string();
    }
    ++tally.waiting;
    tally.explained += verdict.unblock.empty() ? 0 : 1;
    tally.gangs += verdict.gang.has_value() && !verdict.unblock.empty() ? 1 : 0;
    for (const Unblock& way : verdict.unblock) {
      Carried world(config, life);
      if (way.kind != Unblock::Kind::free_memory && measured) {
        continue;  // until the next sample nobody knows that what has left holds nothing
      }
      const bool foreign =
          way.kind != Unblock::Kind::free_memory || world.foreign_mib(way.device) >= way.mib;
      if (!foreign) {
        continue;  // what grants hold does not come free in parts
      }
      const std::string wrong = world.carry_out(way, uid);
      ++tally.sets;
      tally.freed += way.kind == Unblock::Kind::free_memory ? 1 : 0;
      tally.evicted += way.kind == Unblock::Kind::evict ? 1 : 0;
      tally.evicted_several += way.workloads.size() > 1 ? 1 : 0;
      tally.waited += way.kind == Unblock::Kind::wait ? 1 : 0;
      if (!wrong.empty()) {
        return fmt::format("{} is said to start by {}, and {}", uid, text_of(way), wrong);
      }
    }
  }
  return "";
}

// The world as it was lived: who is asked to leave does when the harbour answers.
Life life_of(const std::vector<ClaimStep>& steps) {
  Life life;
  Time now{1000};
  const auto engine = Engine::create({}).value();
  std::vector<std::string> leaving;
  const auto tell = [&](EventBody body) {
    life.push_back({now, std::move(body)});
    for (const Action& action : engine->apply(life.back())) {
      if (const auto* evicted = std::get_if<Evicted>(&action)) {
        leaving.emplace_back(engine->uid(evicted->workload));
      }
    }
  };
  for (const ClaimStep& step : steps) {
    now = now + step.after;
    if (const auto* body = std::get_if<EventBody>(&step.what)) {
      tell(*body);
      continue;
    }
    const std::vector<std::string> gone = std::move(leaving);
    leaving.clear();
    for (const std::string& uid : gone) {
      const std::optional<Workload> work = engine->workload(uid);
      if (!work.has_value() || engine->grant(uid) == nullptr) {
        continue;
      }
      if (work->options().restartable) {
        tell(GrantLost{.uid = uid, .why = "evicted", .requeue = true});
      } else {
        tell(GrantReleased{uid});
      }
    }
  }
  return life;
}

template <class Make>
void check_seeds(std::uint64_t many, Tally& tally, const Make& make) {
  const char* const one = std::getenv("BERTH_SEED");
  const char* const soak = std::getenv("BERTH_SOAK");
  const std::uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const std::uint64_t last = one != nullptr ? first : soak != nullptr ? many * 30 : many;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const auto [config, life] = make(seed);
    const std::string wrong = check(config, life, tally);
    ASSERT_EQ(wrong, "") << "seed " << seed;
  }
}

// The worlds reach what they are for.
bool is_asked_for_one() { return std::getenv("BERTH_SEED") != nullptr; }

TEST(UnblockProperty, WhatIsSaidToUnblockAClaimantDoes) {
  Tally tally;
  check_seeds(1'500, tally, [](std::uint64_t seed) {
    return std::pair(EngineConfig{}, life_of(ClaimWorlds(seed).world(12 + seed % 40)));
  });
  if (!is_asked_for_one()) {
    EXPECT_GT(tally.evicted, 30);
    EXPECT_GT(tally.evicted_several, 0);
    EXPECT_GT(tally.waited, 1);
    EXPECT_GT(tally.gangs, 3);
  }
}

TEST(UnblockProperty, WhatIsSaidToUnblockWhereNoQueuesAreConfiguredDoes) {
  Tally tally;
  check_seeds(2'000, tally, [](std::uint64_t seed) {
    RandomEvents random(seed);
    EngineConfig config = random.config();
    Life life = random.history(20 + seed % 60);
    std::erase_if(
        life, [](const Event& event) { return std::holds_alternative<QueuesChanged>(event.body); });
    if (seed % 2 == 0) {  // nobody measures: what leaves takes its memory along
      config.max_sample_age.reset();
      std::erase_if(life, [](const Event& event) {
        return std::holds_alternative<DeviceObserved>(event.body);
      });
    }
    return std::pair(config, life);
  });
  if (!is_asked_for_one()) {
    EXPECT_GT(tally.freed, 3);
    EXPECT_GT(tally.evicted, 10);
    EXPECT_GT(tally.waited, 10);
  }
}

// One engine is asked about everybody after every event, the other about nobody.
TEST(UnblockProperty, WhoAsksChangesNoDecision) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    RandomEvents random(seed);
    const EngineConfig config = seed % 2 == 0 ? EngineConfig{} : random.config();
    const Life life = seed % 2 == 0 ? life_of(ClaimWorlds(seed).world(40)) : random.history(60);
    const auto asked = Engine::create(config).value();
    const auto left_alone = Engine::create(config).value();
    for (const Event& event : life) {
      std::string one;
      std::string other;
      for (const Action& action : asked->apply(event)) {
        one += describe(action, *asked) + "\n";
      }
      for (const Action& action : left_alone->apply(event)) {
        other += describe(action, *left_alone) + "\n";
      }
      ASSERT_EQ(one, other) << "seed " << seed << " at " << describe(event);
      for (const WaitingItem& item : asked->waiting()) {
        (void)asked->explain(item.uid).value();
      }
    }
  }
}

}  // namespace
}  // namespace berth::core
