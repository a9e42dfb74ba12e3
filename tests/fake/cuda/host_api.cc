// Host memory: never device memory, never charged.
#include <cstdlib>
#include <iterator>
#include <map>

#include "fake/cuda/host.h"
#include "fake/cuda/memory.h"
#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

namespace {

struct HostRange {
  std::uint64_t bytes = 0;
  unsigned int flags = 0;
  bool registered = false;
};

std::map<std::uint64_t, HostRange>& ranges() {
  static auto& all = *new std::map<std::uint64_t, HostRange>;
  return all;
}

// The range that an address lies in, or the end.
std::map<std::uint64_t, HostRange>::iterator range_at(std::uint64_t address) {
  auto after = ranges().upper_bound(address);
  if (after == ranges().begin()) return ranges().end();
  const auto range = std::prev(after);
  return address - range->first < range->second.bytes ? range : ranges().end();
}

CUresult allocate_host(void** pointer, std::size_t bytes, unsigned int flags) {
  constexpr std::size_t kPage = 4096;
  if (pointer == nullptr || bytes == 0 || flags > 7) return kInvalidValue;
  if (bytes > UINT64_MAX - kPage) return kOutOfMemory;
  void* memory = std::aligned_alloc(kPage, rounded_up(bytes, kPage));
  if (memory == nullptr) return kOutOfMemory;
  const Guard guard(driver().lock);
  ranges()[reinterpret_cast<std::uint64_t>(memory)] = {.bytes = bytes, .flags = flags};
  *pointer = memory;
  return kSuccess;
}

CUresult register_host(void* pointer, std::size_t bytes, unsigned int flags) {
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  const Guard guard(driver().lock);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const auto next = ranges().lower_bound(address);
  const bool overlaps = range_at(address) != ranges().end() ||
                        (next != ranges().end() && next->first - address < bytes);
  if (overlaps) return kHostMemoryAlreadyRegistered;
  ranges()[address] = {.bytes = bytes, .flags = flags, .registered = true};
  return kSuccess;
}

}  // namespace

bool is_host_memory(CUdeviceptr pointer, std::uint64_t bytes) {
  const auto range = range_at(pointer);
  return range != ranges().end() && pointer - range->first + bytes <= range->second.bytes;
}

}  // namespace berth::fake::cuda

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

BERTH_CUDA cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned int flags) {
  ENTER(cuMemHostAlloc, pointer);
  BERTH_CONTEXT(context);
  (void)context;
  return allocate_host(pointer, bytes, flags);
}

BERTH_CUDA cuMemAllocHost_v2(void** pointer, std::size_t bytes) {
  ENTER(cuMemAllocHost_v2, pointer);
  BERTH_CONTEXT(context);
  (void)context;
  return allocate_host(pointer, bytes, 0);
}

BERTH_CUDA cuMemAllocHost(void** pointer, unsigned int bytes) {
  return cuMemAllocHost_v2(pointer, bytes);
}

BERTH_CUDA cuMemFreeHost(void* pointer) {
  ENTER(cuMemFreeHost);
  const Guard guard(driver().lock);
  const auto range = ranges().find(reinterpret_cast<std::uint64_t>(pointer));
  if (range == ranges().end() || range->second.registered) return kInvalidValue;
  ranges().erase(range);
  std::free(pointer);
  return kSuccess;
}

BERTH_CUDA cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned int flags) {
  ENTER(cuMemHostRegister_v2);
  BERTH_CONTEXT(context);
  (void)context;
  return register_host(pointer, bytes, flags);
}

BERTH_CUDA cuMemHostRegister(void* pointer, std::size_t bytes, unsigned int flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

BERTH_CUDA cuMemHostUnregister(void* pointer) {
  ENTER(cuMemHostUnregister);
  const Guard guard(driver().lock);
  const auto range = ranges().find(reinterpret_cast<std::uint64_t>(pointer));
  if (range == ranges().end() || !range->second.registered) return kHostMemoryNotRegistered;
  ranges().erase(range);
  return kSuccess;
}

BERTH_CUDA cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* pointer, unsigned int flags) {
  ENTER(cuMemHostGetDevicePointer_v2, device);
  if (device == nullptr || flags != 0) return kInvalidValue;
  const Guard guard(driver().lock);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (range_at(address) == ranges().end()) return kInvalidValue;
  *device = address;
  return kSuccess;
}

BERTH_CUDA cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  ENTER(cuMemHostGetFlags, flags);
  if (flags == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  const auto range = range_at(reinterpret_cast<std::uint64_t>(pointer));
  if (range == ranges().end()) return kInvalidValue;
  *flags = range->second.flags;
  return kSuccess;
}
