// Entry points for stream-ordered memory and its pools.
#include <cstring>

#include "fake/cuda/graph.h"
#include "fake/cuda/pool.h"
#include "fake/cuda/shares.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

enum PoolAttribute : int {
  kFollowEvents = 1,
  kOpportunistic = 2,
  kInternal = 3,
  kThreshold = 4,
  kReserved = 5,
  kReservedHigh = 6,
  kUsed = 7,
  kUsedHigh = 8,
};

// On a capturing stream an allocation becomes a node of the graph: an address, no memory yet.
CUresult capture_allocation(Stream& stream, CUdevice device, std::size_t bytes,
                            CUdeviceptr* pointer) {
  AllocNodeParams parameters{};
  parameters.pool.type = 1;
  parameters.pool.location = {.type = 1, .id = device};
  parameters.bytes = bytes;
  Node* node = nullptr;
  const CUresult code = add_allocation(*stream.capture->graph, stream.frontier.data(),
                                       stream.frontier.size(), parameters, &node);
  if (code != kSuccess) return code;
  append_to_capture(stream, node);
  *pointer = parameters.pointer;
  return kSuccess;
}

CUresult allocate_async(CUdeviceptr* pointer, std::size_t bytes, Pool* pool, CUstream handle,
                        bool per_thread) {
  BERTH_RESOLVE(handle, per_thread, stream);
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  const Guard guard(driver().lock);
  Context& context = *stream->context;
  if (pool == nullptr) pool = current_pool(context.device);
  if (pool == nullptr) return kOutOfMemory;
  if (!g_pools.is_live(pool) || pool->destroyed || pool->imported) return kInvalidValue;
  if (stream->capture != nullptr) {
    return capture_allocation(*stream, pool->device >= 0 ? pool->device : context.device, bytes,
                              pointer);
  }
  if (!pools_are_clean()) settle_pending_frees();
  Block* block = nullptr;
  const CUresult code = allocate_from(*pool, context, bytes, &block);
  if (code == kSuccess) *pointer = block->base;
  return code;
}

}  // namespace

static CUresult cuMemAllocAsync_body(const char* entry, bool per_thread, CUdeviceptr* pointer,
                                     std::size_t bytes, CUstream handle) {
  ENTER_AS(entry, pointer);
  return allocate_async(pointer, bytes, nullptr, handle, per_thread);
}
BERTH_STREAM_CALL(cuMemAllocAsync, ptsz,
                  (CUdeviceptr * pointer, std::size_t bytes, CUstream stream),
                  (pointer, bytes, stream))

static CUresult cuMemAllocFromPoolAsync_body(const char* entry, bool per_thread,
                                             CUdeviceptr* pointer, std::size_t bytes,
                                             CUmemoryPool pool, CUstream handle) {
  ENTER_AS(entry, pointer);
  if (pool == nullptr) return kInvalidValue;
  return allocate_async(pointer, bytes, pool, handle, per_thread);
}
BERTH_STREAM_CALL(cuMemAllocFromPoolAsync, ptsz,
                  (CUdeviceptr * pointer, std::size_t bytes, CUmemoryPool pool, CUstream stream),
                  (pointer, bytes, pool, stream))

static CUresult cuMemFreeAsync_body(const char* entry, bool per_thread, CUdeviceptr pointer,
                                    CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  const Guard guard(driver().lock);
  Block* block = driver().find(pointer);
  if (block == nullptr || block->base != pointer) return kInvalidValue;
  if (stream->capture != nullptr) {
    Node* node = add_node(*stream->capture->graph, NodeType::free, stream->frontier.data(),
                          stream->frontier.size());
    if (node == nullptr) return kInvalidValue;
    node->pointer = pointer;
    append_to_capture(*stream, node);
    return kSuccess;
  }
  if (block->kind == BlockKind::pool && !block->pending_free) {
    free_to_pool(block, idle_at(*stream));
    return kSuccess;
  }
  return free_any(block);
}
BERTH_STREAM_CALL(cuMemFreeAsync, ptsz, (CUdeviceptr pointer, CUstream stream), (pointer, stream))

BERTH_CUDA cuMemPoolCreate(CUmemoryPool* pool, const PoolProps* properties) {
  ENTER(cuMemPoolCreate, pool);
  if (pool == nullptr || properties == nullptr || properties->type != 1) return kInvalidValue;
  const MemLocation where = properties->location;
  if (where.type < 1 || where.type > 4) return kInvalidValue;
  if (where.type == 1 && !driver().is_device(where.id)) return kInvalidDevice;
  const Guard guard(driver().lock);
  Pool* made = g_pools.make();
  if (made == nullptr) return kOutOfMemory;
  made->location = where;
  made->handle_types = properties->handle_types;
  made->max_size = properties->max_size;
  if (where.type == 1) {
    made->device = where.id;
    made->entry = driver().entry_of(where.id);
  }
  *pool = made;
  return kSuccess;
}

BERTH_CUDA cuMemPoolDestroy(CUmemoryPool pool) {
  ENTER(cuMemPoolDestroy);
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool) || pool->destroyed || pool->is_default) return kInvalidValue;
  destroy_pool(pool);
  return kSuccess;
}

BERTH_CUDA cuMemPoolTrimTo(CUmemoryPool pool, std::size_t keep) {
  ENTER(cuMemPoolTrimTo);
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool)) return kInvalidValue;
  settle_pending_frees();
  trim(*pool, keep);
  return kSuccess;
}

BERTH_CUDA cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value) {
  ENTER(cuMemPoolGetAttribute);
  if (value == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool)) return kInvalidValue;
  if (!pools_are_clean()) settle_pending_frees();
  std::uint64_t word = 0;
  switch (attribute) {
    case kFollowEvents:
    case kOpportunistic:
    case kInternal: std::memcpy(value, &pool->reuse[attribute - 1], sizeof(int)); return kSuccess;
    case kThreshold: word = pool->threshold; break;
    case kReserved: word = pool->reserved; break;
    case kReservedHigh: word = pool->reserved_high; break;
    case kUsed: word = pool->used; break;
    case kUsedHigh: word = pool->used_high; break;
    default: return kInvalidValue;
  }
  std::memcpy(value, &word, sizeof word);
  return kSuccess;
}

BERTH_CUDA cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value) {
  ENTER(cuMemPoolSetAttribute);
  if (value == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool)) return kInvalidValue;
  std::uint64_t word = 0;
  if (attribute >= kFollowEvents && attribute <= kInternal) {
    std::memcpy(&pool->reuse[attribute - 1], value, sizeof(int));
    return kSuccess;
  }
  std::memcpy(&word, value, sizeof word);
  if (attribute == kThreshold) {
    pool->threshold = word;
  } else if (attribute == kReservedHigh && word == 0) {
    pool->reserved_high = pool->reserved;
  } else if (attribute == kUsedHigh && word == 0) {
    pool->used_high = pool->used;
  } else {
    return kInvalidValue;
  }
  return kSuccess;
}

BERTH_CUDA cuMemPoolSetAccess(CUmemoryPool pool, const AccessDesc* access, std::size_t count) {
  ENTER(cuMemPoolSetAccess);
  if (count > 0 && access == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  return g_pools.is_live(pool) ? kSuccess : kInvalidValue;
}

BERTH_CUDA cuMemPoolGetAccess(int* flags, CUmemoryPool pool, const MemLocation* location) {
  ENTER(cuMemPoolGetAccess, flags);
  if (flags == nullptr || location == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool)) return kInvalidValue;
  *flags = location->type == 1 && location->id == pool->device ? 3 : 0;
  return kSuccess;
}

BERTH_CUDA cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  ENTER(cuDeviceGetDefaultMemPool, pool);
  if (pool == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  *pool = default_pool(device);
  return *pool == nullptr ? kOutOfMemory : kSuccess;
}

BERTH_CUDA cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  ENTER(cuDeviceGetMemPool, pool);
  if (pool == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  *pool = current_pool(device);
  return *pool == nullptr ? kOutOfMemory : kSuccess;
}

BERTH_CUDA cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  ENTER(cuDeviceSetMemPool);
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool) || pool->destroyed || pool->device != device) return kInvalidValue;
  set_current_pool(device, pool);
  return kSuccess;
}

namespace {

CUresult device_location(const MemLocation* location, int type, CUdevice* device) {
  if (location == nullptr || type != 1) return kInvalidValue;
  if (location->type != 1) return kNotSupported;
  if (!driver().is_device(location->id)) return kInvalidDevice;
  *device = location->id;
  return kSuccess;
}

}  // namespace

BERTH_CUDA cuMemGetDefaultMemPool(CUmemoryPool* pool, const MemLocation* location, int type) {
  ENTER(cuMemGetDefaultMemPool, pool);
  CUdevice device = 0;
  if (const CUresult code = device_location(location, type, &device); code != kSuccess) return code;
  return cuDeviceGetDefaultMemPool(pool, device);
}

BERTH_CUDA cuMemGetMemPool(CUmemoryPool* pool, const MemLocation* location, int type) {
  ENTER(cuMemGetMemPool, pool);
  CUdevice device = 0;
  if (const CUresult code = device_location(location, type, &device); code != kSuccess) return code;
  return cuDeviceGetMemPool(pool, device);
}

BERTH_CUDA cuMemSetMemPool(const MemLocation* location, int type, CUmemoryPool pool) {
  ENTER(cuMemSetMemPool);
  CUdevice device = 0;
  if (const CUresult code = device_location(location, type, &device); code != kSuccess) return code;
  return cuDeviceSetMemPool(device, pool);
}

// Pools between processes: the memory stays the exporter's, block by block.
BERTH_CUDA cuMemPoolExportToShareableHandle(void* handle, CUmemoryPool pool, int type,
                                            unsigned long long flags) {
  ENTER(cuMemPoolExportToShareableHandle);
  if (handle == nullptr || flags != 0) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool) || pool->entry < 0 || (pool->handle_types & type) == 0) {
    return kInvalidValue;
  }
  if (type != 1) return kNotSupported;
  const int fd = ticket_to_descriptor(make_ticket(TicketKind::pool, 1, pool->entry, 0, 0));
  if (fd < 0) return kUnknown;
  std::memcpy(handle, &fd, sizeof fd);
  return kSuccess;
}

BERTH_CUDA cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle, int type,
                                              unsigned long long flags) {
  ENTER(cuMemPoolImportFromShareableHandle, pool);
  if (pool == nullptr || flags != 0) return kInvalidValue;
  if (type != 1) return kNotSupported;
  Ticket ticket{};
  const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
  if (!ticket_from_descriptor(fd, &ticket) || !is_ticket(ticket, TicketKind::pool)) {
    return kInvalidValue;
  }
  const Guard guard(driver().lock);
  Pool* made = g_pools.make();
  if (made == nullptr) return kOutOfMemory;
  made->entry = static_cast<int>(ticket.device);
  made->device = driver().device_of(made->entry);
  made->location = {.type = 1, .id = made->device};
  made->imported = true;
  *pool = made;
  return kSuccess;
}

BERTH_CUDA cuMemPoolExportPointer(IpcHandle* data, CUdeviceptr pointer) {
  ENTER(cuMemPoolExportPointer, data);
  if (data == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  Block* block = driver().find(pointer);
  if (block == nullptr || block->base != pointer || block->kind != BlockKind::pool) {
    return kInvalidValue;
  }
  const Ticket ticket =
      make_ticket(TicketKind::pointer, block->serial, block->device, block->asked, block->base);
  std::memset(data, 0, sizeof *data);
  std::memcpy(data, &ticket, sizeof ticket);
  return kSuccess;
}

BERTH_CUDA cuMemPoolImportPointer(CUdeviceptr* pointer, CUmemoryPool pool, const IpcHandle* data) {
  ENTER(cuMemPoolImportPointer, pointer);
  if (pointer == nullptr || data == nullptr) return kInvalidValue;
  Ticket ticket{};
  std::memcpy(&ticket, data, sizeof ticket);
  const Guard guard(driver().lock);
  if (!g_pools.is_live(pool) || !pool->imported || !is_ticket(ticket, TicketKind::pointer)) {
    return kInvalidValue;
  }
  Block* block = driver().space.take(rounded_up(ticket.bytes, kGranule));
  if (block == nullptr) return kOutOfMemory;
  block->kind = BlockKind::pool;
  block->asked = ticket.bytes;
  block->physical = 0;
  block->pool = pool;
  block->device = static_cast<int>(ticket.device);
  block->context = current_or_null();
  ++pool->blocks;
  link_block(pool->first_block, *block);
  *pointer = block->base;
  return kSuccess;
}

BERTH_CUDA cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void* value) {
  ENTER(cuDeviceGetGraphMemAttribute);
  if (value == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  const GraphMemory& memory = graph_memory(driver().entry_of(device));
  const std::uint64_t words[] = {memory.used, memory.used_high, memory.reserved,
                                 memory.reserved_high};
  if (attribute < 0 || attribute > 3) return kInvalidValue;
  std::memcpy(value, &words[attribute], sizeof words[attribute]);
  return kSuccess;
}

BERTH_CUDA cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, const void* value) {
  ENTER(cuDeviceSetGraphMemAttribute);
  if (value == nullptr || (attribute != 1 && attribute != 3)) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  GraphMemory& memory = graph_memory(driver().entry_of(device));
  (attribute == 1 ? memory.used_high : memory.reserved_high) =
      attribute == 1 ? memory.used : memory.reserved;
  return kSuccess;
}

BERTH_CUDA cuDeviceGraphMemTrim(CUdevice device) {
  ENTER(cuDeviceGraphMemTrim);
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  trim_graph_memory(driver().entry_of(device));
  return kSuccess;
}
