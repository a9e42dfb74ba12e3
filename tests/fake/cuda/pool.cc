#include "fake/cuda/pool.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace berth::fake::cuda {

Slab<Pool> g_pools;

namespace {

struct PendingFree {
  Block* block;
  std::uint64_t serial;
  std::uint64_t when;
};

std::vector<PendingFree>& pending() {
  static auto& list = *new std::vector<PendingFree>;
  return list;
}

std::atomic<bool> g_dirty{false};
Pool* g_default[kMaxDevices] = {};
Pool* g_current[kMaxDevices] = {};

void mark_dirty(Pool& pool) {
  pool.dirty = true;
  g_dirty.store(true, std::memory_order_release);
}

void shrink(Pool& pool, std::uint64_t keep) {
  const std::uint64_t wanted = rounded_up(std::max(pool.used, keep), kPoolStep);
  if (wanted >= pool.reserved) return;
  if (pool.entry >= 0) {
    driver().books().release(pool.entry, Family::pool, pool.reserved - wanted);
  }
  pool.reserved = wanted;
}

void end_if_empty(Pool* pool) {
  if (!pool->destroyed || pool->blocks != 0) return;
  shrink(*pool, 0);
  g_pools.destroy(pool);
}

void free_now(Block* block) {
  Pool* pool = block->pool;
  pool->used -= block->physical;
  --pool->blocks;
  unlink_block(pool->first_block, *block);
  driver().space.give_back(block);
  mark_dirty(*pool);
  end_if_empty(pool);
}

}  // namespace

Pool* default_pool(CUdevice device) {
  const int entry = driver().entry_of(device);
  if (g_default[entry] == nullptr) {
    Pool* pool = g_pools.make();
    if (pool == nullptr) return nullptr;
    pool->entry = entry;
    pool->device = device;
    pool->location = {.type = 1, .id = device};
    pool->is_default = true;
    g_default[entry] = pool;
    if (g_current[entry] == nullptr) g_current[entry] = pool;
  }
  return g_default[entry];
}

Pool* current_pool(CUdevice device) {
  Pool* fallback = default_pool(device);
  Pool* pool = g_current[driver().entry_of(device)];
  return pool != nullptr && g_pools.is_live(pool) && !pool->destroyed ? pool : fallback;
}

void set_current_pool(CUdevice device, Pool* pool) { g_current[driver().entry_of(device)] = pool; }

CUresult allocate_from(Pool& pool, Context& context, std::uint64_t bytes, Block** block) {
  if (bytes > UINT64_MAX - kPoolStep) return kOutOfMemory;
  const std::uint64_t physical = rounded_up(bytes, kGranule);
  if (pool.max_size != 0 && pool.used + physical > pool.max_size) return kOutOfMemory;
  std::uint64_t growth = 0;
  if (pool.used + physical > pool.reserved) {
    growth = rounded_up(pool.used + physical - pool.reserved, kPoolStep);
    if (pool.entry >= 0 && !driver().books().charge(pool.entry, Family::pool, growth)) {
      return kOutOfMemory;
    }
  }
  Block* taken = driver().space.take(physical);
  if (taken == nullptr) {
    if (pool.entry >= 0) driver().books().release(pool.entry, Family::pool, growth);
    return kOutOfMemory;
  }
  pool.reserved += growth;
  pool.used += physical;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  pool.used_high = std::max(pool.used_high, pool.used);
  ++pool.blocks;
  taken->kind = BlockKind::pool;
  taken->asked = bytes;
  taken->physical = physical;
  taken->pool = &pool;
  taken->device = pool.entry >= 0 ? pool.entry : context.entry;
  taken->context = &context;
  link_block(pool.first_block, *taken);
  *block = taken;
  return kSuccess;
}

void free_to_pool(Block* block, std::uint64_t when) {
  if (is_past(when)) {
    free_now(block);
    return;
  }
  block->pending_free = true;
  pending().push_back({.block = block, .serial = block->serial, .when = when});
  mark_dirty(*block->pool);
}

void trim(Pool& pool, std::uint64_t keep) { shrink(pool, keep); }

bool pools_are_clean() { return !g_dirty.load(std::memory_order_acquire); }

void settle_pending_frees() {
  std::erase_if(pending(), [](const PendingFree& free) {
    if (free.block->serial != free.serial || !free.block->pending_free) return true;
    if (!is_past(free.when)) return false;
    free.block->pending_free = false;
    free_now(free.block);
    return true;
  });
}

void destroy_pool(Pool* pool) {
  pool->destroyed = true;
  end_if_empty(pool);
}

void settle_pools() {
  settle_pending_frees();
  g_dirty.store(!pending().empty(), std::memory_order_release);
  g_pools.each([](Pool* pool) {
    if (!pool->dirty) return;
    pool->dirty = false;
    shrink(*pool, pool->threshold);
  });
}

void drop_pools(int entry) {
  g_pools.each([&](Pool* pool) {
    if (pool->entry != entry) return;
    const bool stays = !pool->destroyed;  // ends with its last block
    while (stays && pool->first_block != nullptr)
      free_now(pool->first_block);
    if (stays) shrink(*pool, 0);
  });
}

}  // namespace berth::fake::cuda
