// Eight threads that take and give memory of every family at once, linked with the driver directly.
// Built with the guard under the thread sanitizer by tests/guard/threads/check.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "guard/probe/cuda.h"

namespace berth::guard_probe {
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the driver's names
#define GUARD_PROBE_DECLARE(name, types) int name types;
GUARD_PROBE_FUNCTIONS(GUARD_PROBE_DECLARE)
#undef GUARD_PROBE_DECLARE
// NOLINTEND(readability-identifier-naming)
}
}  // namespace berth::guard_probe

namespace {

using namespace berth::guard_probe;  // NOLINT(google-build-using-namespace): the driver's names

std::atomic<unsigned long> g_granted;

void blocks(Handle stream, unsigned seed) {
  Ptr pointer = 0;
  std::size_t pitch = 0;
  if (cuMemAlloc_v2(&pointer, seed % 97 * 4096 + 1) == 0) {
    ++g_granted;
    cuMemFree_v2(pointer);
  }
  if (cuMemAllocPitch_v2(&pointer, &pitch, 1000, seed % 50 + 1, 4) == 0) cuMemFree_v2(pointer);
  if (cuMemAllocAsync(&pointer, seed % 31 * 65'536 + 1, stream) == 0) {
    cuMemFreeAsync(pointer, stream);
    cuStreamSynchronize(stream);
  }
}

void mapped(unsigned seed) {
  constexpr std::size_t kGranule = 2U << 20U;
  const Prop prop;
  const std::size_t bytes = (seed % 5 + 1) * kGranule;
  Ptr handle = 0;
  Ptr at = 0;
  if (cuMemCreate(&handle, bytes, &prop, 0) != 0) return;
  const bool reserved = cuMemAddressReserve(&at, bytes, 0, 0, 0) == 0;
  const bool is_mapped = reserved && cuMemMap(at, bytes, 0, handle, 0) == 0;
  cuMemRelease(handle);
  if (is_mapped) cuMemUnmap(at, bytes);
  if (reserved) cuMemAddressFree(at, bytes);
}

void graph(Handle stream, unsigned seed) {
  Handle made = nullptr;
  Handle node = nullptr;
  Handle end = nullptr;
  Handle executable = nullptr;
  AllocNode params;
  params.bytes = (seed % 7 + 1) << 20U;
  if (cuGraphCreate(&made, 0) != 0) return;
  if (cuGraphAddMemAllocNode(&node, made, nullptr, 0, &params) == 0 &&
      cuGraphAddMemFreeNode(&end, made, &node, 1, params.pointer) == 0 &&
      cuGraphInstantiateWithFlags(&executable, made, 0) == 0) {
    cuGraphLaunch(executable, stream);
    cuGraphExecDestroy(executable);
  }
  cuGraphDestroy(made);
}

void work(Handle context, unsigned seed) {
  Handle stream = nullptr;
  cuCtxSetCurrent(context);
  cuStreamCreate(&stream, 1);
  for (unsigned i = 0; i < 2000; ++i) {
    blocks(stream, seed * 7919 + i);
    if (i % 3 == 0) mapped(i + seed);
    if (i % 7 == 0) graph(stream, i + seed);
    std::size_t free = 0;
    std::size_t total = 0;
    cuMemGetInfo_v2(&free, &total);
    if (i % 500 == seed) {
      Handle other = nullptr;
      if (cuCtxCreate_v2(&other, 0, 0) == 0) cuCtxDestroy_v2(other);
      cuCtxSetCurrent(context);
    }
  }
}

}  // namespace

int main() {
  Handle context = nullptr;
  if (cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0) return 1;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i)
    threads.emplace_back(work, context, i);
  for (std::thread& thread : threads)
    thread.join();
  std::printf("granted %lu\n", g_granted.load());
  return g_granted.load() != 0 ? 0 : 1;
}
