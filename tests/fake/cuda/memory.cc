#include "fake/cuda/memory.h"

#include "fake/cuda/graph.h"
#include "fake/cuda/pool.h"
#include "fake/cuda/shares.h"

namespace berth::fake::cuda {

bool charged_family(BlockKind kind, Family* family) {
  switch (kind) {
    case BlockKind::linear: *family = Family::linear; return true;
    case BlockKind::pitched: *family = Family::pitched; return true;
    case BlockKind::managed: *family = Family::managed; return true;
    default: return false;
  }
}

namespace {

CUresult allocate_in(AddressSpace& space, Context& context, BlockKind kind, Family family,
                     std::uint64_t bytes, Block** block) {
  Books& books = driver().books();
  if (bytes > UINT64_MAX - kGranule) return kOutOfMemory;
  const std::uint64_t physical = rounded_up(bytes, kGranule);
  if (!books.charge(context.entry, family, physical)) return kOutOfMemory;
  Block* taken = space.take(physical);
  if (taken == nullptr) {
    books.release(context.entry, family, physical);
    return kOutOfMemory;
  }
  taken->physical = physical;
  taken->asked = bytes;
  taken->device = context.entry;
  taken->kind = kind;
  taken->context = &context;
  link_block(context.blocks, *taken);
  *block = taken;
  return kSuccess;
}

}  // namespace

CUresult allocate(Context& context, BlockKind kind, Family family, std::uint64_t bytes,
                  Block** block) {
  return allocate_in(driver().space, context, kind, family, bytes, block);
}

CUresult allocate_low(Context& context, BlockKind kind, Family family, std::uint64_t bytes,
                      Block** block) {
  AddressSpace& low = driver().low_space;
  if (!low.is_reserved() && !low.reserve_low()) return kOutOfMemory;
  return allocate_in(low, context, kind, family, bytes, block);
}

void free_block(Block* block) {
  Driver& the_driver = driver();
  unlink_block(block->context->blocks, *block);
  if (block->share_id != 0) {
    if (block->kind == BlockKind::ipc) {
      leave_share(block->share_id);
    } else {
      release_share(block->share_id);
    }
    block->share_id = 0;
  }
  Family family{};
  if (charged_family(block->kind, &family)) {
    the_driver.books().release(block->device, family, block->physical);
  }
  AddressSpace& space =
      the_driver.low_space.contains(block->base) ? the_driver.low_space : the_driver.space;
  space.give_back(block);
}

CUresult free_any(Block* block) {
  switch (block->kind) {
    case BlockKind::linear:
    case BlockKind::pitched:
    case BlockKind::managed:
    case BlockKind::external: free_block(block); return kSuccess;
    case BlockKind::pool:
      if (block->pending_free) return kInvalidValue;
      free_to_pool(block, 0);
      return kSuccess;
    case BlockKind::graph:
      if (!static_cast<GraphAllocation*>(block->extra)->live) return kInvalidValue;
      free_graph_block(block);
      return kSuccess;
    default: return kInvalidValue;
  }
}

void memory_info(int entry, std::size_t* free_bytes, std::size_t* total_bytes) {
  Books& books = driver().books();
  const Books::View view = books.view(entry, books.own_owner().cgroup);
  *total_bytes = view.total;
  *free_bytes = view.free;
}

}  // namespace berth::fake::cuda

using berth::fake::Family;
using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

BERTH_CUDA cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t bytes) {
  ENTER(cuMemAlloc_v2, pointer);
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  const Guard guard(driver().lock);
  Block* block = nullptr;
  const CUresult code = allocate(*context, BlockKind::linear, Family::linear, bytes, &block);
  if (code == kSuccess) *pointer = block->base;
  return code;
}

BERTH_CUDA cuMemFree_v2(CUdeviceptr pointer) {
  ENTER(cuMemFree_v2);
  if (pointer == 0) return kSuccess;
  const Guard guard(driver().lock);
  Block* block = driver().find(pointer);
  if (block == nullptr || block->base != pointer) return kInvalidValue;
  return free_any(block);
}

BERTH_CUDA cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  ENTER(cuMemGetInfo_v2, free_bytes, total_bytes);
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  if (free_bytes == nullptr || total_bytes == nullptr) return kInvalidValue;
  memory_info(context->entry, free_bytes, total_bytes);
  return kSuccess;
}

// The forms of CUDA 3.1 and before: 32-bit addresses, which the fake does not have, so that an
// address that does not fit is out of memory as it was then.
BERTH_CUDA cuMemAlloc(CUdeviceptr_v1* pointer, unsigned int bytes) {
  ENTER(cuMemAlloc, pointer);
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  const Guard guard(driver().lock);
  Block* block = nullptr;
  const CUresult code = allocate_low(*context, BlockKind::linear, Family::linear, bytes, &block);
  if (code == kSuccess) *pointer = static_cast<CUdeviceptr_v1>(block->base);
  return code;
}

// Inventions of the "future" line: a known name with another form, and a name that no table has.
BERTH_CUDA cuMemAlloc_v3(std::size_t bytes, unsigned int flags, CUdeviceptr* pointer) {
  return flags != 0 ? kInvalidValue : cuMemAlloc_v2(pointer, bytes);
}

BERTH_CUDA cuMemAllocTomorrow(CUdeviceptr* pointer, std::size_t bytes) {
  return cuMemAlloc_v2(pointer, bytes);
}

BERTH_CUDA cuMemFree(CUdeviceptr_v1 pointer) { return cuMemFree_v2(pointer); }

BERTH_CUDA cuMemGetInfo(unsigned int* free_bytes, unsigned int* total_bytes) {
  ENTER(cuMemGetInfo, free_bytes, total_bytes);
  if (free_bytes == nullptr || total_bytes == nullptr) return kInvalidValue;
  std::size_t free_whole = 0;
  std::size_t total_whole = 0;
  const CUresult code = cuMemGetInfo_v2(&free_whole, &total_whole);
  if (code != kSuccess) return code;
  *free_bytes = saturated(free_whole);
  *total_bytes = saturated(total_whole);
  return kSuccess;
}
