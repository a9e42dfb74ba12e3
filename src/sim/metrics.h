// What a run is judged by: the allocation curve, fragmentation by cause, refused work by reason,
// and decision latency. Pure arithmetic over figures that the run collects.
//
// Doubles are used for results only; sums are exact integers until the last division.
// Thread-safety: none for the collecting classes, the functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/placement/class_counts.h"
#include "sim/fleet_state.h"
#include "sim/trace.h"

namespace berth::sim {

// Allocation as work arrives (placement page, 2.6): the value at k is the mean of the allocated
// share over all events whose arrived share rounds to k %, half to even.
class AllocationCurve {
 public:
  // Requires capacity > 0. Points above `last_percent` are not kept.
  AllocationCurve(std::int64_t capacity_milli, int last_percent);

  // After an event: what was asked for so far, and what is bound now.
  void add(std::int64_t arrived_milli, std::int64_t bound_milli);
  // Percent of capacity; empty where no event came to lie.
  std::optional<double> at(int percent) const;
  std::vector<std::optional<double>> points() const;  // 0 … last_percent

 private:
  struct Bucket {
    std::int64_t sum = 0;
    std::int64_t events = 0;
  };

  std::int64_t capacity_;
  std::vector<Bucket> buckets_;
};

// Where idle GPU capacity lies, seen by the typical work (placement page, 3), in percent of all
// capacity. All seven together are what is idle.
enum class IdleCause : std::uint8_t {
  lack_both,  // too few devices with room, and too few cores
  lack_gpu,   // too few devices with room, or a leftover too small to serve
  lack_cpu,   // room on devices, too few cores
  no_access,  // the model is not allowed
  xl,         // work without GPU that the node's cores would serve
  xr,         // work without GPU that they would not
  usable,     // can serve
};
inline constexpr std::size_t kIdleCauses = 7;
std::string_view idle_cause_key(IdleCause cause);       // "lack_both"
std::string_view idle_cause_sentence(IdleCause cause);  // for people
using Fragmentation = std::array<double, kIdleCauses>;
Fragmentation measure_fragmentation(const FleetState& state,
                                    std::span<const core::WorkClass> typical);

// Why a pod was refused, seen from the whole fleet at that moment: what would have been enough.
enum class RefusalReason : std::uint8_t {
  never_fits,  // not even on an empty fleet
  cpu,         // some node has the devices and the RAM, and too few free cores
  memory,      // some node has the devices and the cores, and too little free RAM
  cpu_memory,  // some node has the devices, and lacks both
  slots,       // some node has everything but a free pod slot
  model,       // only devices of models that it does not allow have room
  scattered,   // enough GPU is idle on allowed devices, nowhere enough of it together
  full,        // less GPU is idle on allowed devices than it asks for
};
inline constexpr std::size_t kRefusalReasons = 8;
std::string_view refusal_key(RefusalReason reason);
std::string_view refusal_sentence(RefusalReason reason);
// Requires that the pod does not fit anywhere now. `fits_empty` = it would on an empty fleet.
RefusalReason why_refused(const FleetState& state, const TracePod& pod, bool fits_empty);

// "CPU only", "fraction", "1 GPU", "8 GPUs"; sorts in that order.
struct WorkKind {
  int num_gpu = 0;
  bool whole = false;  // whole devices, not a fraction of one
  auto operator<=>(const WorkKind&) const = default;
  std::string label() const;
};

WorkKind work_kind(const TracePod& pod);

// Decision times of one run or of several.
class LatencyStats {
 public:
  void reserve(std::size_t count) { nanos_.reserve(count); }

  void add(std::int64_t nanos);
  void merge(const LatencyStats& other);
  // Those of `count` decisions from the `first` on; fewer if there are fewer.
  LatencyStats slice(std::size_t first, std::size_t count) const;

  std::int64_t count() const { return static_cast<std::int64_t>(nanos_.size()); }

  double mean_us() const;
  double per_second() const;               // decisions in the time they took, 0 if none
  double quantile_us(double share) const;  // 0.5 = the median; nearest rank
  // Counts per bucket; bucket i holds times from bucket_floor_us(i) up to that of i + 1.
  static constexpr std::size_t kBuckets = 48;
  static double bucket_floor_us(std::size_t bucket);
  std::array<std::int64_t, kBuckets> histogram() const;

 private:
  std::vector<std::uint32_t> nanos_;
  std::int64_t total_ = 0;
};

}  // namespace berth::sim
