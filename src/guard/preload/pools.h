// Memory that the driver reserves in larger pieces and keeps: stream-ordered pools and the graph
// memory of a device. Charged is what the driver says it has reserved, read again whenever it can
// have changed (enforcement.md 2.3, "Pools", "Graph memory").
// Thread-safety: all functions; a pool's own lock is held while the driver is asked.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"
#include "guard/preload/books.h"
#include "guard/preload/local.h"

namespace berth::guard {

// The pool's entry, made if need be. `target` is kUntouched for imported pools and host memory.
// Null: no memory for an entry.
Pool* pool_entry(CuHandle pool, int target, CuDevice device);
// Null: not seen yet.
Pool* known_pool(CuHandle pool);
// The entry of a device's graph memory.
Pool* graph_entry(int target, CuDevice device);

// Reads the reserve and charges or gives back the difference, using `reservation` for growth and
// giving back what is left of it. False: growth that does not fit; nothing changed but the
// reservation, which is gone.
bool settle_pool(Pool& pool, Reservation& reservation);
// The same without a choice: what does not fit is overshoot.
void settle_pool(Pool& pool);

// True if the pool could serve `bytes` from what it has reserved and does not use.
bool has_slack(Pool& pool, std::uint64_t bytes);

// What must be known of a pool before the driver destroys it.
struct PoolEnd {
  std::uint64_t used = 0;
  std::uint64_t threshold = 0;
};
PoolEnd before_pool_ends(CuHandle pool);
// The driver has destroyed the pool. Blocks that live on keep their memory, and their charge.
void pool_gone(CuHandle pool, const PoolEnd& end);

// A block of a destroyed pool, found out before it is freed; and freed.
struct OrphanBlock {
  Pool* pool = nullptr;
  std::uint64_t bytes = 0;
};
OrphanBlock find_orphan_block(CuPtr pointer);
void orphan_block_freed(const OrphanBlock& block);

inline OrphanBlock orphan_block(CuPtr pointer) {
  const Local* own = g_local.load(std::memory_order_relaxed);
  if (own == nullptr || own->orphans.load(std::memory_order_acquire) == 0) return {};
  return find_orphan_block(pointer);
}

// Where pool memory was freed that the driver has not returned yet: nowhere, on a stream, on
// several, or by a call that waits itself, after which any synchronisation will do.
class FreedOn {
 public:
  static constexpr std::uint64_t kNowhere = 0;
  static constexpr std::uint64_t kAnywhere = 1;
  static constexpr std::uint64_t kSeveral = 2;

  static std::uint64_t stream(CuHandle stream) {
    return (reinterpret_cast<std::uint64_t>(stream) << 3U) | 4U;
  }
};

// Some pool's memory was freed: settle at the next synchronisation.
void pool_memory_freed(std::uint64_t where = FreedOn::kAnywhere);

// What was waited for.
enum class Waited : std::uint8_t { nothing, event, stream, everything };
// Settles all pools if memory of any was freed. What a wait has not covered may still be returned
// later, so the pools then stay to be settled.
void settle_dirty_pools(Waited waited = Waited::nothing, CuHandle stream = nullptr);

inline bool pools_are_dirty() {
  const Local* own = g_local.load(std::memory_order_relaxed);
  return own != nullptr && own->freed_on.load(std::memory_order_relaxed) != FreedOn::kNowhere;
}

}  // namespace berth::guard
