#include "clients/families.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace berth::client {

namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;
constexpr Code kMissing = -1;  // the driver has no such function

std::size_t in_granules(std::size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

// --- one block, one address ---------------------------------------------------------------------

Code take_linear(Session& session, std::size_t bytes, Held& held) {
  return session.calls.cuMemAlloc_v2(&held.pointer, bytes);
}
Code free_linear(Session& session, const Held& held) {
  return session.calls.cuMemFree_v2(held.pointer);
}

Code take_pitched(Session& session, std::size_t bytes, Held& held) {
  constexpr std::size_t kRow = 4096;
  std::size_t pitch = 0;
  return session.calls.cuMemAllocPitch_v2(&held.pointer, &pitch, kRow, (bytes + kRow - 1) / kRow,
                                          16);
}

Code take_managed(Session& session, std::size_t bytes, Held& held) {
  return session.calls.cuMemAllocManaged(&held.pointer, bytes, 1);
}

Code take_host(Session& session, std::size_t bytes, Held& held) {
  return session.calls.cuMemHostAlloc(&held.memory, bytes, 0);
}
Code free_host(Session& session, const Held& held) {
  return session.calls.cuMemFreeHost(held.memory);
}

// --- arrays -------------------------------------------------------------------------------------

Code take_array(Session& session, std::size_t bytes, Held& held) {
  constexpr std::size_t kWidth = 4096;
  const ArrayShape shape{.width = kWidth,
                         .height = (bytes + kWidth * 4 - 1) / (kWidth * 4),
                         .format = 0x20,
                         .channels = 1};
  return session.calls.cuArrayCreate_v2(&held.handle, &shape);
}
Code take_array3d(Session& session, std::size_t bytes, Held& held) {
  constexpr std::size_t kSide = 64;
  constexpr std::size_t kSlice = kSide * kSide * 16;
  const Array3dShape shape{.width = kSide,
                           .height = kSide,
                           .depth = (bytes + kSlice - 1) / kSlice,
                           .format = 0x20,
                           .channels = 4,
                           .flags = 0};
  return session.calls.cuArray3DCreate_v2(&held.handle, &shape);
}
Code free_array(Session& session, const Held& held) {
  return session.calls.cuArrayDestroy(held.handle);
}

Code take_mipmap(Session& session, std::size_t bytes, Held& held) {
  constexpr std::size_t kWidth = 1024;
  const Array3dShape shape{.width = kWidth,
                           .height = (bytes + kWidth * 4 - 1) / (kWidth * 4),
                           .depth = 0,
                           .format = 0x20,
                           .channels = 1,
                           .flags = 0};
  return session.calls.cuMipmappedArrayCreate(&held.handle, &shape, 4);
}
Code free_mipmap(Session& session, const Held& held) {
  return session.calls.cuMipmappedArrayDestroy(held.handle);
}

// --- virtual memory management ------------------------------------------------------------------

Code take_vmm(Session& session, std::size_t bytes, Held& held) {
  if (session.calls.cuMemCreate == nullptr) return kMissing;
  const AllocationProperties properties{.location = {.type = 1, .id = session.device}};
  held.bytes = in_granules(bytes);
  return session.calls.cuMemCreate(&held.physical, held.bytes, &properties, 0);
}
Code free_vmm(Session& session, const Held& held) {
  return session.calls.cuMemRelease(held.physical);
}

// Map, then release the handle: the mapping alone keeps the memory. NCCL does it, and so do
// frameworks.
Code take_mapped(Session& session, std::size_t bytes, Held& held) {
  if (const Code code = take_vmm(session, bytes, held); code != 0) return code;
  const Calls& calls = session.calls;
  Code code = calls.cuMemAddressReserve(&held.pointer, held.bytes, 0, 0, 0);
  if (code == 0) {
    code = calls.cuMemMap(held.pointer, held.bytes, 0, held.physical, 0);
    if (code != 0) (void)calls.cuMemAddressFree(held.pointer, held.bytes);
  }
  const Code released = calls.cuMemRelease(held.physical);
  if (code != 0) return code;
  const Access access{.location = {.type = 1, .id = session.device}};
  code = calls.cuMemSetAccess(held.pointer, held.bytes, &access, 1);
  return code != 0 ? code : released;
}
Code free_mapped(Session& session, const Held& held) {
  const Code unmapped = session.calls.cuMemUnmap(held.pointer, held.bytes);
  const Code freed = session.calls.cuMemAddressFree(held.pointer, held.bytes);
  return unmapped != 0 ? unmapped : freed;
}

// --- stream-ordered -----------------------------------------------------------------------------

Code take_async(Session& session, std::size_t bytes, Held& held) {
  if (session.calls.cuMemAllocAsync == nullptr) return kMissing;
  return session.calls.cuMemAllocAsync(&held.pointer, bytes, session.stream);
}
Code free_async(Session& session, const Held& held) {
  const Code freed = session.calls.cuMemFreeAsync(held.pointer, session.stream);
  const Code waited = session.calls.cuStreamSynchronize(session.stream);
  return freed != 0 ? freed : waited;
}

Code take_pool(Session& session, std::size_t bytes, Held& held) {
  const Calls& calls = session.calls;
  if (calls.cuMemPoolCreate == nullptr) return kMissing;
  PoolProperties properties;
  properties.location.id = session.device;
  if (const Code code = calls.cuMemPoolCreate(&held.handle, &properties); code != 0) return code;
  const Code code =
      calls.cuMemAllocFromPoolAsync(&held.pointer, bytes, held.handle, session.stream);
  if (code != 0) (void)calls.cuMemPoolDestroy(held.handle);
  return code;
}
Code free_pool(Session& session, const Held& held) {
  const Code freed = free_async(session, held);
  const Code destroyed = session.calls.cuMemPoolDestroy(held.handle);
  return freed != 0 ? freed : destroyed;
}

// --- graphs -------------------------------------------------------------------------------------

Code run_graph(Session& session, Held& held) {
  const Calls& calls = session.calls;
  Code code = calls.cuGraphInstantiateWithFlags(&held.second, held.handle, 0);
  if (code == 0) {
    code = calls.cuGraphLaunch(held.second, session.stream);
    if (code != 0) (void)calls.cuGraphExecDestroy(held.second);
  }
  if (code != 0) (void)calls.cuGraphDestroy(held.handle);
  return code;
}

Code take_graph(Session& session, std::size_t bytes, Held& held) {
  const Calls& calls = session.calls;
  if (calls.cuGraphAddMemAllocNode == nullptr) return kMissing;
  if (const Code code = calls.cuGraphCreate(&held.handle, 0); code != 0) return code;
  AllocationNode node;
  node.pool.location.id = session.device;
  node.bytes = bytes;
  Handle made = nullptr;
  const Code code = calls.cuGraphAddMemAllocNode(&made, held.handle, nullptr, 0, &node);
  if (code != 0) {
    (void)calls.cuGraphDestroy(held.handle);
    return code;
  }
  held.pointer = node.pointer;
  return run_graph(session, held);
}

Code take_capture(Session& session, std::size_t bytes, Held& held) {
  const Calls& calls = session.calls;
  if (calls.cuStreamBeginCapture_v2 == nullptr || calls.cuMemAllocAsync == nullptr) {
    return kMissing;
  }
  if (const Code code = calls.cuStreamBeginCapture_v2(session.stream, 1); code != 0) return code;
  const Code asked = calls.cuMemAllocAsync(&held.pointer, bytes, session.stream);
  const Code ended = calls.cuStreamEndCapture(session.stream, &held.handle);
  if (asked != 0 || ended != 0) return asked != 0 ? asked : ended;
  return run_graph(session, held);
}

Code free_graph(Session& session, const Held& held) {
  const Calls& calls = session.calls;
  Code first = calls.cuMemFree_v2(held.pointer);
  for (const Code code : {calls.cuGraphExecDestroy(held.second), calls.cuGraphDestroy(held.handle),
                          calls.cuDeviceGraphMemTrim(session.device)}) {
    if (first == 0) first = code;
  }
  return first;
}

// --- what contexts hold -------------------------------------------------------------------------

Code take_context(Session& session, std::size_t, Held& held) {
  const Code code = session.calls.cuCtxCreate_v2(&held.handle, 0, session.device);
  if (code == 0) (void)session.calls.cuCtxSetCurrent(session.context);
  return code;
}
Code free_context(Session& session, const Held& held) {
  return session.calls.cuCtxDestroy_v2(held.handle);
}

// The device heap grows; there is one per context, so each allocation adds to it.
Code take_heap(Session& session, std::size_t bytes, Held& held) {
  constexpr int kHeap = 2;
  std::size_t before = 0;
  if (const Code code = session.calls.cuCtxGetLimit(&before, kHeap); code != 0) return code;
  held.bytes = before;
  return session.calls.cuCtxSetLimit(kHeap, before + bytes);
}
Code free_heap(Session& session, const Held& held) {
  return session.calls.cuCtxSetLimit(2, held.bytes);
}

Code take_module(Session& session, std::size_t bytes, Held& held) {
  // PTX of the size wanted: a comment that long.
  constexpr char kText[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n.entry work() { ret; }\n//";
  std::string text = kText;
  if (text.size() < bytes) text.append(bytes - text.size(), ' ');
  return session.calls.cuModuleLoadData(&held.handle, text.c_str());
}
Code free_module(Session& session, const Held& held) {
  return session.calls.cuModuleUnload(held.handle);
}

// --- memory of somebody else --------------------------------------------------------------------

Code take_external(Session& session, std::size_t bytes, Held& held) {
  const Calls& calls = session.calls;
  if (calls.cuImportExternalMemory == nullptr) return kMissing;
  ExternalMemory description;
  description.handle.fd = memfd_create("external", 0);
  description.bytes = bytes;
  if (description.handle.fd < 0) return kMissing;
  Code code = calls.cuImportExternalMemory(&held.handle, &description);
  if (code != 0) {
    (void)close(description.handle.fd);
    return code;
  }
  ExternalBuffer buffer;
  buffer.bytes = bytes;
  code = calls.cuExternalMemoryGetMappedBuffer(&held.pointer, held.handle, &buffer);
  if (code != 0) (void)calls.cuDestroyExternalMemory(held.handle);
  return code;
}
Code free_external(Session& session, const Held& held) {
  const Code freed = session.calls.cuMemFree_v2(held.pointer);
  const Code destroyed = session.calls.cuDestroyExternalMemory(held.handle);
  return freed != 0 ? freed : destroyed;
}

}  // namespace

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {
      {"linear", "cuMemAlloc", true, take_linear, free_linear},
      {"pitched", "cuMemAllocPitch", true, take_pitched, free_linear},
      {"managed", "cuMemAllocManaged", true, take_managed, free_linear},
      {"array", "cuArrayCreate", true, take_array, free_array},
      {"array3d", "cuArray3DCreate", true, take_array3d, free_array},
      {"mipmap", "cuMipmappedArrayCreate", true, take_mipmap, free_mipmap},
      {"vmm", "cuMemCreate", true, take_vmm, free_vmm},
      {"mapped", "cuMemCreate, cuMemMap, cuMemRelease", true, take_mapped, free_mapped},
      {"async", "cuMemAllocAsync", true, take_async, free_async},
      {"pool", "cuMemPoolCreate, cuMemAllocFromPoolAsync", true, take_pool, free_pool},
      {"graph", "cuGraphAddMemAllocNode, cuGraphLaunch", true, take_graph, free_graph},
      {"capture", "cuMemAllocAsync on a capturing stream, cuGraphLaunch", true, take_capture,
       free_graph},
      {"context", "cuCtxCreate", true, take_context, free_context},
      {"heap", "cuCtxSetLimit(MALLOC_HEAP_SIZE)", true, take_heap, free_heap},
      {"module", "cuModuleLoadData", true, take_module, free_module},
      {"host", "cuMemHostAlloc", false, take_host, free_host},
      {"external", "cuImportExternalMemory", false, take_external, free_external},
  };
  return families;
}

const Family* family_named(const std::string& name) {
  for (const Family& family : all_families()) {
    if (name == family.name) return &family;
  }
  return nullptr;
}

Code Session::open(int device_number) {
  if (const Code code = calls.cuInit(0); code != 0) return code;
  if (const Code code = calls.cuDeviceGet(&device, device_number); code != 0) return code;
  if (const Code code = calls.cuCtxCreate_v2(&context, 0, device); code != 0) return code;
  return calls.cuStreamCreate(&stream, 1);
}

Code take(Session& session, const Family& family, std::size_t bytes) {
  Held held{.family = &family, .bytes = bytes};
  const Code code = family.take(session, bytes, held);
  if (code == 0) session.held.push_back(held);
  return code;
}

Code give_back_last(Session& session) {
  if (session.held.empty()) return 0;
  const Held held = session.held.back();
  session.held.pop_back();
  return held.family->give_back(session, held);
}

Code give_back_all(Session& session) {
  Code first = 0;
  while (!session.held.empty()) {
    const Code code = give_back_last(session);
    if (first == 0) first = code;
  }
  return first;
}

}  // namespace berth::client
