// Engine: events in, actions out.
//
//   Engine engine(EngineConfig{});
//   for (const Action& action : engine.apply(Event{now, WorkloadSubmitted{workload}})) { … }
//
// The engine holds the fleet, the ledger and the waiting workloads, and decides node, device and
// order together on that one state. It starts no thread, reads no clock, opens no file and logs
// nothing: the same events give the same actions, bit for bit, on every build.
//
// Thread-safety: none; one decision thread drives it.
// Invariants: those that verify() (verify.h) recomputes from scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/engine/actions.h"
#include "core/engine/events.h"
#include "core/model/fleet.h"
#include "core/model/verdict.h"

namespace berth::core {

class Ledger;
class QueueTree;

struct EngineConfig {
  std::string policy = "pack";                  // as in `berth policies`, or "nodes=X,devices=Y"
  std::uint64_t policy_seed = 0;                // for `random`
  std::optional<Duration> max_sample_age;       // S; empty = ledger-only: declared capacity counts
  std::int64_t limit_overcommit_percent = 200;  // L4: sum of limits <= usable x this / 100
  std::optional<int> device_cap;                // most grants on one shared device
  bool reservations = true;                 // head-of-line reservation and backfill (queues page 7)
  Duration aging_step{600'000};             // + 1 priority point per step of waiting …
  std::int64_t aging_max = 10;              // … at most this many
  Duration releasing_horizon{120'000};      // how long a release is believed to free room soon (L3)
  std::optional<Memory> whole_foreign_max;  // empty = max(512 MiB, 2 % of total) (interfaces.md 6)
  std::optional<Duration> start_timeout;    // of gangs that name none; empty = none
  std::int64_t search_budget = 200'000;     // most places tried to put one gang or claim together
  // While no more than so many run, what has to leave for a claim is searched for among all of
  // them; beyond, among a bounded choice.
  std::int64_t exact_runners = 64;
  // False: nobody is ever told to leave or move. Who could be placed only so waits, and its verdict
  // counts what a cap of none on evictions keeps where it is.
  bool evictions = true;
  bool operator==(const EngineConfig&) const = default;
};

// One stage of the pass, for `berth simulate` and metrics.
struct StageStats {
  std::string_view name;
  std::int64_t calls = 0;
  std::int64_t rejected = 0;  // answered "no" here
  std::int64_t steps = 0;     // node, device and index visits
  std::int64_t nanos = 0;     // 0 unless a stopwatch was injected
};

// A harbour may lend the engine a stopwatch for stage timers. It never influences a decision.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual std::int64_t nanos() = 0;
};

struct WaitingItem {
  WorkloadId workload;
  std::string_view uid;
  std::int64_t effective_priority = 0;
  Time queued_at;
  Cause cause = Cause::none;
};

class Engine {
 public:
  // Errors: an unknown policy or a figure out of range, with the fix.
  static Result<std::unique_ptr<Engine>> create(EngineConfig config,
                                                Stopwatch* stopwatch = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The actions stay valid until the next call. An event that cannot be obeyed (unknown name,
  // broken rule) changes nothing and is answered with Notice::refused_event.
  std::span<const Action> apply(const Event& event);

  Time now() const;
  bool granting_is_held() const;  // by the last GrantingHeld
  const EngineConfig& config() const;
  const Fleet& fleet() const;
  const QueueTree& queues()
      const;  // as it decides now; the leaf `default` when nobody configured any
  const Ledger& ledger() const;
  // Bookings and entitlements as of the last event; empty until queues were configured.

  // Empty when the workload is unknown.
  const Grant* grant(std::string_view uid) const;
  const Grant* grant(WorkloadId id) const;
  std::string_view uid(WorkloadId id) const;  // also of one that ended in the last apply()
  std::optional<Workload> workload(std::string_view uid) const;
  std::optional<Outcome> outcome(std::string_view uid) const;
  Cause cause(std::string_view uid) const;  // of waiting or never; none otherwise

  // The explained answer, words included. `in_full`: also what would unblock it, which is found by
  // trying (unblock.h). Decisions are the same whether anybody asks or not. Error not_found when
  // the workload is unknown.
  enum class Detail : std::uint8_t { in_short, in_full };
  Result<Verdict> explain(std::string_view uid, Detail detail = Detail::in_full) const;

  std::size_t waiting_count() const;
  std::vector<WaitingItem> waiting() const;  // in the order in which they are tried
  std::vector<StageStats> stages() const;
  std::int64_t steps() const;  // all steps so far: the engine's own measure of work

  class Impl;

  const Impl& impl() const { return *impl_; }  // for verify() and white-box tests

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Recomputes every derived figure from scratch and compares. Error internal naming the first
// difference. For the simulator's --check, property tests and debug builds: cost is the whole
// fleet.
Result<void> verify(const Engine& engine);

}  // namespace berth::core
