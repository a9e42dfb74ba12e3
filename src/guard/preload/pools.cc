#include "guard/preload/pools.h"

#include "guard/preload/grant.h"
#include "guard/preload/real.h"

namespace berth::guard {

namespace {

std::uint64_t read_attribute(const Pool& pool, int of_pool, int of_graph, bool& good) {
  std::uint64_t value = 0;
  const int code = pool.handle != 0 ? driver<Name::cuMemPoolGetAttribute>(
                                          reinterpret_cast<CuHandle>(pool.handle), of_pool,
                                          static_cast<void*>(&value))
                                    : driver<Name::cuDeviceGetGraphMemAttribute>(
                                          pool.ordinal, of_graph, static_cast<void*>(&value));
  good = code == kCudaSuccess;
  return value < kImpossible ? value : kImpossible;
}

template <typename Visit>
Pool* find_pool(Local& own, Visit&& wanted) {
  for (PoolChunk* chunk = &own.first_pools; chunk != nullptr; chunk = chunk->next) {
    for (Pool& pool : chunk->pools) {
      if (wanted(pool)) return &pool;
    }
  }
  return nullptr;
}

// Requires: own.lock is held.
Pool* find_living(Local& own, std::uint64_t handle, CuDevice device) {
  return find_pool(own, [&](const Pool& pool) {
    return pool.live && pool.handle == handle && (handle != 0 || pool.ordinal == device);
  });
}

Pool* find_or_make(std::uint64_t handle, int target, CuDevice device) {
  Local& own = *local();
  PoolChunk* more = nullptr;
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      const Locked locked(own.lock);
      if (Pool* known = find_living(own, handle, device)) return known;
      if (more != nullptr) {
        more->next = own.first_pools.next;
        own.first_pools.next = more;
      }
      Pool* free = find_pool(own, [](const Pool& pool) { return !pool.live; });
      if (free != nullptr) {
        free->handle = handle;
        free->target = target;
        free->ordinal = device;
        free->charged = 0;
        free->orphan = false;
        free->live = true;
        return free;
      }
    }
    more = static_cast<PoolChunk*>(sys::map(nullptr, sizeof(PoolChunk), PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1));
    if (more == nullptr) return nullptr;
  }
  return nullptr;
}

// Requires: pool.lock is held.
void end_pool(Pool& pool) {
  if (pool.target != kUntouched) release(pool.target, pool.charged);
  pool.charged = 0;
  const Locked books(local()->lock);
  pool.live = false;
}

// A destroyed pool shrinks as the driver's rule for living ones says.
// Requires: pool.lock is held.
void settle_orphan(Pool& pool) {
  const std::uint64_t kept = pool.used > pool.threshold ? pool.used : pool.threshold;
  const std::uint64_t most = round_up(kept, kPoolGrain);
  if (most >= pool.charged) return;
  release(pool.target, pool.charged - most);
  pool.charged = most;
}

// One try of settle_pool. False: `missing` bytes of growth do not fit.
bool grow_pool(Pool& pool, Reservation& reservation, std::uint64_t& missing) {
  const Locked locked(pool.lock);
  bool good = false;
  const std::uint64_t reserved = read_attribute(pool, kPoolReserved, kGraphReserved, good);
  if (!good || pool.target == kUntouched || !pool.live) return true;
  if (reserved <= pool.charged) {
    release(pool.target, pool.charged - reserved);
    pool.charged = reserved;
    return true;  // the whole reservation goes with its owner
  }
  const std::uint64_t growth = reserved - pool.charged;
  if (growth > reservation.bytes()) {
    missing = growth - reservation.bytes();
    if (try_charge(pool.target, missing) == Charging::refused) return false;
    reservation.keep();
  } else {
    release(pool.target, reservation.keep() - growth);
  }
  pool.charged = reserved;
  return true;
}

}  // namespace

Pool* pool_entry(CuHandle pool, int target, CuDevice device) {
  if (pool == nullptr) return nullptr;
  return find_or_make(reinterpret_cast<std::uint64_t>(pool), target, device);
}

Pool* known_pool(CuHandle pool) {
  Local& own = *local();
  if (pool == nullptr) return nullptr;
  const Locked locked(own.lock);
  return find_living(own, reinterpret_cast<std::uint64_t>(pool), -1);
}

Pool* graph_entry(int target, CuDevice device) { return find_or_make(0, target, device); }

bool settle_pool(Pool& pool, Reservation& reservation) {
  for (int attempt = 0;; ++attempt) {
    std::uint64_t missing = 0;
    if (grow_pool(pool, reservation, missing)) return true;
    // Nothing that settles pools may run under a pool's lock.
    if (attempt == 1) {
      refuse(pool.target, missing);
      return false;
    }
    make_room();
  }
}

void settle_pool(Pool& pool) {
  const Locked locked(pool.lock);
  if (pool.orphan) {
    settle_orphan(pool);
    return;
  }
  bool good = false;
  const std::uint64_t reserved = read_attribute(pool, kPoolReserved, kGraphReserved, good);
  if (!good || pool.target == kUntouched || !pool.live) return;
  if (reserved > pool.charged) {
    charge_always(pool.target, reserved - pool.charged);
  } else {
    release(pool.target, pool.charged - reserved);
  }
  pool.charged = reserved;
}

bool has_slack(Pool& pool, std::uint64_t bytes) {
  bool good = false;
  const std::uint64_t reserved = read_attribute(pool, kPoolReserved, kGraphReserved, good);
  if (!good) return false;
  const std::uint64_t used = read_attribute(pool, kPoolUsed, kGraphUsed, good);
  return good && used <= reserved && reserved - used >= bytes;
}

PoolEnd before_pool_ends(CuHandle handle) {
  PoolEnd end;
  Pool* pool = known_pool(handle);
  if (pool == nullptr || pool->target == kUntouched) return end;
  bool good = false;
  end.used = read_attribute(*pool, kPoolUsed, kGraphUsed, good);
  end.threshold = read_attribute(*pool, kPoolThreshold, kGraphUsed, good);
  return end;
}

void pool_gone(CuHandle handle, const PoolEnd& end) {
  Pool* pool = known_pool(handle);
  if (pool == nullptr) return;
  const Locked locked(pool->lock);
  if (end.used != 0 && pool->target != kUntouched) {
    pool->orphan = true;
    pool->used = end.used;
    pool->threshold = end.threshold;
    local()->orphans.fetch_add(1, std::memory_order_acq_rel);
    pool_memory_freed();
    return;
  }
  end_pool(*pool);
}

OrphanBlock find_orphan_block(CuPtr pointer) {
  CuHandle handle = nullptr;
  Size bytes = 0;
  CuPtr base = 0;
  if (driver<Name::cuPointerGetAttribute>(static_cast<void*>(&handle), kPointerPool, pointer) !=
          kCudaSuccess ||
      driver<Name::cuMemGetAddressRange_v2>(&base, &bytes, pointer) != kCudaSuccess) {
    return {};
  }
  Pool* pool = known_pool(handle);
  if (pool == nullptr || !pool->orphan) return {};
  return {.pool = pool, .bytes = round_up(bytes, kGrain)};
}

void orphan_block_freed(const OrphanBlock& block) {
  if (block.pool == nullptr) return;
  const Locked locked(block.pool->lock);
  if (!block.pool->orphan) return;
  block.pool->used -= block.bytes < block.pool->used ? block.bytes : block.pool->used;
  if (block.pool->used != 0) return;
  block.pool->orphan = false;
  local()->orphans.fetch_sub(1, std::memory_order_acq_rel);
  end_pool(*block.pool);
}

void pool_memory_freed(std::uint64_t where) {
  Local* own = local();
  if (own == nullptr) return;
  std::uint64_t now = own->freed_on.load(std::memory_order_acquire);
  std::uint64_t next = 0;
  do {
    next = FreedOn::kSeveral;
    if (now == FreedOn::kNowhere || now == FreedOn::kAnywhere || now == where) next = where;
    if (where == FreedOn::kAnywhere && now != FreedOn::kNowhere) next = now;
  } while (!own->freed_on.compare_exchange_weak(now, next, std::memory_order_acq_rel));
}

void settle_dirty_pools(Waited waited, CuHandle stream) {
  Local* own = local();
  if (own == nullptr) return;
  std::uint64_t where = own->freed_on.load(std::memory_order_acquire);
  if (where == FreedOn::kNowhere) return;
  const bool covered = waited == Waited::everything ||
                       (waited != Waited::nothing && where == FreedOn::kAnywhere) ||
                       (waited == Waited::stream && where == FreedOn::stream(stream));
  // Frees from here on are for the next time.
  if (covered) {
    own->freed_on.compare_exchange_strong(where, FreedOn::kNowhere, std::memory_order_acq_rel);
  }
  for (PoolChunk* chunk = &own->first_pools; chunk != nullptr; chunk = chunk->next) {
    for (Pool& pool : chunk->pools) {
      if (pool.live && pool.target >= 0) settle_pool(pool);
    }
  }
}

}  // namespace berth::guard
