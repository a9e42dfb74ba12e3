// SimulatedSource: GPUs that are not there, for `berth serve --simulate` and for tests, with the
// controls of interfaces.md 3.
//
//   TRY(auto source, SimulatedSource::make(nodes));          // from a SPEC: scenario/fleet_spec.h
//   TRY_VOID(source->patch(uuid, {.used_mib = 6144}));        // in force in the next read()
//   TRY_VOID(source->patch(uuid, {.used_mib = "NaN"}));       // garbage: the memory is unknown
//   source->set_up(false);                                    // the source answers no more
//
// A patch is a sample; read() repeats the last one for ever, so its age stays what the patch said
// (0 if it said nothing). There is no clock in here: when to read is the caller's to decide.
// XIDs and health follow xid.h: a critical XID makes the device lost until a patch gives `health`
// "ok" or `xid` 0; what happens to a GPU happens to its MIG instances.
// Thread-safety: every function may be called from any thread at any time.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"
#include "gpu/source.h"

namespace berth::gpu {

// A number, or whatever text stands in its place. Both are read by the reader of real exporters.
class Raw {
 public:
  Raw(std::integral auto number) : text_(std::to_string(number)) {}  // NOLINT: implicit on purpose

  Raw(std::string text) : text_(std::move(text)) {}  // NOLINT: implicit on purpose

  Raw(const char* text) : text_(text) {}  // NOLINT: implicit on purpose

  const std::string& text() const { return text_; }

  bool operator==(const Raw&) const = default;

 private:
  std::string text_;
};

struct SimulatedProcess {
  Raw pid = 0;
  Raw used_mib = 0;
  std::string name = {};
};

// A list, or the text that stands in its place.
using RawProcesses = std::variant<std::vector<SimulatedProcess>, std::string>;

// What is absent stays as it was, except the age, which is then 0.
struct DevicePatch {
  std::optional<Raw> used_mib = {};  // total on the device, listed processes included; if these are
                                     // more, their sum
  std::optional<RawProcesses> processes = {};
  std::optional<std::string> health = {};  // "ok", "unhealthy"; else: unhealthy, with a problem
  std::optional<Raw> xid = {};             // happens once; 0 = nothing wrong any more
  std::optional<Raw> index = {};
  std::optional<Raw> sample_age_ms = {};  // below 0: stamped in the future
};

struct NewDevice {
  std::string node;  // of the fleet
  std::string model = "GPU";
  Raw total_mib = 0;             // garbage: a device of unknown size
  std::string mig_parent = {};   // UUID of a GPU of that node: this is a MIG instance of it
  std::string mig_profile = {};  // "1g.10gb"; empty: computed from the sizes
};

class SimulatedSource final : public Source {
 public:
  // Errors: core::check_node's, or a UUID on two nodes.
  static Result<std::unique_ptr<SimulatedSource>> make(std::vector<core::Node> nodes);

  std::string_view name() const override { return "simulated"; }

  Report read() override;

  // Error not_found: no such device, with the nearest one. Garbage is no error: it is reported.
  Result<void> patch(std::string_view uuid, const DevicePatch& patch);
  // Adds a device, or replaces the one of this UUID: nothing of its former samples stays.
  // Errors: not_found (node, parent), already_exists (on another node), invalid_argument
  // (core::check_node's; a device cannot be its own parent or an instance's instance).
  Result<void> put(std::string_view uuid, const NewDevice& device);
  // The device is gone, with its MIG instances. Error not_found.
  Result<void> remove(std::string_view uuid);

  void set_up(bool up);
  // Off: totals only, as from a source that cannot see processes.
  void set_attribution(bool on);

  bool up() const;
  bool attribution() const;
  // The fleet as it is now: descriptions without samples.
  std::vector<core::Node> nodes() const;

 private:
  struct Sample {
    std::optional<Memory> used = Memory();
    std::vector<ProcessUse> processes;
    bool processes_known = true;
    std::optional<std::int64_t> age_ms = 0;
    bool restated = false;  // patched since the last read
    bool unhealthy = false;
    int lost_by = 0;        // the critical XID; 0 = not lost
    std::vector<int> xids;  // not yet read
    std::vector<int> app_xids;
    std::map<std::string, std::string, std::less<>> problems;  // by field
  };

  explicit SimulatedSource(std::vector<core::Node> nodes);

  core::Node* find_node(std::string_view name);
  // Node and device, or null.
  std::pair<core::Node*, core::Device*> find(std::string_view uuid);
  Error no_device(std::string_view uuid) const;
  Result<core::Device> describe(std::string_view uuid, const NewDevice& wanted,
                                const core::Node& node) const;
  DeviceReport report_of(const core::Node& node, const core::Device& device) const;

  static void patch_used(Sample& sample, const Raw& used);
  static void patch_processes(Sample& sample, const RawProcesses& processes);
  static void patch_health(Sample& sample, const std::string& health);
  static void patch_xid(Sample& sample, const Raw& xid);
  static void patch_age(Sample& sample, const std::optional<Raw>& age);

  mutable std::mutex mutex_;
  std::vector<core::Node> nodes_;
  std::map<std::string, Sample, std::less<>> samples_;  // by UUID
  bool up_ = true;
  bool attribution_ = true;
};

}  // namespace berth::gpu
