// Contexts and their limits.
#pragma once

#include "guard/preload/call.h"

namespace berth::guard::hooks {

// A visible creation: refused where it does not fit.
template <typename Forward>
int create_context(CuHandle* out, CuDevice device, Forward&& forward) {
  const Call call;
  if (!call.counts() || out == nullptr) return forward();
  const int target = target_of_device(device);
  if (target == kUntouched) return forward();
  Reservation reservation(target, context_bytes(target));
  if (!reservation.granted()) return kCudaOutOfMemory;
  const int code = forward();
  if (code == kCudaSuccess) enter_context(*out, device, reservation.keep(), true);
  return code;
}

template <Name kName>
int ctx_create(CuHandle* out, unsigned flags, CuDevice device) {
  return create_context(out, device, [&] { return driver<kName>(out, flags, device); });
}

template <Name kName>
int ctx_create_v3(CuHandle* out, void* affinity, int count, unsigned flags, CuDevice device) {
  return create_context(out, device,
                        [&] { return driver<kName>(out, affinity, count, flags, device); });
}

template <Name kName>
int ctx_create_v4(CuHandle* out, void* params, unsigned flags, CuDevice device) {
  return create_context(out, device, [&] { return driver<kName>(out, params, flags, device); });
}

template <Name kName>
int vdpau_ctx_create(CuHandle* out, unsigned flags, CuDevice device, unsigned vdpau_device,
                     void* get_proc) {
  return create_context(out, device,
                        [&] { return driver<kName>(out, flags, device, vdpau_device, get_proc); });
}

template <Name kName>
int ctx_destroy(CuHandle context) {
  const Call call;
  const int code = driver<kName>(context);
  if (code == kCudaSuccess && call.counts()) context_gone(context);
  return code;
}

// A context has as many users as it was attached; the last one's detach destroys it.
template <Name kName>
int ctx_attach(CuHandle* out, unsigned flags) {
  const Call call;
  const int code = driver<kName>(out, flags);
  if (code == kCudaSuccess && out != nullptr && call.counts()) context_attached(*out);
  return code;
}

template <Name kName>
int ctx_detach(CuHandle context) {
  const Call call;
  const int code = driver<kName>(context);
  if (code == kCudaSuccess && call.counts()) context_detached(context);
  return code;
}

// The primary context is one, however often it is retained and by whom.
template <Name kName>
int primary_retain(CuHandle* out, CuDevice device) {
  const Call call;
  if (!call.counts() || out == nullptr) return driver<kName>(out, device);
  const int target = target_of_device(device);
  if (target == kUntouched) return driver<kName>(out, device);
  settle_primary(device);
  const bool fresh = !is_primary_known(device);
  if (!fresh) {
    const int code = driver<kName>(out, device);
    if (code == kCudaSuccess) count_retain(device, 1);
    return code;
  }
  // One that lives already cannot be refused any more.
  const bool late = is_primary_active(device);
  if (late) charge_always(target, context_bytes(target));
  Reservation reservation(target, context_bytes(target),
                          late ? Charging::uncounted : charge(target, context_bytes(target)));
  if (!reservation.granted()) return kCudaOutOfMemory;
  const int code = driver<kName>(out, device);
  if (code == kCudaSuccess) {
    count_retain(device, 1);
    reservation.keep();
    enter_context(*out, device, context_bytes(target), false);
  } else if (late) {
    release(target, context_bytes(target));
  }
  return code;
}

template <Name kName>
int primary_release(CuDevice device) {
  const Call call;
  const int code = driver<kName>(device);
  if (code != kCudaSuccess || !call.counts()) return code;
  count_retain(device, -1);
  settle_primary(device);
  return code;
}

template <Name kName>
int primary_reset(CuDevice device) {
  const Call call;
  const int code = driver<kName>(device);
  if (code == kCudaSuccess && call.counts()) primary_gone(device);
  return code;
}

// A green context is a part of the primary one, which it brings to life.
template <Name kName>
int green_create(CuHandle* out, CuHandle description, CuDevice device, unsigned flags) {
  const Call call;
  const auto forward = [&] { return driver<kName>(out, description, device, flags); };
  if (!call.counts()) return forward();
  const int target = target_of_device(device);
  if (target == kUntouched || is_primary_known(device) || is_primary_active(device)) {
    return forward();
  }
  Reservation room(target, context_bytes(target));
  return room.granted() ? forward() : kCudaOutOfMemory;
}

template <Name kName>
int ctx_from_green(CuHandle* out, CuHandle green) {
  const Call call;
  const int code = driver<kName>(out, green);
  if (code == kCudaSuccess && out != nullptr && call.counts()) enter_green(*out);
  return code;
}

template <Name kName>
int ctx_set_limit(int limit, Size value) {
  const Call call;
  Size before = 0;
  const bool counted = call.counts() && limit >= kLimitStack && limit <= kLimitHeap;
  const Place place = counted ? current_place() : Place{};
  if (place.target == kUntouched || driver<Name::cuCtxGetLimit>(&before, limit) != kCudaSuccess) {
    return driver<kName>(limit, value);
  }
  const std::uint64_t had = charged_for_limit(place.context, limit);
  const std::uint64_t wanted = limit_charge(place.context, limit, before, value);
  Reservation reservation(place.target, wanted > had ? wanted - had : 0);
  if (!reservation.granted()) return kCudaOutOfMemory;
  const int code = driver<kName>(limit, value);
  if (code != kCudaSuccess) return code;
  // The driver may have taken another value.
  Size now = value;
  driver<Name::cuCtxGetLimit>(&now, limit);
  const std::uint64_t paid = had + reservation.keep();
  std::uint64_t due = limit_charge(place.context, limit, before, now);
  if (due > paid) due = paid;  // uncounted, or more than asked: not ours to refuse any more
  release(place.target, paid - due);
  remember_limit_charge(place.context, limit, due);
  return code;
}

}  // namespace berth::guard::hooks
