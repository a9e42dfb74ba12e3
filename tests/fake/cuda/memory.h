// Device memory in blocks: linear, pitched, managed, and what other families put into addresses.
#pragma once

#include "fake/cuda/context.h"

namespace berth::fake::cuda {

// The unit in which blocks are charged.
inline constexpr std::uint64_t kGranule = 512;
inline constexpr std::uint64_t kPitchUnit = 512;

constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Charges and takes a block in `context`, with the driver's lock held. `bytes` is not 0 and is
// rounded up to the granule.
CUresult allocate(Context& context, BlockKind kind, Family family, std::uint64_t bytes,
                  Block** block);
// The same with an address below 4 GiB.
CUresult allocate_low(Context& context, BlockKind kind, Family family, std::uint64_t bytes,
                      Block** block);
// Gives back address and charge by the block's kind. With the lock held.
void free_block(Block* block);
// The family whose figure a block of this kind is part of; false if it is charged to none.
bool charged_family(BlockKind kind, Family* family);
// cuMemFree of whatever it may be used on. With the lock held.
CUresult free_any(Block* block);
// What cuMemGetInfo says of a device: the limit of the process's group, if it has one, and the
// card.
void memory_info(int entry, std::size_t* free_bytes, std::size_t* total_bytes);
// For the 32-bit forms: never truncated.
inline unsigned int saturated(std::uint64_t value) {
  return value > UINT32_MAX ? UINT32_MAX : static_cast<unsigned int>(value);
}

}  // namespace berth::fake::cuda
