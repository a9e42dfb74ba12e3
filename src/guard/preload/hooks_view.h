// What the driver tells about memory, made to agree with the limit (enforcement.md 2.5), and the
// start of the driver.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/message.h"
#include "guard/preload/pools.h"
#include "guard/preload/view.h"

namespace berth::guard::hooks {

// A 32-bit caller sees at most what fits, never a remainder.
template <typename Value>
void put(Value* to, std::uint64_t value) {
  if (to == nullptr) return;
  constexpr std::uint64_t kMost = ~Value{0};
  *to = static_cast<Value>(value < kMost ? value : kMost);
}

template <Name kName, typename Value>
int mem_get_info_as(Value* free, Value* total) {
  const Call call;
  const int code = driver<kName>(free, total);
  if (code != kCudaSuccess || free == nullptr || total == nullptr || !call.counts()) return code;
  const Place place = current_place();
  if (place.target == kUntouched) return code;
  if (pools_are_dirty()) settle_dirty_pools();
  std::uint64_t true_total = *total;
  std::uint64_t true_free = *free;
  if constexpr (sizeof(Value) < 8) {
    Size wide_free = 0;
    Size wide_total = 0;
    if (driver<Name::cuMemGetInfo_v2>(&wide_free, &wide_total) == kCudaSuccess) {
      true_free = wide_free;
      true_total = wide_total;
    }
  }
  const MemoryView view = view_of(place.target, true_total, true_free);
  put(free, view.free);
  put(total, view.total);
  return code;
}

template <Name kName>
int mem_get_info(Size* free, Size* total) {
  return mem_get_info_as<kName>(free, total);
}

template <Name kName>
int mem_get_info_v1(unsigned* free, unsigned* total) {
  return mem_get_info_as<kName>(free, total);
}

template <Name kName, typename Value>
int device_total_as(Value* bytes, CuDevice device) {
  const Call call;
  const int code = driver<kName>(bytes, device);
  if (code != kCudaSuccess || bytes == nullptr || !call.counts()) return code;
  const int target = target_of_device(device);
  if (target == kUntouched) return code;
  const std::uint64_t limit = limit_of(target);
  if (limit < *bytes) put(bytes, limit);
  return code;
}

template <Name kName>
int device_total(Size* bytes, CuDevice device) {
  return device_total_as<kName>(bytes, device);
}

template <Name kName>
int device_total_v1(unsigned* bytes, CuDevice device) {
  return device_total_as<kName>(bytes, device);
}

template <Name kName>
int init(unsigned flags) {
  const Depth depth;
  if (!depth.nested() && mode() == Mode::closed) {
    const ErrorKeeper keeper;
    print_closed(g_grant.directory, closed_reason());
    return kCudaNotPermitted;
  }
  return driver<kName>(flags);
}

}  // namespace berth::guard::hooks
