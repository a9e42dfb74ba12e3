#include "guard/preload/hooks_pools.h"

namespace berth::guard {

void free_again(CuPtr pointer) { driver<Name::cuMemFree_v2>(pointer); }

namespace hooks {

Pool* pool_of_block(CuPtr block, CuHandle asked) {
  CuHandle pool = nullptr;
  if (driver<Name::cuPointerGetAttribute>(static_cast<void*>(&pool), kPointerPool, block) !=
          kCudaSuccess ||
      pool == nullptr) {
    pool = asked;
  }
  CuDevice device = -1;
  const bool placed =
      driver<Name::cuPointerGetAttribute>(static_cast<void*>(&device), kPointerDeviceOrdinal,
                                          block) == kCudaSuccess ||
      driver<Name::cuCtxGetDevice>(&device) == kCudaSuccess;
  if (pool == nullptr && placed) {
    driver<Name::cuDeviceGetMemPool>(&pool, device);  // a driver of 11.2 names no pool
  }
  if (pool == nullptr) return nullptr;
  if (Pool* known = known_pool(pool)) return known;
  return placed ? pool_entry(pool, target_of_device(device), device) : nullptr;
}

Pool* pool_asked_for(CuHandle pool) {
  if (Pool* known = known_pool(pool)) return known;
  int count = 0;
  driver<Name::cuDeviceGetCount>(&count);
  for (CuDevice device = 0; device < count; ++device) {
    CuHandle its = nullptr;
    const bool same =
        (driver<Name::cuDeviceGetDefaultMemPool>(&its, device) == kCudaSuccess && its == pool) ||
        (driver<Name::cuDeviceGetMemPool>(&its, device) == kCudaSuccess && its == pool);
    if (same) return pool_entry(pool, target_of_device(device), device);
  }
  return nullptr;
}

Pool* pool_to_use(CuHandle asked) {
  CuHandle pool = asked;
  CuDevice device = -1;
  if (pool == nullptr && driver<Name::cuCtxGetDevice>(&device) == kCudaSuccess) {
    driver<Name::cuDeviceGetMemPool>(&pool, device);
  }
  return pool != nullptr ? known_pool(pool) : nullptr;
}

void undo_pool_block(CuPtr block, CuHandle stream, Pool& pool) {
  driver<Name::cuMemFreeAsync>(block, stream);
  const Size keep = static_cast<Size>(pool.charged);
  driver<Name::cuMemPoolTrimTo>(reinterpret_cast<CuHandle>(pool.handle), keep);
  // The driver may only let go of it when the stream gets there.
  settle_pool(pool);
  pool_memory_freed();
}

}  // namespace hooks

}  // namespace berth::guard
