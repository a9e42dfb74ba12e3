// view: prints what the driver and NVML say of the first device's memory, as "NAME VALUE" lines,
// after taking 100 MiB. share MILLISECONDS NAME [BY]: launches kernels of that name for that long
// and prints how many, and how many of them after the first second ("steady"). BY is `kernel`,
// found by dlsym, as are `ex` and `cooperative`; `direct` is what a program linked with the driver
// calls.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

#include "verbs.h"

extern "C" int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, void*, void**, void**) __attribute__((weak));

namespace berth::guard_test {

namespace {

struct Memory1 {
  unsigned long long total = 0, free = 0, used = 0;
};
struct Memory2 {
  unsigned version = 0x2000028;
  unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};

// CUlaunchConfig of CUDA 13.0, 56 bytes.
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared = 0;
  Handle stream = nullptr;
  void* attributes = nullptr;
  unsigned n_attributes = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

// One launch by the road of that name; what the driver answers.
int launch_by(const std::string& road, Cuda& cu, Handle function) {
  if (road == "ex") {
    const LaunchConfig config;
    return call_driver<const LaunchConfig*, Handle, void**, void**>("cuLaunchKernelEx", &config,
                                                                    function, nullptr, nullptr);
  }
  if (road == "cooperative") {
    return call_driver<Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       Handle, void**>("cuLaunchCooperativeKernel", function, 1, 1, 1, 1, 1, 1, 0,
                                       nullptr, nullptr);
  }
  const auto launch = road == "direct" ? ::cuLaunchKernel : cu.cuLaunchKernel;
  if (launch == nullptr) return 500;
  return launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}

}  // namespace

int run_view(int /*argc*/, char** /*argv*/) {
  Cuda cu;
  Ptr pointer = 0;
  if (!cu.load() || cu.start() != 0) return 1;
  std::printf("alloc %d\n", cu.cuMemAlloc_v2(&pointer, 100U << 20U));
  std::size_t free = 0;
  std::size_t total = 0;
  cu.cuMemGetInfo_v2(&free, &total);
  std::printf("free %zu\ntotal %zu\n", free, total);
  cu.cuDeviceTotalMem_v2(&total, 0);
  std::printf("device_total %zu\n", total);
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) return 1;
  const auto call = [&](const char* name) { return dlsym(nvml, name); };
  void* device = nullptr;
  reinterpret_cast<int (*)()>(call("nvmlInit_v2"))();
  reinterpret_cast<int (*)(unsigned, void**)>(call("nvmlDeviceGetHandleByIndex_v2"))(0, &device);
  Memory1 one;
  Memory2 two;
  Memory2 bad;
  bad.version = 7;
  const int code1 =
      reinterpret_cast<int (*)(void*, Memory1*)>(call("nvmlDeviceGetMemoryInfo"))(device, &one);
  const auto ask2 = reinterpret_cast<int (*)(void*, Memory2*)>(call("nvmlDeviceGetMemoryInfo_v2"));
  std::printf("v1 %d\nv2 %d\n", code1, ask2(device, &two));
  std::printf("bad_version %d\nnull %d\n", ask2(device, &bad) != 0 ? 1 : 0,
              ask2(device, nullptr) != 0 ? 1 : 0);
  std::printf("v1.total %llu\nv1.free %llu\nv1.used %llu\n", one.total, one.free, one.used);
  std::printf("v2.total %llu\nv2.free %llu\nv2.used %llu\nv2.reserved %llu\n", two.total, two.free,
              two.used, two.reserved);
  struct Process {
    unsigned pid = 0;
    unsigned long long used = 0;
    unsigned gpu = 0, compute = 0;
  };
  Process list[64];
  unsigned count = 0;
  const auto processes = reinterpret_cast<int (*)(void*, unsigned*, Process*)>(
      call("nvmlDeviceGetComputeRunningProcesses_v3"));
  std::printf("size_query %d\n", processes(device, &count, nullptr));
  std::printf("size %u\n", count);
  count = 64;
  std::printf("list %d\n", processes(device, &count, list));
  std::printf("processes %u\n", count);
  return 0;
}

int run_share(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  Cuda cu;
  Handle module = nullptr;
  Handle function = nullptr;
  if (!cu.load() || cu.start() != 0 || cu.cuModuleLoadData(&module, "berth kernel") != 0 ||
      cu.cuModuleGetFunction(&function, module, argv[1]) != 0) {
    return 1;
  }
  const std::string road = argc == 3 ? argv[2] : "kernel";
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + std::chrono::milliseconds(number(argv[0]));
  int launches = 0;
  int steady = 0;
  while (std::chrono::steady_clock::now() < end) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(1)) ++steady;
    if (launch_by(road, cu, function) != 0) return 1;
    // A program waits for its results now and then; so the queue stays short.
    if (++launches % 16 == 0) cu.cuCtxSynchronize();
  }
  cu.cuCtxSynchronize();
  std::printf("launches %d\nsteady %d\n", launches, steady);
  return 0;
}

}  // namespace berth::guard_test
