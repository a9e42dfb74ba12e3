#include "fake/cuda/address_space.h"

#include <bit>
#include <cstdlib>
#include <iterator>
#include <new>
#include <sys/mman.h>

namespace berth::fake::cuda {

namespace {

// The range is wanted this large, so that no sequence of sizes can use it up; less is accepted.
constexpr std::uint64_t kWantedBytes = std::uint64_t{16} << 40;
constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 30;

void* map_lazily(std::uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

bool AddressSpace::adopt(void* memory, std::uint64_t bytes) {
  const auto first = reinterpret_cast<std::uint64_t>(memory);
  base_ = (first + kChunk - 1) / kChunk * kChunk;
  const std::uint64_t chunks = (first + bytes - base_) / kChunk;
  info_ = static_cast<ChunkInfo*>(map_lazily(chunks * sizeof(ChunkInfo)));
  if (info_ == nullptr) return false;
  chunks_ = chunks;
  return true;
}

bool AddressSpace::reserve() {
  for (std::uint64_t bytes = kWantedBytes; bytes >= kLeastBytes; bytes /= 2) {
    void* memory = map_lazily(bytes);
    if (memory == nullptr) continue;
    (void)madvise(memory, bytes, MADV_DONTDUMP);
    return adopt(memory, bytes);
  }
  return false;
}

bool AddressSpace::reserve_low() {
  constexpr std::uint64_t kLowBytes = std::uint64_t{576} << 20;
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;
  for (std::uint64_t place = std::uint64_t{1} << 30; place + kLowBytes <= kEnd; place += kChunk) {
    // The address is a wish only, so that nothing that lies there is lost.
    void* memory = mmap(reinterpret_cast<void*>(place), kLowBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    if (reinterpret_cast<std::uint64_t>(memory) + kLowBytes <= kEnd) {
      return adopt(memory, kLowBytes);
    }
    (void)munmap(memory, kLowBytes);
  }
  return false;
}

// 512, 1024, 1536, 2048, then four classes per power of two: 2560, 3072, 3584, 4096, 5120, ... All
// are multiples of 512, the alignment that programs rely on.
int AddressSpace::class_of(std::uint64_t bytes) {
  if (bytes <= 4 * kSmallest) {
    return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kSmallest);
  }
  const int power = 63 - std::countl_zero(bytes - 1);  // 2^power < bytes <= 2^(power+1)
  const std::uint64_t quarter = std::uint64_t{1} << (power - 2);
  const std::uint64_t part = (bytes - 1 - (std::uint64_t{1} << power)) / quarter;  // 0..3
  return (power - 10) * 4 + static_cast<int>(part);
}

std::uint64_t AddressSpace::class_bytes(int size_class) {
  if (size_class < 4) return kSmallest * static_cast<std::uint64_t>(size_class + 1);
  const std::uint64_t power = std::uint64_t{1} << (10 + size_class / 4);
  return power + power / 4 * static_cast<std::uint64_t>(size_class % 4 + 1);
}

Block* AddressSpace::take(std::uint64_t bytes) {
  Block* block = bytes <= kLargestSmall ? take_small(class_of(bytes)) : take_large(bytes);
  if (block == nullptr) return nullptr;
  block->bytes = bytes;
  block->serial = ++serial_;
  return block;
}

Block* AddressSpace::take_small(int size_class) {
  if (Block* block = free_[size_class]; block != nullptr) {
    free_[size_class] = block->next_free;
    return block;
  }
  const std::uint64_t size = class_bytes(size_class);
  const std::uint64_t per_chunk = kChunk / size;
  std::int64_t& open = open_chunk_[size_class];
  if (open == 0 || info_[open - 1].fresh == per_chunk) {
    const std::uint64_t chunk = take_chunks(1);
    if (chunk == UINT64_MAX) return nullptr;
    void* blocks = map_lazily(per_chunk * sizeof(Block));
    if (blocks == nullptr) return nullptr;
    info_[chunk].size_class = size_class + 1;
    info_[chunk].fresh = 0;
    info_[chunk].blocks = static_cast<Block*>(blocks);
    open = static_cast<std::int64_t>(chunk) + 1;
  }
  ChunkInfo& info = info_[open - 1];
  auto* block = new (&info.blocks[info.fresh]) Block;
  block->base = base_ + static_cast<std::uint64_t>(open - 1) * kChunk + info.fresh * size;
  ++info.fresh;
  return block;
}

Block* AddressSpace::take_large(std::uint64_t bytes) {
  const std::uint64_t count = (bytes + kChunk - 1) / kChunk;
  if (count > chunks_) return nullptr;
  const std::uint64_t first = take_chunks(count);
  if (first == UINT64_MAX) return nullptr;
  Block* block = nullptr;
  if (spare_.empty()) {
    block = new (std::nothrow) Block;
    if (block == nullptr) return nullptr;
  } else {
    block = spare_.back();
    spare_.pop_back();
    *block = Block{};
  }
  block->base = base_ + first * kChunk;
  large_[block->base] = block;
  return block;
}

void AddressSpace::give_back(Block* block) {
  constexpr std::uint64_t kPage = 4096;
  if (block->touched) {
    const std::uint64_t first = (block->base + kPage - 1) / kPage * kPage;
    const std::uint64_t last = (block->base + block->bytes) / kPage * kPage;
    if (last > first) {
      (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
    block->touched = false;
  }
  block->kind = BlockKind::free;
  if (block->bytes <= kLargestSmall) {
    const int size_class = class_of(block->bytes);
    block->next_free = free_[size_class];
    free_[size_class] = block;
    return;
  }
  large_.erase(block->base);
  give_back_chunks((block->base - base_) / kChunk, (block->bytes + kChunk - 1) / kChunk);
  spare_.push_back(block);
}

Block* AddressSpace::find(std::uint64_t address) {
  if (!contains(address)) return nullptr;
  const std::uint64_t chunk = (address - base_) / kChunk;
  const ChunkInfo& info = info_[chunk];
  if (info.size_class > 0) {
    const std::uint64_t place = (address - base_) % kChunk / class_bytes(info.size_class - 1);
    if (place >= info.fresh) return nullptr;
    Block* block = &info.blocks[place];
    return block->kind != BlockKind::free && address - block->base < block->bytes ? block : nullptr;
  }
  auto after = large_.upper_bound(address);
  if (after == large_.begin()) return nullptr;
  Block* block = std::prev(after)->second;
  return address - block->base < block->bytes ? block : nullptr;
}

std::uint64_t AddressSpace::take_chunks(std::uint64_t count) {
  for (auto run = free_runs_.begin(); run != free_runs_.end(); ++run) {
    if (run->second < count) continue;
    const std::uint64_t first = run->first;
    const std::uint64_t rest = run->second - count;
    free_runs_.erase(run);
    if (rest > 0) free_runs_[first + count] = rest;
    return first;
  }
  if (chunks_ - next_chunk_ < count) return UINT64_MAX;
  const std::uint64_t first = next_chunk_;
  next_chunk_ += count;
  return first;
}

void AddressSpace::give_back_chunks(std::uint64_t first, std::uint64_t count) {
  auto after = free_runs_.lower_bound(first);
  if (after != free_runs_.end() && after->first == first + count) {
    count += after->second;
    after = free_runs_.erase(after);
  }
  if (after != free_runs_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == first) {
      before->second += count;
      return;
    }
  }
  free_runs_[first] = count;
}

}  // namespace berth::fake::cuda
