// Request: what one task asks for, valid by construction.
//
//   RequestSpec spec;
//   spec.cpu = Milli{4000};
//   spec.containers.push_back({.name = "main", .gpu = DeviceAsk::memory_mib(4096)});
//   TRY(Request request, Request::create(std::move(spec)));
//
// The shapes are those of annotations.md 1.4. Sizes are already converted: memory in MiB rounded
// up, fractions in nano. How people write them is the business of src/request. Thread-safety:
// values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::core {

// How the holders of one device share its compute. One mode per shared device at a time (L5).
enum class SharingMode : std::uint8_t { time_slicing, sm_sharing };

enum class AskKind : std::uint8_t {
  none,      // no GPU
  memory,    // `mib` of each of `count` devices
  fraction,  // `nano` of the usable memory of each of `count` devices
  replica,   // one of the node's gpu_replicas parts of a device
  whole,     // `count` devices for itself alone
  mig,       // `count` MIG instances of exactly `mig_profile`, each for itself alone
};

// Order of devices that one request may ask for instead of the policy's
// (`hami.io/gpu-scheduler-policy`).
enum class OrderHint : std::uint8_t { policy, pack, spread };

// What must enforce a share (`nvidia.com/vgpu-mode`): any backend of the node, the guard library, a
// MIG instance large enough, or MPS.
enum class Backend : std::uint8_t { any, guard, mig, mps };

// How the devices of one container must be joined: by a link set (all of them joined by NVSwitch,
// or pair by pair by NVLink), or as well as possible.
enum class LinkRule : std::uint8_t { none, preferred, required };

// Which devices may serve. Empty lists do not restrict. A device must pass all of them.
struct DeviceFilter {
  std::vector<std::string> models;       // exact model, any of
  std::vector<std::string> use_types;    // case-insensitive part of the model, any of
  std::vector<std::string> avoid_types;  // case-insensitive part of the model, none of
  std::vector<std::string> use_uuids;    // exact, any of
  std::vector<std::string> avoid_uuids;  // exact, none of

  bool empty() const;
  bool operator==(const DeviceFilter&) const = default;
};

struct DeviceAsk {
  AskKind kind = AskKind::none;
  int count = 0;                           // distinct devices of one node, each charged in full
  std::int64_t mib = 0;                    // kind memory: per device
  std::int64_t nano = 0;                   // kind fraction: per device, 1 … 999,999,999
  std::optional<std::int64_t> limit_mib;   // burst ceiling per device, >= request; none = request
  std::optional<std::int64_t> limit_nano;  // the same as a fraction, > nano
  SharingMode mode = SharingMode::time_slicing;
  int compute_milli = 0;  // declared compute share per device, 0 = undeclared
  bool mutex = false;     // only a device without grants, yet shared afterwards
  std::string mig_profile;
  DeviceFilter filter;
  bool numa_bind = false;  // all devices of the container on one NUMA node
  Backend backend = Backend::any;
  OrderHint node_order = OrderHint::policy;
  OrderHint device_order = OrderHint::policy;
  LinkRule links = LinkRule::none;  // of several devices; one alone is always joined
  // Its container's name is longer than kLongestKeyName; set by Request::create().
  bool long_name = false;

  static DeviceAsk memory_mib(std::int64_t mib, int count = 1);
  static DeviceAsk fraction_nano(std::int64_t nano, int count = 1);
  static DeviceAsk replica_part();
  static DeviceAsk whole_devices(int count);
  static DeviceAsk mig_instances(std::string profile, int count = 1);

  bool wants_gpu() const { return kind != AskKind::none; }
  bool is_share() const {
    return kind == AskKind::memory || kind == AskKind::fraction || kind == AskKind::replica;
  }
  bool is_exclusive() const { return kind == AskKind::whole || kind == AskKind::mig; }
  bool operator==(const DeviceAsk&) const = default;
};

enum class ContainerKind : std::uint8_t { app, init, sidecar };

struct ContainerAsk {
  std::string name = "main";
  ContainerKind kind = ContainerKind::app;  // init and sidecar in start order
  DeviceAsk gpu;
  bool operator==(const ContainerAsk&) const = default;
};

// One requirement on a node's labels, as a Kubernetes node selector has it.
struct LabelRule {
  enum class Op : std::uint8_t { in, not_in, exists, does_not_exist, greater, less };
  std::string key;
  Op op = Op::in;
  std::vector<std::string> values;
  bool operator==(const LabelRule&) const = default;
};

struct Toleration {
  std::string key;      // empty with `exists` = every taint
  bool exists = false;  // else `value` must be equal
  std::string value;
  std::string effect;  // empty = every effect
  bool operator==(const Toleration&) const = default;
};

struct NodeConstraints {
  std::vector<std::string> names;  // any of; empty = all
  std::vector<LabelRule> labels;   // all of
  std::vector<Toleration> tolerations;
  bool empty() const { return names.empty() && labels.empty() && tolerations.empty(); }
  bool operator==(const NodeConstraints&) const = default;
};

struct RequestSpec {
  Milli cpu;
  Memory ram;
  NodeConstraints nodes;
  std::vector<ContainerAsk> containers;  // those that ask for nothing may be left out
  bool operator==(const RequestSpec&) const = default;
};

// A container's name as part of an annotation key "container.<name>.gpu-memory.request", of which
// Kubernetes allows 63 characters (annotations.md 2.2, A51).
inline constexpr std::size_t kLongestKeyName = 34;

// Bounds of every field that comes from outside.
inline constexpr int kMaxAskCount = 1024;  // devices per container; more is a typing error
inline constexpr std::int64_t kMaxAskMib = 8'796'093'022'207;  // bytes still fit 63 bits
inline constexpr std::size_t kMaxContainers = 64;

class Request {
 public:
  // Asks for nothing.
  Request() = default;
  // Errors: invalid_argument naming field, value, rule and fix.
  static Result<Request> create(RequestSpec spec);

  const RequestSpec& spec() const { return spec_; }
  Milli cpu() const { return spec_.cpu; }
  Memory ram() const { return spec_.ram; }
  const NodeConstraints& nodes() const { return spec_.nodes; }
  const std::vector<ContainerAsk>& containers() const { return spec_.containers; }
  bool wants_gpu() const;
  // Equal requests have equal hashes, on every machine. The engine shares everything it learns
  // about a request among all workloads that ask for exactly the same.
  std::uint64_t hash() const;
  bool operator==(const Request&) const = default;

 private:
  explicit Request(RequestSpec spec) : spec_(std::move(spec)) {}
  RequestSpec spec_;
};

// What an ask takes of a device with `usable_mib` (annotations.md 1.4): a stated size as it is, a
// share of capacity rounded down, so that shares that sum to one always fit.
std::int64_t request_mib_on(const DeviceAsk& ask, std::int64_t usable_mib, int gpu_replicas);
std::int64_t limit_mib_on(const DeviceAsk& ask, std::int64_t usable_mib, int gpu_replicas);

}  // namespace berth::core
