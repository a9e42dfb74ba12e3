// The hard rules of sharing: which device may take which ask. Each rule is one row of one of two
// tables, with the reason code that users see when it says no.
//
//   static rules   what a device is (model, MIG, NUMA …): asked once per request shape and node
//   type device rules   what is promised on it now: asked in every evaluation, cheap, in pipeline
//   order
//
// To change a rule, change its row; to see it fail, run the scenarios (tests/scenario/annotations).
// Source: annotations.md 4.1 (L1-L15), interfaces.md 6. Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ledger/books.h"
#include "core/model/device.h"
#include "core/model/request.h"
#include "core/model/verdict.h"

namespace berth::core {

// What one ask takes of one device of a given usable memory.
struct DeviceNeed {
  std::int64_t request = 0;  // bytes
  std::int64_t limit = 0;    // bytes
  std::int32_t nano = 0;     // fraction asks only
  std::int16_t compute = 0;  // milli that it takes of the device's 1000
  std::int16_t milli = 0;    // ceil(1000 request / usable), for ranking only
  SharingMode mode = SharingMode::time_slicing;
  bool exclusive = false;
  bool mutex = false;
  std::int16_t cap = 0;  // most grants on a shared device, 0 = no cap
};

DeviceNeed need_on(const DeviceAsk& ask, std::int64_t usable_mib, int gpu_replicas, int device_cap);

struct StaticRule {
  Cause cause;
  std::string_view summary;
  bool (*passes)(const DeviceAsk& ask, const Node& node, const Device& device);
};

// In the order in which they are asked; the later one that refuses is the more telling.
std::span<const StaticRule> static_rules();

// The first static rule that refuses, or none.
Cause static_refusal(const DeviceAsk& ask, const Node& node, const Device& device);

struct DeviceRule {
  Cause cause;
  std::string_view summary;
  bool (*passes)(const DeviceNeed& need, const DeviceFace& face);
};

inline constexpr std::array<DeviceRule, 9> kDeviceRules{{
    {Cause::share_below_minimum, "a share comes to at least 1 MiB",
     [](const DeviceNeed& need, const DeviceFace&) { return need.exclusive || need.request > 0; }},
    {Cause::device_exclusive, "whole and shared never mix on one device",
     [](const DeviceNeed& need, const DeviceFace& face) {
       return face.use == DeviceUse::free || (face.use == DeviceUse::shared && !need.exclusive);
     }},
    {Cause::device_exclusive, "mutex: only a device without grants",
     [](const DeviceNeed& need, const DeviceFace& face) {
       return !need.mutex || face.grants == 0;
     }},
    {Cause::foreign_use, "a whole device may have only little foreign use",
     [](const DeviceNeed& need, const DeviceFace& face) { return !need.exclusive || face.idle; }},
    {Cause::device_cap, "at most so many grants share a device",
     [](const DeviceNeed& need, const DeviceFace& face) {
       return need.cap == 0 || need.exclusive || face.grants < need.cap;
     }},
    {Cause::compute_mode_conflict, "one sharing mode per shared device",
     [](const DeviceNeed& need, const DeviceFace& face) {
       return face.use != DeviceUse::shared || need.exclusive ||
              (face.mode == need.mode && !face.closed);
     }},
    {Cause::insufficient_compute,
     "compute shares sum to at most one; all of it needs an empty device",
     [](const DeviceNeed& need, const DeviceFace& face) {
       if (need.exclusive) {
         return true;
       }
       return need.compute == 0
                  ? face.compute_left > 0
                  : need.compute <= face.compute_left && (need.compute < 1000 || face.grants == 0);
     }},
    {Cause::insufficient_memory, "requests never exceed the headroom, fractions never one device",
     [](const DeviceNeed& need, const DeviceFace& face) {
       return need.exclusive || (need.request <= face.headroom && need.nano <= face.nano_left);
     }},
    {Cause::limit_overcommit, "limits sum to at most usable memory times the burst ratio",
     [](const DeviceNeed& need, const DeviceFace& face) {
       return need.exclusive || need.limit <= face.limit_room;
     }},
}};

// The first device rule that refuses, or none.
inline Cause device_refusal(const DeviceNeed& need, const DeviceFace& face) {
  if (face.blocked != Cause::none) {
    return face.blocked;
  }
  Cause cause = Cause::none;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (void)((kDeviceRules[I].passes(need, face) || (cause = kDeviceRules[I].cause, false)) && ...);
  }(std::make_index_sequence<kDeviceRules.size()>());
  return cause;
}

// Of two reasons the one that got further through the pipeline.
Cause more_advanced(Cause a, Cause b);

// Node rules that need no books: names, labels, taints. None if the node may serve.
Cause constraint_refusal(const NodeConstraints& constraints, const Node& node);

}  // namespace berth::core
