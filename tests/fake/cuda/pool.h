// Memory pools: memory that is reserved in steps of 2 MiB and given back late.
//
// What a pool holds physically is `reserved`; blocks in use are part of it. A free returns bytes to
// the pool; the pool returns them to the device when a stream, event or context is synchronised,
// down to its release threshold, or when it is trimmed.
#pragma once

#include "fake/cuda/memory.h"
#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

inline constexpr std::uint64_t kPoolStep = std::uint64_t{2} << 20;

struct Pool {
  int entry = -1;  // of the state file; -1 = memory of the host
  CUdevice device = -1;
  MemLocation location{};
  int handle_types = 0;
  std::uint64_t max_size = 0;  // 0 = no bound
  bool is_default = false;
  bool imported = false;
  bool destroyed = false;  // lives on until its last block is free
  bool dirty = false;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_high = 0;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t threshold = 0;
  int reuse[3] = {1, 1, 1};
  std::uint64_t blocks = 0;
  Block* first_block = nullptr;  // a list through Block::next
  std::uint64_t share_id = 0;
};

extern Slab<Pool> g_pools;

// All with the driver's lock held.
Pool* default_pool(CUdevice device);
Pool* current_pool(CUdevice device);
void set_current_pool(CUdevice device, Pool* pool);
CUresult allocate_from(Pool& pool, Context& context, std::uint64_t bytes, Block** block);
// Returns the block's bytes to its pool, at once or when `when` has passed.
void free_to_pool(Block* block, std::uint64_t when);
void trim(Pool& pool, std::uint64_t keep);
// Frees whose time has come.
void settle_pending_frees();
// The same, then reserves above their thresholds go back to the device: what a synchronisation
// does.
void settle_pools();
void destroy_pool(Pool* pool);
bool pools_are_clean();
// When the last context of a device goes, its pools' memory goes too.
void drop_pools(int entry);

}  // namespace berth::fake::cuda
