// Stream-ordered memory, its pools, and the synchronisations after which pools may have shrunk.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/captures.h"
#include "guard/preload/pools.h"

namespace berth::guard::hooks {

// The pool a block came from, and its entry. Null: the driver does not say.
Pool* pool_of_block(CuPtr block, CuHandle asked);
// The entry of a pool that a program names: also of a device's own pools, which nobody creates.
// Null: unknown.
Pool* pool_asked_for(CuHandle pool);
// The pool that an allocation would use: the one asked for, else the device's current one.
Pool* pool_to_use(CuHandle asked);
// Gives a block back that does not fit, and lets the pool shrink.
void undo_pool_block(CuPtr block, CuHandle stream, Pool& pool);

template <Name kName, typename Forward>
int pool_allocate(CuPtr* out, Size bytes, CuHandle stream, CuHandle pool, Forward&& forward) {
  const Call call;
  if (!call.counts() || out == nullptr) return forward();
  const Place place = current_place();
  Pool* asked = pool != nullptr ? pool_asked_for(pool) : nullptr;
  const bool foreign = asked != nullptr && asked->target == kUntouched;
  if (foreign || (asked == nullptr && place.target == kUntouched) || is_capturing(stream)) {
    return forward();
  }
  const int target = asked != nullptr ? asked->target : place.target;
  const std::uint64_t most = round_up(bytes, kPoolGrain);
  Charging charging = charge(target, most, true);
  if (charging == Charging::refused) {
    Pool* known = pool_to_use(pool);
    if (known == nullptr || !has_slack(*known, bytes)) {
      refuse(target, most);
      return kCudaOutOfMemory;
    }
    charging = Charging::uncounted;
  }
  Reservation reservation(target, most, charging);
  const CuPtr old = *out;
  const int code = forward();
  if (code != kCudaSuccess) return code;
  Pool* used = pool_of_block(*out, pool);
  if (used == nullptr) {
    // Nobody can tell its pool: it is charged for itself.
    enter(local()->pointers, *out,
          Held{.bytes = reservation.keep(), .target = target, .context = place.context}.packed());
    return code;
  }
  // A pool that we took for another device's has nothing reserved for it.
  Reservation nothing(used->target, 0, Charging::uncounted);
  if (settle_pool(*used, used->target == target ? reservation : nothing)) return code;
  undo_pool_block(*out, stream, *used);
  *out = old;
  return kCudaOutOfMemory;
}

template <Name kName>
int mem_alloc_async(CuPtr* out, Size bytes, CuHandle stream) {
  return pool_allocate<kName>(out, bytes, stream_meant<kName>(stream), nullptr,
                              [&] { return driver<kName>(out, bytes, stream); });
}

template <Name kName>
int mem_alloc_from_pool(CuPtr* out, Size bytes, CuHandle pool, CuHandle stream) {
  return pool_allocate<kName>(out, bytes, stream_meant<kName>(stream), pool,
                              [&] { return driver<kName>(out, bytes, pool, stream); });
}

template <Name kName>
int mem_free_async(CuPtr pointer, CuHandle stream) {
  const Call call;
  const OrphanBlock orphan = orphan_block(pointer);
  const int code = driver<kName>(pointer, stream);
  if (code != kCudaSuccess || pointer == 0 || !call.counts()) return code;
  orphan_block_freed(orphan);
  if (!drop(local()->pointers, pointer)) {
    pool_memory_freed(FreedOn::stream(stream_meant<kName>(stream)));
  }
  return code;
}

template <Name kName>
int pool_create(CuHandle* out, const PoolProps* props) {
  const Call call;
  const int code = driver<kName>(out, props);
  if (code != kCudaSuccess || !call.counts() || out == nullptr || props == nullptr) return code;
  const bool on_device = props->location.type == kLocationDevice;
  pool_entry(*out, on_device ? target_of_device(props->location.id) : kUntouched,
             on_device ? props->location.id : -1);
  return code;
}

template <Name kName>
int pool_import(CuHandle* out, void* handle, int type, Flags64 flags) {
  const Call call;
  const int code = driver<kName>(out, handle, type, flags);
  // The memory belongs to the exporter.
  if (code == kCudaSuccess && out != nullptr && call.counts()) pool_entry(*out, kUntouched, -1);
  return code;
}

template <Name kName>
int pool_destroy(CuHandle pool) {
  const Call call;
  if (!call.counts()) return driver<kName>(pool);
  const PoolEnd end = before_pool_ends(pool);
  const int code = driver<kName>(pool);
  if (code == kCudaSuccess) pool_gone(pool, end);
  return code;
}

template <Name kName>
int pool_trim(CuHandle pool, Size keep) {
  const Call call;
  const int code = driver<kName>(pool, keep);
  if (code != kCudaSuccess || !call.counts()) return code;
  if (Pool* known = known_pool(pool)) settle_pool(*known);
  return code;
}

template <Name kName>
int pool_set_attribute(CuHandle pool, int attribute, void* value) {
  const Call call;
  const int code = driver<kName>(pool, attribute, value);
  if (code == kCudaSuccess && call.counts()) pool_memory_freed();
  return code;
}

// One flag test while no pool is dirty. The wait itself is outside the scope of a call of ours,
// since a signal handler may leave it by a jump.
template <Name kName, typename... Arguments>
int synchronize(Waited waited, CuHandle stream, Arguments... arguments) {
  const int code = driver<kName>(arguments...);
  if (code != kCudaSuccess || !pools_are_dirty()) return code;
  const Call call;
  if (call.counts()) settle_dirty_pools(waited, stream);
  return code;
}

template <Name kName>
int stream_synchronize(CuHandle stream) {
  return synchronize<kName>(Waited::stream, stream_meant<kName>(stream), stream);
}

template <Name kName>
int ctx_synchronize() {
  return synchronize<kName>(Waited::everything, nullptr);
}

template <Name kName>
int ctx_synchronize_v2(CuHandle context) {
  return synchronize<kName>(Waited::everything, nullptr, context);
}

template <Name kName>
int event_synchronize(CuHandle event) {
  return synchronize<kName>(Waited::event, nullptr, event);
}

}  // namespace berth::guard::hooks
