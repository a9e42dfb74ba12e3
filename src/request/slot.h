// Names of the annotations in which a container finds its grant (annotations.md 3.2, 3.3).
//
//   slot_key("main", kDevicesField);            // "berth.dev/main.devices"
//   slot_reference("main", kDevicesField);      // "metadata.annotations['berth.dev/main.devices']"
//
// The webhook injects environment that refers to them, the scheduler writes them in the Binding,
// admission refuses everybody else's. Thread-safety: functions of their arguments.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace berth::request {

inline constexpr std::string_view kDevicesField = "devices";
inline constexpr std::string_view kMemoryRequestField = "memory-request-mib";
inline constexpr std::string_view kMemoryLimitField = "memory-limit-mib";

// The container's name, or of one beyond 40 characters the first 31, "-" and 8 digits of its
// SHA-256: the name part of an annotation's key has at most 63 characters.
std::string slot_of(std::string_view container);

// Environment that is injected by reference, each with the field that it refers to.
struct InjectedEnv {
  std::string_view name;
  std::string_view field;
};
inline constexpr std::array<InjectedEnv, 5> kInjectedEnv{{
    {"NVIDIA_VISIBLE_DEVICES", kDevicesField},
    {"NVIDIA_GPU_MEMORY_REQUEST", kMemoryRequestField},
    {"NVIDIA_GPU_MEMORY_LIMIT", kMemoryLimitField},
    {"BERTH_MEMORY_MIB", kMemoryRequestField},
    {"BERTH_MEMORY_LIMIT_MIB", kMemoryLimitField},
}};

std::string slot_key(std::string_view container, std::string_view field);
std::string slot_reference(std::string_view container, std::string_view field);

}  // namespace berth::request
