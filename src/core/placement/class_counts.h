// What a placement policy may know about the workload: how often each class of work occurs.
//
//   ClassCounts counts;
//   counts.add({.cpu_milli = 6000, .memory_mib = 12288, .gpu_milli = 460, .num_gpu = 1});
//   std::vector<WorkClass> everything = counts.classes();       // VGD: the whole history
//   std::vector<WorkClass> head = typical_classes(counts);      // FGD: the 95 % head
//
// A policy knows the counts and never the order of arrival. Where the counts come from (a trace, a
// sliding window over the live history) and when they are replaced is the caller's matter.
//
// Source: placement contract, "Rules" and sections 2.2 and 5.1.
// Thread-safety: a value; const calls may run side by side, add() needs exclusive access.
// Invariants:
//   1. No two classes are equal in everything but their count, and every count is above zero.
//   2. The order of classes() depends on their contents only, never on the order of add().
//   3. num_gpu == 0 exactly if gpu_milli == 0; every number lies within the limits below.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace berth::core {

// Everything that makes two pods equal to a policy, and how many such pods were seen.
struct WorkClass {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  int gpu_milli = 0;                     // of each device; 1000 = a whole one
  int num_gpu = 0;                       // 0 = CPU only
  std::vector<std::string> models = {};  // allowed devices: sorted, repeats kept; empty = any
  std::int64_t count = 0;

  // GPU-milli that one pod of this class asks for, over all its devices.
  [[nodiscard]] std::int64_t gpu_milli_per_pod() const { return std::int64_t{gpu_milli} * num_gpu; }

  [[nodiscard]] std::int64_t gpu_milli_of_all() const { return gpu_milli_per_pod() * count; }

  [[nodiscard]] bool is_cpu_only() const { return num_gpu == 0; }

  // A part of each of its devices, not whole ones.
  [[nodiscard]] bool is_fraction() const { return gpu_milli > 0 && gpu_milli < 1000; }

  friend bool operator==(const WorkClass&, const WorkClass&) = default;
};

// The models as the trace files write them: joined by '|', empty for "any". A repeated model makes
// another class and another group of sections 5.3 and 5.4: gpuspec33 has both "V100M16|V100M32" and
// "V100M16|V100M32|V100M32", and its numbers in section 7 need them apart.
std::string joined_models(const WorkClass& work);

// A size of a piece of a device and how many such pieces the workload asks for.
struct FractionSize {
  int milli = 0;  // a multiple of 10 between 10 and 990
  std::int64_t count = 0;

  friend auto operator<=>(const FractionSize&, const FractionSize&) = default;
};

class ClassCounts {
 public:
  // Limits that keep every product of section 5.8 inside 128 bits. Requests beyond them are cut
  // (they fit no machine, and counts only rank); pods beyond them are not counted any more.
  static constexpr std::int64_t kMaxResource = (std::int64_t{1} << 32) - 1;  // milli-cores, MiB
  static constexpr int kMaxDevices = 4096;
  static constexpr std::int64_t kMaxPods = std::int64_t{1} << 40;
  static constexpr std::int64_t kMaxGpuMilli = std::int64_t{1} << 44;  // of all pods together

  // Adds `count` pods like `work`, whose own count is ignored. Counts not above zero add nothing.
  void add(WorkClass work, std::int64_t count = 1);

  // All classes, ascending by (cpu, memory, gpu_milli, num_gpu, models).
  [[nodiscard]] std::vector<WorkClass> classes() const;

  // Distinct fraction sizes, ascending, each rounded up to a multiple of 10 so that there are at
  // most 99; a pod that asks for a part of each of k devices counts k pieces. Sizes that round up
  // to a whole device are left out.
  [[nodiscard]] std::vector<FractionSize> fraction_sizes() const;

  [[nodiscard]] std::int64_t pods() const { return pods_; }

  [[nodiscard]] std::int64_t gpu_milli() const { return gpu_milli_; }  // asked by all pods together

  [[nodiscard]] bool has_gpu_work() const { return gpu_milli_ > 0; }

 private:
  struct ByShape {
    bool operator()(const WorkClass& a, const WorkClass& b) const;
  };

  std::map<WorkClass, std::int64_t, ByShape> counts_;  // keys carry count 0
  std::int64_t pods_ = 0;
  std::int64_t gpu_milli_ = 0;
};

// The target workload M of FGD (section 2.2), most frequent class first: classes that differ in
// memory only are one (their memory_mib is 0), CPU-only classes included, taken while those taken
// so far make up less than 95 % of the pods.
std::vector<WorkClass> typical_classes(const ClassCounts& counts);

}  // namespace berth::core
