// The record of a grant on a pod, and everything else the Binding writes (annotations.md 3.2).
//
//   GrantRecord record = record_of(grant, request, fleet);
//   Labels annotations = binding_annotations(record, pod.meta.annotations, {.cdi = node.cdi});
//   …
//   GrantReading back = read_grant(pod.meta.annotations.at("berth.dev/grant"));
//
// The annotation `berth.dev/grant` is the only durable copy of a grant: one line of JSON with
// sorted keys. What cannot be read in it is somebody else's use of the devices it names, and an
// alarm. Thread-safety: values and functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/fleet.h"
#include "core/model/request.h"
#include "core/model/workload.h"
#include "kube/objects/objects.h"

namespace berth::kube {

inline constexpr std::string_view kGrantAnnotation = "berth.dev/grant";
inline constexpr std::string_view kCdiPrefix = "k8s.device-plugin.nvidia.com/gpu=";

struct GrantedDevice {
  std::string uuid = {};
  std::int64_t request_mib = 0;
  std::int64_t limit_mib = 0;
  bool operator==(const GrantedDevice&) const = default;
};

struct GrantedContainer {
  std::string name = {};
  core::ContainerKind kind = core::ContainerKind::app;
  bool exclusive = false;  // whole devices or MIG instances
  core::SharingMode mode = core::SharingMode::time_slicing;
  std::int64_t nano = 0;  // of fraction requests; else 0
  std::vector<GrantedDevice> devices = {};
  // Not in the annotation, only for the Binding that it is written with:
  bool mig = false;
  int compute_milli = 0;  // under sm-sharing: declared, or in proportion to the memory (L6)
  bool operator==(const GrantedContainer&) const = default;
};

struct GrantRecord {
  std::string id = {};  // "g-0000001f"
  std::string node = {};
  std::vector<GrantedContainer> containers = {};  // those with devices, in the request's order
  bool operator==(const GrantRecord&) const = default;
};

// `request` is the one the grant answers, `fleet` knows its devices and node.
GrantRecord record_of(const core::Grant& grant, const core::Request& request,
                      const core::Fleet& fleet);

std::string grant_text(const GrantRecord& record);

struct GrantReading {
  std::optional<GrantRecord> record = {};   // whole and sound, or nothing
  std::string problem = {};                 // why not, for the alarm
  std::string node = {};                    // without a record: what could still be read
  std::vector<GrantedDevice> foreign = {};  // without a record: devices that it names, with sizes
};

GrantReading read_grant(std::string_view text);

struct BindingRules {
  bool cdi = false;            // the node names devices in the CDI way
  bool assigns_whole = false;  // `wholeDevices: berth`: whole devices are named by us, too
};

// All annotations of the Binding. `present` are those of the pod: sizes that stand there stay.
Labels binding_annotations(const GrantRecord& record, const Labels& present,
                           const BindingRules& rules);

}  // namespace berth::kube
