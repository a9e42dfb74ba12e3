// Addresses of device memory: one large reserved range of the process, given out in blocks.
//
// A block's address is real memory that nobody has touched yet, so an allocation of 80 GB costs
// nothing until something is copied there, and a copy keeps its content. Small blocks come from
// chunks of one size class; large ones take whole chunks. Which block an address lies in is found
// by arithmetic (small) or by a search among the large ones.
//
// Thread-safety: none; the driver's lock protects it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace berth::fake::cuda {

struct Context;
struct Pool;

enum class BlockKind : std::uint8_t {
  free,
  linear,
  pitched,
  managed,
  pool,      // from a memory pool; `pool` says which
  graph,     // from a memory node
  reserved,  // cuMemAddressReserve: addresses only
  ipc,       // another process's memory
  external,  // mapped buffer of an imported object
  module,    // a module's global variable
};

struct Block {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;     // of addresses
  std::uint64_t asked = 0;     // by the program
  std::uint64_t physical = 0;  // as charged
  Context* context = nullptr;
  Pool* pool = nullptr;
  void* extra = nullptr;
  std::uint64_t share_id = 0;  // exported, or imported if the kind is ipc
  Block* next_free = nullptr;
  Block* next = nullptr;  // of the same context
  Block* previous = nullptr;
  std::int32_t device = -1;  // entry of the state file
  BlockKind kind = BlockKind::free;
  bool touched = false;  // something was written: give the pages back at the end
  bool pending_free = false;
  std::uint64_t serial = 0;  // tells a block from an earlier one at the same address
};

class AddressSpace {
 public:
  // Reserves the range; false if the system gives none at all.
  bool reserve();
  // The same below 4 GiB, for the 32-bit addresses of the oldest entry points: half a GiB at most.
  bool reserve_low();

  // A block of at least `bytes` (not 0), aligned to 512 B (256 MiB chunks for large ones); null
  // when the range is used up.
  Block* take(std::uint64_t bytes);
  void give_back(Block* block);

  // The block that `address` lies in, or null. `exactly`: only where a block begins.
  Block* find(std::uint64_t address);
  Block* find_exactly(std::uint64_t address) {
    Block* block = find(address);
    return block != nullptr && block->base == address ? block : nullptr;
  }
  bool is_reserved() const { return chunks_ != 0; }
  bool contains(std::uint64_t address) const {
    return address >= base_ && address - base_ < chunks_ * kChunk;
  }

 private:
  static constexpr std::uint64_t kChunk = std::uint64_t{1} << 26;
  static constexpr std::uint64_t kSmallest = 512;
  static constexpr std::uint64_t kLargestSmall = kChunk / 16;
  static constexpr int kClasses = 48;

  struct ChunkInfo {
    std::int32_t size_class = 0;  // + 1; 0 = free or part of a large block
    std::uint32_t fresh = 0;      // blocks of the chunk that were never given out begin here
    Block* blocks = nullptr;
  };

  bool adopt(void* memory, std::uint64_t bytes);
  static int class_of(std::uint64_t bytes);
  static std::uint64_t class_bytes(int size_class);
  Block* take_small(int size_class);
  Block* take_large(std::uint64_t bytes);
  std::uint64_t take_chunks(std::uint64_t count);
  void give_back_chunks(std::uint64_t first, std::uint64_t count);

  std::uint64_t base_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t next_chunk_ = 0;  // chunks from here on were never used
  std::uint64_t serial_ = 0;
  ChunkInfo* info_ = nullptr;
  Block* free_[kClasses] = {};
  std::int64_t open_chunk_[kClasses] = {};            // chunk with fresh blocks + 1
  std::map<std::uint64_t, Block*> large_;             // by base
  std::map<std::uint64_t, std::uint64_t> free_runs_;  // first chunk -> count
  std::vector<Block*> spare_;
};

}  // namespace berth::fake::cuda
