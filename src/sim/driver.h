// Driver: an engine in virtual time, fed by events alone, with the simulator's own count beside it.
//
//   TRY(std::unique_ptr<Driver> driver, Driver::create(scene, setup));
//   TRY(const bool placed, driver->submit({.uid = "p1", .pod = 0, .request = &request}));
//   TRY_VOID(driver->release("p1"));
//
// Every event and its answer go through the decision log, as in every harbour; a submission is
// timed from the call to its return, log record included (interfaces page, 1). With `record` the
// log is kept, else it is forgotten at once. Thread-safety: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/engine/engine.h"
#include "sim/files.h"
#include "sim/fleet_state.h"
#include "sim/metrics.h"
#include "sim/scene.h"

namespace berth::sim {

struct RunHooks {
  const std::atomic<bool>* cancelled = nullptr;         // looked at between events
  std::atomic<std::int64_t>* events = nullptr;          // counted up as events are done
  OutputFile* record = nullptr;                         // takes the decision log
  std::function<void(std::int64_t)> on_decisions = {};  // generated load: timed decisions so far
  std::int64_t (*now_nanos)() = nullptr;                // nullptr: the machine's steady clock
};

struct DriverSetup {
  std::string policy;
  std::uint64_t policy_seed = 0;
  std::vector<std::uint32_t> node_ranks;  // one per node of the scene
  bool check = false;                     // verify the engine after every event
  RunHooks hooks = {};
};

class Driver {
 public:
  // Errors: what the engine says of policy, nodes or history.
  static Result<std::unique_ptr<Driver>> create(const Scene& scene, DriverSetup setup);

  struct Submission {
    std::string uid;
    const core::Request* request = nullptr;
  };

  // Now or never: true if it was placed. Errors: a failed check, cancelled (code exhausted).
  Result<bool> submit(Submission submission);
  // Gives back what `uid` was granted. Requires that it was placed and not yet released.
  Result<void> release(const std::string& uid);

  void advance_to(Time time) { now_ = time; }

  Time now() const { return now_; }

  const FleetState& state() const { return state_; }

  const core::Engine& engine() const { return *engine_; }

  LatencyStats& latency() { return latency_; }

  // Whether releases will come: placements are remembered only then.
  void keep_placements(bool keep) { keep_placements_ = keep; }

  // The simulator counted grants, the ledger keeps books: both must say the same of every node.
  Result<void> compare_books() const;
  // Hands what is left of the decision log to the record.
  Result<void> finish();

 private:
  Driver(const Scene& scene, DriverSetup setup);

  Result<void> tell(core::EventBody body);
  Result<void> after_event();
  Placement placement_of(const core::Granted& granted) const;

  const Scene& scene_;
  DriverSetup setup_;
  std::unique_ptr<core::Engine> engine_;
  FleetState state_;
  LatencyStats latency_;
  Time now_;
  std::string log_;
  bool keep_placements_ = false;
  std::unordered_map<std::string, Placement> placements_;
};

// Nanoseconds of the machine's steady clock.
std::int64_t steady_nanos();

}  // namespace berth::sim
