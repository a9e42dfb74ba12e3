// bench WHAT: nanoseconds of one call, best of several repetitions and the spread between them, as
// "BEST SPREAD"; run with and without the guard, the difference is the guard's cost.
//   pair LIVE        cuMemAlloc_v2 + cuMemFree_v2 with LIVE other blocks
//   meminfo          cuMemGetInfo_v2
//   launch ROAD      cuLaunchKernel by dlsym, gpa or direct (the symbol a linked program calls)
//   identity         1 if cuLaunchKernel by dlsym and by cuGetProcAddress is the driver's own
//   crowd PROCESSES  CPU nanoseconds of a pair while that many processes do the same
//   dlopen FILE      microseconds of loading a library
//   first            microseconds until a process has its first memory: cuInit, a query, a context,
//                    an allocation
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "verbs.h"

// The direct road: what a program linked with the driver calls.
extern "C" int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, void*, void**, void**) __attribute__((weak));

namespace berth::guard_test {

namespace {

double now_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <typename Body>
int report(int times, Body&& body, int repetitions = 15) {
  body(times);  // warm
  double best = 0;
  double worst = 0;
  for (int i = 0; i < repetitions; ++i) {
    const double begin = now_ns();
    body(times);
    const double each = (now_ns() - begin) / times;
    best = i == 0 ? each : std::min(best, each);
    worst = std::max(worst, each);
  }
  std::printf("%.3f %.3f\n", best, best > 0 ? (worst - best) / best : 0.0);
  return 0;
}

int bench_pair(Cuda& cu, int live) {
  std::vector<Ptr> blocks(static_cast<std::size_t>(live));
  for (Ptr& block : blocks) {
    if (cu.cuMemAlloc_v2(&block, 4096) != 0) return 1;
  }
  return report(20'000, [&](int times) {
    for (int i = 0; i < times; ++i) {
      Ptr pointer = 0;
      cu.cuMemAlloc_v2(&pointer, 65'536);
      cu.cuMemFree_v2(pointer);
    }
  });
}

int bench_crowd(int processes) {
  for (int i = 0; i < processes; ++i) {
    if (fork() == 0) {
      Cuda cu;
      if (!cu.load() || cu.start() != 0) _exit(1);
      constexpr int kTimes = 100'000;
      const double begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
      for (int k = 0; k < kTimes; ++k) {
        Ptr pointer = 0;
        cu.cuMemAlloc_v2(&pointer, 65'536);
        cu.cuMemFree_v2(pointer);
      }
      std::printf("%.1f\n", (now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin) / kTimes);
      std::fflush(stdout);
      _exit(0);
    }
  }
  bool good = true;
  for (int i = 0; i < processes; ++i) {
    int status = 0;
    wait(&status);
    good = good && status == 0;
  }
  return good ? 0 : 1;
}

int bench_launch(Cuda& cu, const std::string& road) {
  Cuda other;
  if (!other.load(Road::get_proc_address)) return 1;
  decltype(cu.cuLaunchKernel) launch = cu.cuLaunchKernel;
  if (road == "gpa") launch = other.cuLaunchKernel;
  if (road == "direct") launch = ::cuLaunchKernel;
  Handle module = nullptr;
  Handle function = nullptr;
  if (launch == nullptr || cu.cuModuleLoadData(&module, "berth kernel") != 0 ||
      cu.cuModuleGetFunction(&function, module, "kernel") != 0) {
    return 1;
  }
  return report(200'000, [&](int times) {
    for (int i = 0; i < times; ++i)
      launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  });
}

int bench_identity(Cuda& cu) {
  Cuda other;
  if (!other.load(Road::get_proc_address)) return 1;
  const auto object = [](void* at) {
    Dl_info info = {};
    return dladdr(at, &info) != 0 ? std::string(info.dli_fname) : std::string();
  };
  const bool same =
      object(reinterpret_cast<void*>(cu.cuLaunchKernel)).find("libcuda") != std::string::npos &&
      object(reinterpret_cast<void*>(other.cuLaunchKernel)).find("libcuda") != std::string::npos;
  std::printf("%d\n", same ? 1 : 0);
  return 0;
}

}  // namespace

int run_bench(int argc, char** argv) {
  if (argc < 1) return 2;
  const std::string what = argv[0];
  const std::string word = argc > 1 ? argv[1] : "";
  if (what == "crowd") return bench_crowd(std::atoi(word.c_str()));
  if (what == "dlopen") {
    const double begin = now_ns();
    if (dlopen(word.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
    std::printf("%.3f\n", (now_ns() - begin) / 1000);
    return 0;
  }
  Cuda cu;
  if (!cu.load()) return 1;
  if (what == "first") {
    const double begin = now_ns();
    int count = 0;
    if (cu.cuInit(0) != 0 || cu.cuDeviceGetCount(&count) != 0) return 1;
    std::size_t total = 0;
    if (cu.cuDeviceTotalMem_v2(&total, 0) != 0 || cu.start() != 0) return 1;
    Ptr pointer = 0;
    if (cu.cuMemAlloc_v2(&pointer, std::size_t{1} << 20U) != 0) return 1;
    std::printf("%.3f\n", (now_ns() - begin) / 1000);
    return 0;
  }
  if (cu.start() != 0) return 1;
  if (what == "pair") return bench_pair(cu, std::atoi(word.c_str()));
  if (what == "launch") return bench_launch(cu, word);
  if (what == "identity") return bench_identity(cu);
  if (what == "meminfo") {
    return report(100'000, [&](int times) {
      std::size_t free = 0;
      std::size_t total = 0;
      for (int i = 0; i < times; ++i)
        cu.cuMemGetInfo_v2(&free, &total);
    });
  }
  return 2;
}

}  // namespace berth::guard_test
