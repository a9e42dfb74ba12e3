// Device and Node: what a fleet is made of, as the outside world describes it. Plain values.
//
// A Device holds one workload's memory: a whole GPU or a MIG instance. Its identity is its UUID.
// How much of it is promised is not here: the ledger owns that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::core {

enum class DeviceHealth : std::uint8_t {
  ok,
  unhealthy,  // no new grants; what runs is left alone until the harbour says it is lost
};

struct Device {
  std::string uuid;             // identity, e.g. "GPU-…" or "MIG-…"
  int index = 0;                // the driver's index; informational, may change after a reload
  std::string model;            // e.g. "NVIDIA A100-SXM4-80GB" or a trace's "G2"
  std::optional<Memory> total;  // what the driver reports; empty = unknown: never eligible (L13)
  Memory reserve;               // driver reserve + safety margin (annotations.md 1.4: R)
  int numa = -1;                // NUMA node, -1 = none
  std::string mig_profile;      // e.g. "1g.5gb"; empty = a whole GPU
  std::string mig_parent;       // UUID of the GPU a MIG instance is cut from
  bool mig_enabled = false;     // a GPU in MIG mode: its instances are offered, it is not
  std::string pci_bus_id;       // ties break by it before the UUID
  DeviceHealth health = DeviceHealth::ok;
  bool cordoned = false;   // the operator: no new grants
  bool owned = true;       // no other allocator hands this device out (L12)
  bool sm_sharing = true;  // an MPS daemon can serve it
  int link_set = -1;  // devices of its node with the same one are all joined by NVSwitch; -1 = none

  // floor((total - reserve) / 1 MiB), never negative; 0 when total is unknown (annotations.md 1.4:
  // U).
  std::int64_t usable_mib() const;

  Memory usable() const { return Memory::mib(usable_mib()); }

  bool is_mig() const { return !mig_profile.empty(); }
  bool operator==(const Device&) const = default;
};

// What is kept back on a device whose reserve nobody measured: max(256 MiB, ceil(3 % of total)).
Memory default_reserve(Memory total);

// A taint as Kubernetes has it. Effects NoSchedule and NoExecute exclude, PreferNoSchedule does
// not.
struct Taint {
  std::string key;
  std::string value;
  std::string effect;
  bool operator==(const Taint&) const = default;
};

// How well two devices of a node reach each other: class of the path (across CPUs 10, same CPU 20,
// host bridge 30, several switches 40, one switch 50, same board 60) + 100 x NVLinks between them
// (queues-gangs-topology.md 8.1). `a` and `b` are places in Node::devices.
struct PairScore {
  int a = 0;
  int b = 0;
  std::int64_t score = 0;
  bool operator==(const PairScore&) const = default;
};

struct Node {
  std::string name;              // identity
  Milli cpu;                     // allocatable, millicores
  Memory ram;                    // allocatable
  std::int64_t pod_slots = 110;  // how many workloads it can carry at once
  std::map<std::string, std::string> labels;
  std::vector<Taint> taints;
  bool ready = true;  // false: nothing new; capacity of what runs stays counted
  bool cordoned = false;
  int gpu_replicas = 0;       // parts per device for `nvidia.com/gpu.shared`; below 2 = unknown
  bool sharing_ready = true;  // the node's enforcing backend works (L9); whole devices unaffected
  std::int64_t tie_rank = 0;  // lower first when scores tie; equal ranks fall back to the name
  std::vector<Device> devices;
  std::vector<PairScore> links = {};  // pairs not listed: 0, nothing known
  // What enforces shares there is told their sizes in annotation keys with the container's name,
  // which bounds that name (A51).
  bool sizes_by_name = false;
  bool operator==(const Node&) const = default;
};

// The bounds a Node must keep: names present, no UUID twice, at most kMaxDevicesPerNode devices,
// pair scores between two of its devices and each once, no negative quantity, cpu and ram below the
// bounds that keep sums inside 63 bits.
inline constexpr std::size_t kMaxDevicesPerNode = 64;
inline constexpr std::int64_t kMaxCpuMilli = 1'000'000'000;  // a million cores
inline constexpr std::int64_t kMostPairScore = 100'000;
inline constexpr std::int64_t kMaxMemoryMib = 1'000'000'000'000;  // about an exbibyte
Result<void> check_node(const Node& node);

}  // namespace berth::core
