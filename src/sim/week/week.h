// Week: what happened on a shared cluster over the horizon of a load, queue by queue. Values.
//
//   TRY(WeekResult week, play_week(scene, spec));      // player.h
//
// Amounts are in the unit of their dimension: MiB, thousandths of a device, thousandths of compute.
// Device time is in milli-devices x ms. Thread-safety: values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "core/engine/actions.h"
#include "core/engine/engine.h"
#include "core/model/device.h"
#include "core/model/verdict.h"
#include "core/queue/queue_config.h"
#include "scenario/load.h"

namespace berth::sim {

// What all runs share. The load must outlive them.
struct WeekScene {
  std::string fleet_name;
  std::vector<core::Node> fleet;
  const scenario::Load* load = nullptr;
};

struct WeekSpec {
  std::string name;  // of the queues: the file as given, or "no queues"
  core::QueueConfig queues = core::default_queues();
  core::EngineConfig engine = {};
  std::uint64_t seed = 42;
  bool check = false;   // verify the engine after every event
  bool explain = true;  // ask for the verdicts of those that wait longest
};

struct WeekDimension {
  std::string name;  // "*/devices"
  std::string device_class;
  core::DimensionKind kind = core::DimensionKind::devices;
};

// One queue in one dimension, sample by sample. Where no queue names the dimension nobody is
// entitled to anything: only `used` is there.
struct ShareSeries {
  std::vector<std::int64_t> used;      // booked
  std::vector<std::int64_t> asked;     // booked or waited for
  std::vector<std::int64_t> deserved;  // D': what it gets back whenever it asks
  std::vector<std::int64_t> fair;      // F: what it is entitled to
};

// A wait from its beginning to the job's first start, or to the end of the horizon.
struct LongWait {
  std::string uid;
  Time from;
  Time until;
  bool started = false;
  core::Cause cause = core::Cause::none;  // the last one
  std::optional<Time> asked_at = {};      // when its verdict was read
  std::string sentence = {};              // what it said
  Duration wait() const { return until - from; }
};

// Jobs of a queue that were evicted for one reason.
struct EvictionGroup {
  core::Evicted::Rule rule = core::Evicted::Rule::guarantee;
  std::string beneficiary;  // its queue; empty: nobody's
  std::int64_t jobs = 0;
  std::int64_t lost = 0;  // device time of runs that began and led to nothing
  std::string example;    // what the first victim was told
};

using CauseTimes = std::array<std::int64_t, core::kCauseCount>;  // ms

struct NeverGroup {
  core::Cause cause = core::Cause::none;
  std::int64_t jobs = 0;
  std::string example;  // the sentence of the first
};

struct QueueWeek {
  std::string name;
  std::string path;  // "root/a/b"
  int depth = 0;     // 0 below the root
  bool leaf = false;
  std::string held;                 // why it is on hold; empty: it is not
  std::vector<ShareSeries> shares;  // by WeekResult::dimensions

  // Of leaves only.
  std::int64_t submitted = 0;
  std::int64_t started = 0;  // at least once
  std::int64_t finished = 0;
  std::int64_t evicted = 0;  // evictions, not jobs
  std::int64_t waiting_at_end = 0;
  std::int64_t running_at_end = 0;
  std::int64_t delivered = 0;            // device time of runs that were not lost
  std::int64_t lost = 0;                 // device time of runs that were
  std::vector<std::int64_t> waits;       // ms to the first start, ascending
  std::vector<CauseTimes> waited;        // by day: how long jobs waited for which cause
  std::vector<LongWait> longest;         // by day of arrival, at most kLongestPerDay, longest first
  std::vector<EvictionGroup> evictions;  // most jobs first
  std::vector<NeverGroup> never;
};

inline constexpr std::size_t kLongestPerDay = 3;

// The fleet, sample by sample.
struct FleetSeries {
  std::vector<std::int64_t> used;     // milli-devices promised
  std::vector<std::int64_t> free;     // milli-devices that may still be promised
  std::vector<std::int64_t> idle;     // devices on which nothing is
  std::vector<std::int64_t> hole;     // the most idle devices on one node
  std::vector<std::int64_t> waiting;  // jobs
};

struct WeekResult {
  std::string name;
  std::int64_t events = 0;    // that the engine was told
  std::int64_t capacity = 0;  // milli-devices
  Duration horizon{};
  std::vector<Time> samples;
  std::vector<WeekDimension> dimensions;  // the first is "*/devices"
  std::vector<QueueWeek> queues;          // the tree in its order, without the root
  FleetSeries fleet;
};

// "guarantee", "fairShare", … as verdicts and events call it.
std::string_view rule_name(core::Evicted::Rule rule);
inline constexpr std::size_t kRuleCount = 8;

// The wait that `percent` of them do not exceed: nearest rank; 0 of none. Requires order.
std::int64_t wait_quantile(const std::vector<std::int64_t>& waits, int percent);

// In percent, of all device time that the fleet had.
double utilisation(const WeekResult& week);
// Of what is free, the part that lies on devices that something uses: in percent, mean of samples.
double fragmentation(const WeekResult& week);

}  // namespace berth::sim
