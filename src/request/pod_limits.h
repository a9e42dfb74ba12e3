// The GPU resources of one container, from its `resources.limits`. Private to src/request.
// Thread-safety: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/model/request.h"
#include "request/pod.h"
#include "request/pod_keys.h"

namespace berth::request {

// Which family of words a container's limits belong to (annotations.md 1.2).
enum class LimitFamily : std::uint8_t { none, whole, hami, shared, mig };

struct LimitAsk {
  LimitFamily family = LimitFamily::none;  // none also where the families contradict each other
  core::DeviceAsk ask;                     // kind none if nothing is asked, or something is wrong
  std::optional<int> priority;             // nvidia.com/priority
  std::string key;                         // the resource that asks, for messages
  std::string text;
  std::string gpu_count;  // nvidia.com/gpu as written, if above 0
};

LimitAsk read_limits(const ContainerWords& container, const PodRules& rules, Findings& findings);

// Resources that only other schedulers read.
bool is_unsupported_family(std::string_view key);
// Names of resources that read_limits reads.
bool is_gpu_resource(std::string_view key);

}  // namespace berth::request
