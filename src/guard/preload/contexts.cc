#include "guard/preload/contexts.h"

#include "guard/preload/books.h"
#include "guard/preload/grant.h"
#include "guard/preload/pools.h"
#include "guard/preload/real.h"

namespace berth::guard {

namespace {

constexpr std::int32_t kGone = -2;  // target of a context that was destroyed

std::uint64_t key_of(CuHandle context) { return reinterpret_cast<std::uint64_t>(context); }

std::uint32_t home_of(std::uint64_t key) {
  return static_cast<std::uint32_t>((key * 0x9E3779B97F4A7C15U) >> 40U) % kContexts;
}

// Index of the handle's entry, living or gone; kContexts: none.
std::uint32_t find_entry(const Local& own, std::uint64_t key) {
  std::uint32_t at = home_of(key);
  for (std::uint32_t i = 0; i < kContexts; ++i, at = (at + 1) % kContexts) {
    const std::uint64_t handle = own.contexts[at].handle.load(std::memory_order_acquire);
    if (handle == key) return at;
    if (handle == 0) break;
  }
  return kContexts;
}

// A place for a new handle: its old entry, an empty one, or one that is gone.
std::uint32_t place_for(const Local& own, std::uint64_t key) {
  const std::uint32_t known = find_entry(own, key);
  if (known != kContexts) return known;
  std::uint32_t at = home_of(key);
  for (std::uint32_t i = 0; i < kContexts; ++i, at = (at + 1) % kContexts) {
    const Context& entry = own.contexts[at];
    if (entry.handle.load(std::memory_order_relaxed) == 0 || entry.target == kGone) return at;
  }
  return kContexts;
}

// Index of the new entry; kContexts: it lives already, or the table is full.
std::uint32_t add(Local& own, CuHandle handle, const Context& like, int target) {
  const Locked locked(own.lock);
  const std::uint32_t at = place_for(own, key_of(handle));
  if (at == kContexts) return kContexts;
  Context& entry = own.contexts[at];
  const bool lives = entry.handle.load() == key_of(handle) && entry.target.load() != kGone;
  if (lives) return kContexts;
  entry.ordinal = like.ordinal;
  entry.charged = like.charged;
  for (int limit = 0; limit <= kLimitHeap; ++limit) {
    entry.limits[limit] = 0;
    entry.initial[limit] = 0;
  }
  entry.created_here = like.created_here;
  entry.attached = 0;
  entry.sample.store(0);
  entry.start = nullptr;  // the events of a former context died with it
  entry.end = nullptr;
  entry.target.store(target, std::memory_order_release);
  entry.handle.store(key_of(handle), std::memory_order_release);
  return at;
}

void forget(Local& own, std::uint32_t index) {
  Context& entry = own.contexts[index];
  int target = kUntouched;
  std::uint64_t bytes = 0;
  {
    const Locked locked(own.lock);
    target = entry.target.load(std::memory_order_relaxed);
    if (target == kGone) return;
    bytes = entry.charged + entry.limits[0] + entry.limits[1] + entry.limits[2];
    entry.target.store(kGone, std::memory_order_release);
  }
  if (target >= 0) release(target, bytes);
  drop_objects_of(index);
  // With a device's last context its pools and graph memory may go.
  pool_memory_freed();
  settle_dirty_pools();
}

// A context that nobody saw created, met at its first counted call.
[[gnu::noinline]] Place adopt(Local& own, CuHandle context) {
  CuDevice device = -1;
  if (driver<Name::cuCtxGetDevice>(&device) != kCudaSuccess) return {};
  const int target = target_of_device(device);
  Context entry{};
  entry.ordinal = device;
  const std::uint64_t bytes = target >= 0 ? context_bytes(target) : 0;
  entry.charged = bytes;
  const std::uint32_t at = add(own, context, entry, target);
  if (at != kContexts && bytes != 0) charge_always(target, bytes);
  return {.target = target, .context = at != kContexts ? at : find_entry(own, key_of(context))};
}

}  // namespace

std::uint64_t context_bytes(int target) {
  const PolicyDevice* policy = policy_of(target);
  return policy != nullptr ? policy->context_bytes : 0;
}

Place current_place() {
  Local* own = local();
  CuHandle context = nullptr;
  if (own == nullptr || driver<Name::cuCtxGetCurrent>(&context) != kCudaSuccess ||
      context == nullptr) {
    return {};
  }
  const std::uint32_t at = find_entry(*own, key_of(context));
  if (at != kContexts) [[likely]] {
    const int target = own->contexts[at].target.load(std::memory_order_acquire);
    if (target != kGone) [[likely]] {
      return {.target = target, .context = at};
    }
  }
  return adopt(*own, context);
}

void enter_context(CuHandle context, CuDevice device, std::uint64_t charged, bool created_here) {
  Local& own = *local();
  const int target = target_of_device(device);
  Context entry{};
  entry.ordinal = device;
  entry.charged = charged;
  entry.created_here = created_here;
  if (created_here) {
    // The driver gives the address of a context out again only after the old one was destroyed.
    context_gone(context);
  }
  if (add(own, context, entry, target) == kContexts && target >= 0) release(target, charged);
}

void context_gone(CuHandle context) {
  Local* own = local();
  if (own == nullptr || context == nullptr) return;
  const std::uint32_t at = find_entry(*own, key_of(context));
  if (at != kContexts) forget(*own, at);
}

void context_attached(CuHandle context) {
  current_place();  // enters the context if nobody saw it created
  Local& own = *local();
  const std::uint32_t at = find_entry(own, key_of(context));
  if (at == kContexts) return;
  const Locked locked(own.lock);
  ++own.contexts[at].attached;
}

void context_detached(CuHandle context) {
  Local& own = *local();
  const std::uint32_t at = find_entry(own, key_of(context));
  if (at == kContexts) return;
  {
    const Locked locked(own.lock);
    std::uint32_t& attached = own.contexts[at].attached;
    if (attached != 0) {
      --attached;
      return;
    }
  }
  forget(own, at);
}

bool is_primary_active(CuDevice device) {
  unsigned flags = 0;
  int active = 0;
  if (driver<Name::cuDevicePrimaryCtxGetState>(device, &flags, &active) == kCudaSuccess) {
    return active != 0;
  }
  // A driver without the question: the visible retains tell.
  return device >= 0 && device < 64 && local()->retains[device] != 0;
}

bool is_primary_known(CuDevice device) {
  const Local& own = *local();
  for (const Context& entry : own.contexts) {
    if (entry.handle.load(std::memory_order_acquire) != 0 && !entry.created_here &&
        entry.ordinal == device && entry.target.load(std::memory_order_acquire) >= 0) {
      return true;
    }
  }
  return false;
}

void settle_primary(CuDevice device) {
  if (!is_primary_active(device)) primary_gone(device);
}

void count_retain(CuDevice device, int change) {
  if (device < 0 || device >= 64) return;
  Local& own = *local();
  const Locked locked(own.lock);
  std::uint32_t& retains = own.retains[device];
  if (change > 0) {
    ++retains;
  } else if (retains != 0) {
    --retains;
  }
}

void enter_green(CuHandle context) {
  CuDevice device = -1;
  // The device is that of the thread's context once the green one is current; until it is, the
  // first device stands for it where there is only one.
  int count = 0;
  if (driver<Name::cuDeviceGetCount>(&count) == kCudaSuccess && count == 1) device = 0;
  if (device < 0) return;  // adopted at its first counted call
  Context entry{};
  entry.ordinal = device;
  entry.created_here = true;
  add(*local(), context, entry, target_of_device(device));
}

void primary_gone(CuDevice device) {
  Local& own = *local();
  for (std::uint32_t i = 0; i < kContexts; ++i) {
    const Context& entry = own.contexts[i];
    if (entry.handle.load(std::memory_order_acquire) != 0 && !entry.created_here &&
        entry.ordinal == device) {
      forget(own, i);
    }
  }
}

std::uint64_t limit_bytes(int limit, std::uint64_t value) {
  if (limit == kLimitPrintf || limit == kLimitHeap) return value;
  if (limit != kLimitStack) return 0;
  CuDevice device = -1;
  int processors = 0;
  int threads = 0;
  if (driver<Name::cuCtxGetDevice>(&device) != kCudaSuccess) return 0;
  driver<Name::cuDeviceGetAttribute>(&processors, kAttributeProcessors, device);
  driver<Name::cuDeviceGetAttribute>(&threads, kAttributeThreads, device);
  if (processors <= 0 || threads <= 0) return 0;
  return times(value, static_cast<std::uint64_t>(processors) * static_cast<std::uint64_t>(threads));
}

std::uint64_t limit_charge(std::uint32_t context, int limit, std::uint64_t before,
                           std::uint64_t value) {
  if (context >= kContexts) return 0;
  std::uint64_t initial = 0;
  {
    const Locked locked(local()->lock);
    std::uint64_t& known = local()->contexts[context].initial[limit];
    if (known == 0) known = before + 1;
    initial = known - 1;
  }
  const std::uint64_t began = limit_bytes(limit, initial);
  const std::uint64_t now = limit_bytes(limit, value);
  return now > began ? now - began : 0;
}

std::uint64_t charged_for_limit(std::uint32_t context, int limit) {
  if (context >= kContexts) return 0;
  const Locked locked(local()->lock);
  return local()->contexts[context].limits[limit];
}

std::uint64_t remember_limit_charge(std::uint32_t context, int limit, std::uint64_t bytes) {
  if (context >= kContexts) return 0;
  const Locked locked(local()->lock);
  std::uint64_t& charged = local()->contexts[context].limits[limit];
  const std::uint64_t old = charged;
  charged = bytes;
  return old;
}

}  // namespace berth::guard
