#include "sim/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/assert.h"

namespace berth::sim {

namespace {

// 100 a / b rounded to a whole number, half to even. Requires a >= 0, b > 0.
std::int64_t rounded_percent(std::int64_t a, std::int64_t b) {
  const std::int64_t whole = 100 * a / b;
  const std::int64_t twice_rest = 2 * (100 * a % b);
  if (twice_rest > b || (twice_rest == b && whole % 2 == 1)) return whole + 1;
  return whole;
}

}  // namespace

AllocationCurve::AllocationCurve(std::int64_t capacity_milli, int last_percent)
    : capacity_(capacity_milli), buckets_(static_cast<std::size_t>(last_percent) + 1) {
  ASSERT(capacity_milli > 0, capacity_milli);
}

void AllocationCurve::add(std::int64_t arrived_milli, std::int64_t bound_milli) {
  const auto percent = static_cast<std::size_t>(rounded_percent(arrived_milli, capacity_));
  if (percent >= buckets_.size()) return;
  buckets_[percent].sum += bound_milli;
  ++buckets_[percent].events;
}

std::optional<double> AllocationCurve::at(int percent) const {
  const auto index = static_cast<std::size_t>(percent);
  if (percent < 0 || index >= buckets_.size() || buckets_[index].events == 0) return std::nullopt;
  const Bucket& bucket = buckets_[index];
  return 100.0 * static_cast<double>(bucket.sum) /
         (static_cast<double>(bucket.events) * static_cast<double>(capacity_));
}

std::vector<std::optional<double>> AllocationCurve::points() const {
  std::vector<std::optional<double>> points;
  for (int percent = 0; percent < static_cast<int>(buckets_.size()); ++percent) {
    points.push_back(at(percent));
  }
  return points;
}

namespace {

struct CauseText {
  std::string_view key;
  std::string_view sentence;
};

constexpr std::array<CauseText, kIdleCauses> kIdleTexts = {{
    {"lack_both", "too few free devices and too few cores"},
    {"lack_gpu", "leftovers too small for the work that is usual"},
    {"lack_cpu", "room on devices, no cores beside it"},
    {"no_access", "the work asks for another model"},
    {"xl", "work without GPU, cores are free"},
    {"xr", "work without GPU, cores are gone"},
    {"usable", "can still serve typical work"},
}};

// Milli of one node by cause, as one class sees them.
void add_node(const FleetState& state, const NodeState& node, const core::WorkClass& work,
              bool model_allowed, std::array<std::int64_t, kIdleCauses>& sums) {
  const auto add = [&](IdleCause cause, std::int64_t milli) {
    sums[static_cast<std::size_t>(cause)] += milli * work.count;
  };
  const std::int64_t idle = state.left_milli(node);
  const bool cores = node.cpu_milli >= work.cpu_milli;
  if (work.is_cpu_only()) return add(cores ? IdleCause::xl : IdleCause::xr, idle);
  if (!model_allowed) return add(IdleCause::no_access, idle);
  int fitting = 0;
  std::int64_t too_small = 0;
  for (const std::int16_t left : state.devices(node)) {
    if (left >= work.gpu_milli) {
      ++fitting;
    } else {
      too_small += left;
    }
  }
  if (fitting < work.num_gpu) return add(cores ? IdleCause::lack_gpu : IdleCause::lack_both, idle);
  if (!cores) return add(IdleCause::lack_cpu, idle);
  add(IdleCause::lack_gpu, too_small);
  add(IdleCause::usable, idle - too_small);
}

}  // namespace

std::string_view idle_cause_key(IdleCause cause) {
  return kIdleTexts[static_cast<std::size_t>(cause)].key;
}

std::string_view idle_cause_sentence(IdleCause cause) {
  return kIdleTexts[static_cast<std::size_t>(cause)].sentence;
}

Fragmentation measure_fragmentation(const FleetState& state,
                                    std::span<const core::WorkClass> typical) {
  std::array<std::int64_t, kIdleCauses> sums{};
  std::int64_t pods = 0;
  for (const core::WorkClass& work : typical) {
    pods += work.count;
    std::vector<bool> allowed;
    for (const std::string& model : state.models()) {
      allowed.push_back(work.models.empty() || std::ranges::count(work.models, model) > 0);
    }
    for (const NodeState& node : state.nodes()) {
      add_node(state, node, work, allowed[node.model], sums);
    }
  }
  Fragmentation shares{};
  if (pods == 0 || state.capacity_milli() == 0) return shares;
  for (std::size_t i = 0; i < kIdleCauses; ++i) {
    shares[i] = 100.0 * static_cast<double>(sums[i]) / static_cast<double>(pods) /
                static_cast<double>(state.capacity_milli());
  }
  return shares;
}

namespace {

constexpr std::array<CauseText, kRefusalReasons> kRefusalTexts = {{
    {"never_fits", "fits no node of this fleet, even an empty one"},
    {"cpu", "free devices, but no cores beside them"},
    {"memory", "free devices, but no RAM beside them"},
    {"cpu_memory", "free devices, but neither cores nor RAM beside them"},
    {"slots", "the nodes with room carry as many pods as they may"},
    {"model", "only devices of other models have room"},
    {"scattered", "enough GPU is idle, but scattered in pieces too small"},
    {"full", "less GPU is idle than it asks for"},
}};

bool has_devices(std::span<const std::int16_t> left, const TracePod& pod) {
  return std::ranges::count_if(left, [&](std::int16_t l) { return l >= pod.gpu_milli; }) >=
         pod.num_gpu;
}

}  // namespace

std::string_view refusal_key(RefusalReason reason) {
  return kRefusalTexts[static_cast<std::size_t>(reason)].key;
}

std::string_view refusal_sentence(RefusalReason reason) {
  return kRefusalTexts[static_cast<std::size_t>(reason)].sentence;
}

RefusalReason why_refused(const FleetState& state, const TracePod& pod, bool fits_empty) {
  if (!fits_empty) return RefusalReason::never_fits;
  std::vector<bool> allowed;
  for (const std::string& model : state.models())
    allowed.push_back(pod.allows(model));
  bool cpu = false;
  bool memory = false;
  bool both = false;
  bool slots = false;
  bool other_model = false;
  std::int64_t idle = 0;
  for (const NodeState& node : state.nodes()) {
    const bool right_model = pod.num_gpu == 0 || allowed[node.model];
    if (right_model) idle += state.left_milli(node);
    if (pod.num_gpu > 0 && !has_devices(state.devices(node), pod)) continue;
    const bool cores_fit = node.cpu_milli >= pod.cpu_milli;
    const bool memory_fits = node.memory_mib >= pod.memory_mib;
    if (!right_model) {
      other_model = other_model || (cores_fit && memory_fits);
      continue;
    }
    slots = slots || (cores_fit && memory_fits && node.slots <= 0);
    cpu = cpu || (!cores_fit && memory_fits);
    memory = memory || (cores_fit && !memory_fits);
    both = both || (!cores_fit && !memory_fits);
  }
  if (slots) return RefusalReason::slots;
  if (cpu) return RefusalReason::cpu;
  if (memory) return RefusalReason::memory;
  if (both) return RefusalReason::cpu_memory;
  if (other_model) return RefusalReason::model;
  return idle >= pod.total_milli() ? RefusalReason::scattered : RefusalReason::full;
}

std::string WorkKind::label() const {
  if (num_gpu == 0) return "CPU only";
  if (!whole) return "fraction";
  return fmt::format("{} GPU{}", num_gpu, num_gpu == 1 ? "" : "s");
}

WorkKind work_kind(const TracePod& pod) {
  return {.num_gpu = pod.num_gpu, .whole = pod.gpu_milli == kWholeDeviceMilli};
}

void LatencyStats::add(std::int64_t nanos) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::uint32_t>::max();
  nanos_.push_back(static_cast<std::uint32_t>(std::clamp<std::int64_t>(nanos, 0, kLongest)));
  total_ += std::max<std::int64_t>(nanos, 0);
}

void LatencyStats::merge(const LatencyStats& other) {
  nanos_.insert(nanos_.end(), other.nanos_.begin(), other.nanos_.end());
  total_ += other.total_;
}

LatencyStats LatencyStats::slice(std::size_t first, std::size_t count) const {
  LatencyStats part;
  for (std::size_t i = first; i < std::min(first + count, nanos_.size()); ++i)
    part.add(nanos_[i]);
  return part;
}

double LatencyStats::mean_us() const {
  return nanos_.empty() ? 0 : static_cast<double>(total_) / 1e3 / static_cast<double>(count());
}

double LatencyStats::per_second() const {
  return total_ == 0 ? 0 : static_cast<double>(count()) * 1e9 / static_cast<double>(total_);
}

double LatencyStats::quantile_us(double share) const {
  if (nanos_.empty()) return 0;
  std::vector<std::uint32_t> sorted = nanos_;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto place =
      static_cast<std::size_t>(std::clamp(rank - 1, 0.0, static_cast<double>(sorted.size() - 1)));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(place),
                   sorted.end());
  return static_cast<double>(sorted[place]) / 1e3;
}

// Four buckets per doubling, from 1/4 us: fine enough to see a second hump, few enough to draw.
double LatencyStats::bucket_floor_us(std::size_t bucket) {
  return 0.25 * std::exp2(static_cast<double>(bucket) / 4);
}

std::array<std::int64_t, LatencyStats::kBuckets> LatencyStats::histogram() const {
  std::array<std::int64_t, kBuckets> counts{};
  for (const std::uint32_t nanos : nanos_) {
    const double place = 4 * std::log2(std::max(static_cast<double>(nanos), 250.0) / 250);
    ++counts[std::min(static_cast<std::size_t>(place), kBuckets - 1)];
  }
  return counts;
}

}  // namespace berth::sim
