// Linear, pitched and managed memory, and arrays.
#pragma once

#include "guard/preload/arrays.h"
#include "guard/preload/call.h"
#include "guard/preload/pools.h"

namespace berth::guard::hooks {

// Reserves, calls, remembers. `key` tells the object's key after success.
template <typename Forward, typename Key>
int allocate(const Place& place, std::uint64_t bytes, Forward&& forward, Key&& key) {
  Reservation reservation(place.target, bytes);
  if (!reservation.granted()) return kCudaOutOfMemory;
  const int code = forward();
  if (code != kCudaSuccess) return code;
  enter(
      local()->pointers, key(),
      Held{.bytes = reservation.keep(), .target = place.target, .context = place.context}.packed());
  return code;
}

template <Name kName, typename Pointer, typename Bytes>
int mem_alloc_as(Pointer* out, Bytes bytes) {
  const Call call;
  if (!call.counts()) return driver<kName>(out, bytes);
  const Place place = current_place();
  if (place.target == kUntouched || out == nullptr) return driver<kName>(out, bytes);
  return allocate(
      place, round_up(bytes, kGrain), [&] { return driver<kName>(out, bytes); },
      [&] { return std::uint64_t{*out}; });
}

template <Name kName>
int mem_alloc(CuPtr* out, Size bytes) {
  return mem_alloc_as<kName>(out, bytes);
}

template <Name kName>
int mem_alloc_v1(unsigned* out, unsigned bytes) {
  return mem_alloc_as<kName>(out, bytes);
}

// The driver first: only what it has freed is given back.
template <Name kName>
int mem_free(CuPtr pointer) {
  const Call call;
  const OrphanBlock orphan = orphan_block(pointer);
  const int code = driver<kName>(pointer);
  if (code != kCudaSuccess || pointer == 0 || !call.counts()) return code;
  orphan_block_freed(orphan);
  if (!drop(local()->pointers, pointer)) pool_memory_freed();
  return code;
}

template <Name kName>
int mem_free_v1(unsigned pointer) {
  const Call call;
  const int code = driver<kName>(pointer);
  if (code == kCudaSuccess && pointer != 0 && call.counts()) drop(local()->pointers, pointer);
  return code;
}

template <Name kName, typename Pointer, typename Bytes>
int mem_alloc_pitch_as(Pointer* out, Bytes* pitch, Bytes width, Bytes height, unsigned element) {
  const Call call;
  if (!call.counts()) return driver<kName>(out, pitch, width, height, element);
  const Place place = current_place();
  if (place.target == kUntouched || out == nullptr || pitch == nullptr) {
    return driver<kName>(out, pitch, width, height, element);
  }
  Reservation reservation(place.target, times(round_up(width, kGrain), height));
  if (!reservation.granted()) return kCudaOutOfMemory;
  const Pointer old_out = *out;
  const Bytes old_pitch = *pitch;
  const int code = driver<kName>(out, pitch, width, height, element);
  if (code != kCudaSuccess) return code;
  const std::uint64_t truth = round_up(times(*pitch, height), kGrain);
  std::uint64_t kept = reservation.bytes();
  if (kept != 0 && truth > kept) {
    Reservation rest(place.target, truth - kept);
    if (!rest.granted()) {
      free_again(*out);
      *out = old_out;
      *pitch = old_pitch;
      return kCudaOutOfMemory;
    }
    kept += rest.keep();
  } else if (kept > truth) {
    release(place.target, kept - truth);
    kept = truth;
  }
  reservation.keep();
  enter(local()->pointers, *out,
        Held{.bytes = kept, .target = place.target, .context = place.context}.packed());
  return code;
}

template <Name kName>
int mem_alloc_pitch(CuPtr* out, Size* pitch, Size width, Size height, unsigned element) {
  return mem_alloc_pitch_as<kName>(out, pitch, width, height, element);
}

template <Name kName>
int mem_alloc_pitch_v1(unsigned* out, unsigned* pitch, unsigned width, unsigned height,
                       unsigned element) {
  return mem_alloc_pitch_as<kName>(out, pitch, width, height, element);
}

template <Name kName>
int mem_alloc_managed(CuPtr* out, Size bytes, unsigned flags) {
  const Call call;
  if (!call.counts() || (g_grant.policy->flags & policy_managed_uncounted) != 0) {
    return driver<kName>(out, bytes, flags);
  }
  const Place place = current_place();
  if (place.target == kUntouched || out == nullptr) return driver<kName>(out, bytes, flags);
  return allocate(
      place, round_up(bytes, kGrain), [&] { return driver<kName>(out, bytes, flags); },
      [&] { return std::uint64_t{*out}; });
}

// Arrays

template <Name kName, typename Descriptor>
int create_array(CuHandle* out, const Descriptor* descriptor) {
  const Call call;
  if (!call.counts() || descriptor == nullptr || out == nullptr) {
    return driver<kName>(out, descriptor);
  }
  const Place place = current_place();
  if (place.target == kUntouched) return driver<kName>(out, descriptor);
  return allocate(
      place, array_bytes(shape_of(*descriptor), 1), [&] { return driver<kName>(out, descriptor); },
      [&] { return reinterpret_cast<std::uint64_t>(*out); });
}

template <Name kName>
int array_create(CuHandle* out, const ArrayDescriptor* descriptor) {
  return create_array<kName>(out, descriptor);
}

template <Name kName>
int array_create_v1(CuHandle* out, const ArrayDescriptorV1* descriptor) {
  return create_array<kName>(out, descriptor);
}

template <Name kName>
int array3d_create(CuHandle* out, const Array3dDescriptor* descriptor) {
  return create_array<kName>(out, descriptor);
}

template <Name kName>
int array3d_create_v1(CuHandle* out, const Array3dDescriptorV1* descriptor) {
  return create_array<kName>(out, descriptor);
}

template <Name kName>
int mipmapped_array_create(CuHandle* out, const Array3dDescriptor* descriptor, unsigned levels) {
  const Call call;
  if (!call.counts() || descriptor == nullptr || out == nullptr) {
    return driver<kName>(out, descriptor, levels);
  }
  const Place place = current_place();
  if (place.target == kUntouched) return driver<kName>(out, descriptor, levels);
  return allocate(
      place, array_bytes(shape_of(*descriptor), levels),
      [&] { return driver<kName>(out, descriptor, levels); },
      [&] { return reinterpret_cast<std::uint64_t>(*out); });
}

template <Name kName>
int array_destroy(CuHandle array) {
  const Call call;
  const int code = driver<kName>(array);
  if (code == kCudaSuccess && array != nullptr && call.counts()) {
    drop(local()->pointers, reinterpret_cast<std::uint64_t>(array));
  }
  return code;
}

}  // namespace berth::guard::hooks
