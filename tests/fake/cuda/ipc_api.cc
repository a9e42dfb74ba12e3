// Memory from elsewhere: other processes (IPC), other interfaces (external memory, graphics).
#include <cstring>
#include <unistd.h>
#include <vector>

#include "fake/cuda/array.h"
#include "fake/cuda/memory.h"
#include "fake/cuda/shares.h"
#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

// An object that another interface allocated. Its memory is not ours to count.
struct External {
  std::uint64_t bytes = 0;
};

// A buffer of a graphics interface, after registration.
struct Resource {
  Block* block = nullptr;
  bool mapped = false;
};

namespace {

Slab<External> g_externals;
Slab<Resource> g_resources;
constexpr std::uint64_t kGraphicsBytes = std::uint64_t{1} << 20;

CUresult uncounted_block(Context& context, BlockKind kind, std::uint64_t bytes, Block** block) {
  Block* taken = driver().space.take(rounded_up(bytes, kGranule));
  if (taken == nullptr) return kOutOfMemory;
  taken->kind = kind;
  taken->asked = bytes;
  taken->physical = 0;
  taken->device = context.entry;
  taken->context = &context;
  link_block(context.blocks, *taken);
  *block = taken;
  return kSuccess;
}

}  // namespace

}  // namespace berth::fake::cuda

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Family;

BERTH_CUDA cuIpcGetMemHandle(IpcHandle* handle, CUdeviceptr pointer) {
  ENTER(cuIpcGetMemHandle, handle);
  if (handle == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  Block* block = driver().find(pointer);
  if (block == nullptr || block->kind != BlockKind::linear) return kInvalidValue;
  if (block->share_id == 0) {
    block->share_id = export_share(block->device, Family::linear, block->physical);
    if (block->share_id == 0) return kOutOfMemory;
  }
  const Ticket ticket =
      make_ticket(TicketKind::ipc, block->share_id, block->device, block->asked, block->base);
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &ticket, sizeof ticket);
  return kSuccess;
}

static CUresult open_ipc(CUdeviceptr* pointer, const IpcHandle& handle, unsigned int flags) {
  if (pointer == nullptr || flags > 1) return kInvalidValue;
  Ticket ticket{};
  std::memcpy(&ticket, &handle, sizeof ticket);
  if (!is_ticket(ticket, TicketKind::ipc)) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  if (driver().device_of(static_cast<int>(ticket.device)) < 0) return kInvalidDevice;
  if (!import_share(ticket.id)) return kInvalidValue;
  Block* block = nullptr;
  const CUresult code = uncounted_block(*context, BlockKind::ipc, ticket.bytes, &block);
  if (code != kSuccess) {
    leave_share(ticket.id);
    return code;
  }
  block->share_id = ticket.id;
  block->device = static_cast<int>(ticket.device);
  *pointer = block->base;
  return kSuccess;
}

BERTH_CUDA cuIpcOpenMemHandle(CUdeviceptr* pointer, IpcHandle handle, unsigned int flags) {
  ENTER(cuIpcOpenMemHandle, pointer);
  return open_ipc(pointer, handle, flags);
}

BERTH_CUDA cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, IpcHandle handle, unsigned int flags) {
  ENTER(cuIpcOpenMemHandle_v2, pointer);
  return open_ipc(pointer, handle, flags);
}

BERTH_CUDA cuIpcCloseMemHandle(CUdeviceptr pointer) {
  ENTER(cuIpcCloseMemHandle);
  const Guard guard(driver().lock);
  Block* block = driver().find(pointer);
  if (block == nullptr || block->kind != BlockKind::ipc || block->base != pointer) {
    return kInvalidValue;
  }
  free_block(block);
  return kSuccess;
}

BERTH_CUDA cuIpcGetEventHandle(IpcHandle* handle, CUevent event) {
  ENTER(cuIpcGetEventHandle, handle);
  if (handle == nullptr || !g_events.is_live(event)) return kInvalidHandle;
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &event->when, sizeof event->when);
  return kSuccess;
}

BERTH_CUDA cuIpcOpenEventHandle(CUevent* event, IpcHandle handle) {
  ENTER(cuIpcOpenEventHandle, event);
  if (event == nullptr) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  Event* made = g_events.make();
  if (made == nullptr) return kOutOfMemory;
  made->context = context;
  made->recorded = true;
  std::memcpy(&made->when, &handle, sizeof made->when);
  *event = made;
  return kSuccess;
}

namespace {

struct ExternalMemoryDesc {
  int type;
  union {
    int fd;
    const void* pointers[2];
  } handle;
  unsigned long long bytes;
  unsigned int flags;
  unsigned int reserved[16];
};
static_assert(sizeof(ExternalMemoryDesc) == 104);

struct ExternalBufferDesc {
  unsigned long long offset;
  unsigned long long bytes;
  unsigned int flags;
  unsigned int reserved[16];
};
static_assert(sizeof(ExternalBufferDesc) == 88);

}  // namespace

// As with the real driver the descriptor is the library's after a successful import.
BERTH_CUDA cuImportExternalMemory(CUexternalMemory* memory, const ExternalMemoryDesc* description) {
  ENTER(cuImportExternalMemory, memory);
  constexpr int kOpaqueFd = 1;
  constexpr int kDmabuf = 9;
  if (memory == nullptr || description == nullptr || description->bytes == 0) return kInvalidValue;
  if (description->type != kOpaqueFd && description->type != kDmabuf) return kNotSupported;
  BERTH_CONTEXT(context);
  (void)context;
  const Guard guard(driver().lock);
  External* made = g_externals.make();
  if (made == nullptr) return kOutOfMemory;
  made->bytes = description->bytes;
  *memory = made;
  (void)close(description->handle.fd);
  return kSuccess;
}

BERTH_CUDA cuExternalMemoryGetMappedBuffer(CUdeviceptr* pointer, CUexternalMemory memory,
                                           const ExternalBufferDesc* description) {
  ENTER(cuExternalMemoryGetMappedBuffer, pointer);
  if (pointer == nullptr || description == nullptr || description->bytes == 0) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  if (!g_externals.is_live(memory)) return kInvalidHandle;
  if (description->offset > memory->bytes ||
      description->bytes > memory->bytes - description->offset) {
    return kInvalidValue;
  }
  Block* block = nullptr;
  const CUresult code = uncounted_block(*context, BlockKind::external, description->bytes, &block);
  if (code == kSuccess) *pointer = block->base;
  return code;
}

BERTH_CUDA cuDestroyExternalMemory(CUexternalMemory memory) {
  ENTER(cuDestroyExternalMemory);
  const Guard guard(driver().lock);
  if (!g_externals.is_live(memory)) return kInvalidHandle;
  g_externals.destroy(memory);
  return kSuccess;
}

BERTH_CUDA cuImportExternalSemaphore(void** semaphore, const void* description) {
  ENTER(cuImportExternalSemaphore, semaphore);
  static int one = 0;
  if (semaphore == nullptr || description == nullptr) return kInvalidValue;
  *semaphore = &one;
  return kSuccess;
}

BERTH_CUDA cuDestroyExternalSemaphore(void* semaphore) {
  ENTER(cuDestroyExternalSemaphore);
  return semaphore == nullptr ? kInvalidHandle : kSuccess;
}

namespace {

// Graphics buffers have a size of the fake's own choosing: there is no graphics interface to ask.
CUresult register_resource(CUgraphicsResource* resource) {
  if (resource == nullptr) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  Resource* made = g_resources.make();
  if (made == nullptr) return kOutOfMemory;
  if (uncounted_block(*context, BlockKind::external, kGraphicsBytes, &made->block) != kSuccess) {
    return kOutOfMemory;
  }
  *resource = made;
  return kSuccess;
}

CUresult map_resources(unsigned int count, const CUgraphicsResource* resources, bool map) {
  if (count == 0 || resources == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  for (unsigned int place = 0; place < count; ++place) {
    if (!g_resources.is_live(resources[place])) return kInvalidHandle;
    if (resources[place]->mapped == map) return map ? kAlreadyMapped : kNotMapped;
  }
  for (unsigned int place = 0; place < count; ++place)
    resources[place]->mapped = map;
  return kSuccess;
}

}  // namespace

BERTH_CUDA cuGraphicsGLRegisterBuffer(CUgraphicsResource* resource, unsigned int, unsigned int) {
  ENTER(cuGraphicsGLRegisterBuffer, resource);
  return register_resource(resource);
}

BERTH_CUDA cuGraphicsGLRegisterImage(CUgraphicsResource* resource, unsigned int, unsigned int,
                                     unsigned int) {
  ENTER(cuGraphicsGLRegisterImage, resource);
  return register_resource(resource);
}

BERTH_CUDA cuGraphicsUnregisterResource(CUgraphicsResource resource) {
  ENTER(cuGraphicsUnregisterResource);
  const Guard guard(driver().lock);
  if (!g_resources.is_live(resource)) return kInvalidHandle;
  free_block(resource->block);
  g_resources.destroy(resource);
  return kSuccess;
}

static CUresult cuGraphicsMapResources_body(const char* entry, bool, unsigned int count,
                                            CUgraphicsResource* resources) {
  ENTER_AS(entry);
  return map_resources(count, resources, true);
}
BERTH_STREAM_CALL(cuGraphicsMapResources, ptsz,
                  (unsigned int count, CUgraphicsResource* resources, CUstream), (count, resources))

static CUresult cuGraphicsUnmapResources_body(const char* entry, bool, unsigned int count,
                                              CUgraphicsResource* resources) {
  ENTER_AS(entry);
  return map_resources(count, resources, false);
}
BERTH_STREAM_CALL(cuGraphicsUnmapResources, ptsz,
                  (unsigned int count, CUgraphicsResource* resources, CUstream), (count, resources))

BERTH_CUDA cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr* pointer, std::size_t* bytes,
                                                 CUgraphicsResource resource) {
  ENTER(cuGraphicsResourceGetMappedPointer_v2, pointer, bytes);
  if (pointer == nullptr || bytes == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_resources.is_live(resource)) return kInvalidHandle;
  if (!resource->mapped) return kNotMapped;
  *pointer = resource->block->base;
  *bytes = resource->block->asked;
  return kSuccess;
}

// There is no OpenGL here whose device could be asked for: every device serves.
static CUresult gl_devices(unsigned int* found, CUdevice* devices, unsigned int room) {
  if (found == nullptr || (room > 0 && devices == nullptr)) return kInvalidValue;
  const auto count = static_cast<unsigned int>(driver().count());
  *found = count < room ? count : room;
  for (unsigned int device = 0; device < *found; ++device) {
    devices[device] = static_cast<CUdevice>(device);
  }
  return kSuccess;
}

BERTH_CUDA cuGLGetDevices_v2(unsigned int* found, CUdevice* devices, unsigned int room, int) {
  ENTER(cuGLGetDevices_v2, found);
  return gl_devices(found, devices, room);
}

BERTH_CUDA cuGLGetDevices(unsigned int* found, CUdevice* devices, unsigned int room, int) {
  ENTER(cuGLGetDevices, found);
  return gl_devices(found, devices, room);
}
