#include "core/placement/class_counts.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace berth::core {
namespace {

constexpr int kWholeDevice = 1000;

auto shape_of(const WorkClass& work) {
  return std::tie(work.cpu_milli, work.memory_mib, work.gpu_milli, work.num_gpu, work.models);
}

}  // namespace

std::string joined_models(const WorkClass& work) {
  std::string joined;
  for (const std::string& model : work.models) {
    if (!joined.empty()) joined += '|';
    joined += model;
  }
  return joined;
}

bool ClassCounts::ByShape::operator()(const WorkClass& a, const WorkClass& b) const {
  return shape_of(a) < shape_of(b);
}

void ClassCounts::add(WorkClass work, std::int64_t count) {
  if (count <= 0) return;
  work.count = 0;
  work.cpu_milli = std::clamp<std::int64_t>(work.cpu_milli, 0, kMaxResource);
  work.memory_mib = std::clamp<std::int64_t>(work.memory_mib, 0, kMaxResource);
  work.gpu_milli = std::clamp(work.gpu_milli, 0, kWholeDevice);
  work.num_gpu = std::clamp(work.num_gpu, 0, kMaxDevices);
  if (work.num_gpu == 0 || work.gpu_milli == 0) work.num_gpu = work.gpu_milli = 0;
  std::sort(work.models.begin(), work.models.end());

  std::int64_t added = std::min(count, kMaxPods - pods_);
  const std::int64_t per_pod = work.gpu_milli_per_pod();
  if (per_pod > 0) added = std::min(added, (kMaxGpuMilli - gpu_milli_) / per_pod);
  if (added == 0) return;
  pods_ += added;
  gpu_milli_ += added * per_pod;
  counts_[std::move(work)] += added;
}

std::vector<WorkClass> ClassCounts::classes() const {
  std::vector<WorkClass> classes;
  classes.reserve(counts_.size());
  for (const auto& [work, count] : counts_) {
    classes.push_back(work);
    classes.back().count = count;
  }
  return classes;
}

std::vector<FractionSize> ClassCounts::fraction_sizes() const {
  std::map<int, std::int64_t> pieces;
  for (const auto& [work, count] : counts_) {
    const int milli = (work.gpu_milli + 9) / 10 * 10;
    if (milli > 0 && milli < kWholeDevice) pieces[milli] += count * work.num_gpu;
  }
  std::vector<FractionSize> sizes;
  sizes.reserve(pieces.size());
  for (const auto& [milli, count] : pieces)
    sizes.push_back({.milli = milli, .count = count});
  return sizes;
}

std::vector<WorkClass> typical_classes(const ClassCounts& counts) {
  ClassCounts without_memory;
  for (WorkClass& work : counts.classes()) {
    work.memory_mib = 0;
    const std::int64_t count = work.count;
    without_memory.add(std::move(work), count);
  }

  struct Ranked {
    WorkClass work;
    std::string gpu_spec;
  };

  std::vector<Ranked> ranked;
  for (WorkClass& work : without_memory.classes()) {
    std::string gpu_spec = joined_models(work);
    ranked.push_back({.work = std::move(work), .gpu_spec = std::move(gpu_spec)});
  }
  const auto rank_of = [](const Ranked& r) {
    return std::tie(r.work.count, r.work.cpu_milli, r.work.gpu_milli, r.work.num_gpu, r.gpu_spec);
  };
  std::sort(ranked.begin(), ranked.end(),
            [&](const Ranked& a, const Ranked& b) { return rank_of(a) > rank_of(b); });

  std::vector<WorkClass> head;
  std::int64_t taken = 0;
  for (Ranked& next : ranked) {
    if (taken * 100 >= without_memory.pods() * 95) break;
    taken += next.work.count;
    head.push_back(std::move(next.work));
  }
  return head;
}

}  // namespace berth::core
