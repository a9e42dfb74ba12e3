// Virtual memory management.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/vmm.h"

namespace berth::guard::hooks {

template <Name kName>
int mem_create(CuAllocation* out, Size bytes, const AllocationProp* prop, Flags64 flags) {
  const Call call;
  if (!call.counts() || out == nullptr || prop == nullptr) {
    return driver<kName>(out, bytes, prop, flags);
  }
  // Memory of the host (and of its NUMA nodes) has ids of its own, which name no device.
  const bool on_device = prop->location.type == kLocationDevice;
  const int target = on_device ? target_of_device(prop->location.id) : kUntouched;
  if (target == kUntouched) return driver<kName>(out, bytes, prop, flags);
  Reservation reservation(target, bytes < kImpossible ? bytes : kImpossible);
  if (!reservation.granted()) return kCudaOutOfMemory;
  const int code = driver<kName>(out, bytes, prop, flags);
  if (code == kCudaSuccess) backing_created(*out, target, reservation.keep());
  return code;
}

template <Name kName>
int mem_release(CuAllocation handle) {
  const Call call;
  const int code = driver<kName>(handle);
  if (code == kCudaSuccess && call.counts()) backing_released(handle);
  return code;
}

template <Name kName>
int mem_retain(CuAllocation* out, void* address) {
  const Call call;
  const int code = driver<kName>(out, address);
  if (code == kCudaSuccess && out != nullptr && call.counts()) {
    backing_retained(*out, reinterpret_cast<CuPtr>(address));
  }
  return code;
}

template <Name kName>
int mem_map(CuPtr at, Size bytes, Size offset, CuAllocation handle, Flags64 flags) {
  const Call call;
  const int code = driver<kName>(at, bytes, offset, handle, flags);
  if (code == kCudaSuccess && call.counts()) backing_mapped(at, bytes, handle);
  return code;
}

template <Name kName>
int mem_unmap(CuPtr at, Size bytes) {
  const Call call;
  const int code = driver<kName>(at, bytes);
  if (code == kCudaSuccess && call.counts()) range_unmapped(at, bytes);
  return code;
}

template <Name kName>
int mem_map_array(ArrayMapInfo* list, unsigned count, CuHandle stream) {
  const Call call;
  const int code = driver<kName>(list, count, stream);
  if (code != kCudaSuccess || list == nullptr || !call.counts()) return code;
  for (unsigned i = 0; i < count; ++i) {
    constexpr int kMap = 1;
    if (list[i].operation == kMap) {
      tile_mapped(tile_key(list[i]), list[i].handle);
    } else {
      tile_unmapped(tile_key(list[i]));
    }
  }
  return code;
}

template <Name kName>
int mem_import(CuAllocation* out, void* os_handle, int type) {
  const Call call;
  const int code = driver<kName>(out, os_handle, type);
  if (code == kCudaSuccess && out != nullptr && call.counts()) backing_imported(*out);
  return code;
}

// A multicast object has no memory of its own; it keeps what is bound to it.
template <Name kName>
int multicast_create(CuAllocation* out, const void* prop) {
  const Call call;
  const int code = driver<kName>(out, prop);
  if (code == kCudaSuccess && out != nullptr && call.counts()) {
    backing_created(*out, kUntouched, 0);
  }
  return code;
}

template <Name kName>
int multicast_bind(CuAllocation group, Size offset, CuAllocation memory, Size memory_offset,
                   Size bytes, Flags64 flags) {
  const Call call;
  const int code = driver<kName>(group, offset, memory, memory_offset, bytes, flags);
  if (code == kCudaSuccess && call.counts()) group_bound(group, offset, memory);
  return code;
}

template <Name kName>
int multicast_bind_address(CuAllocation group, Size offset, CuPtr address, Size bytes,
                           Flags64 flags) {
  const Call call;
  const int code = driver<kName>(group, offset, address, bytes, flags);
  if (code == kCudaSuccess && call.counts()) group_bound_at(group, offset, address);
  return code;
}

template <Name kName>
int multicast_unbind(CuAllocation group, CuDevice device, Size offset, Size bytes) {
  const Call call;
  const int code = driver<kName>(group, device, offset, bytes);
  if (code == kCudaSuccess && call.counts()) {
    group_unbound(group, target_of_device(device), offset, bytes);
  }
  return code;
}

}  // namespace berth::guard::hooks
