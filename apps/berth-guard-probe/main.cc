// berth-guard-probe: asks for more than its limit in every way there is to get device memory, and
// reports whether it was refused. For users who want to see that a limit holds, and for agents that
// must know.
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "grant/directory.h"
#include "guard/layout.h"
#include "guard/probe/cuda.h"

namespace berth::guard_probe {

namespace {

constexpr std::size_t kMib = 1U << 20U;
constexpr std::size_t kStep = 16 * kMib;

constexpr std::string_view kHelp = R"(usage: berth-guard-probe [--device N]

Asks for more GPU memory than this process may have, family by family, and prints for each how much
it got, and what the driver answered. Everything is given back at once. Run it inside the grant:

  LD_PRELOAD=…/libberth_guard.so BERTH_GRANT_DIR=… berth-guard-probe

Exit code: 0 every family is held, 1 one is not (or there is no limit to hold), 2 usage.
)";

// Takes one more piece of a family. Returns the driver's code; adds what was taken to `taken`.
struct Taken {
  std::vector<Ptr> blocks, handles;
  std::vector<Handle> arrays, executables, contexts;
  Handle pool = nullptr;
  std::size_t bytes = 0;
};

struct Family {
  std::string_view name;
  int (*take)(Cuda& cu, Taken& taken);
};

int take_linear(Cuda& cu, Taken& taken) {
  Ptr block = 0;
  const int code = cu.cuMemAlloc_v2(&block, kStep);
  if (code == 0) taken.blocks.push_back(block);
  return code;
}

int take_pitched(Cuda& cu, Taken& taken) {
  Ptr block = 0;
  std::size_t pitch = 0;
  const int code = cu.cuMemAllocPitch_v2(&block, &pitch, 4096, kStep / 4096, 4);
  if (code == 0) taken.blocks.push_back(block);
  return code;
}

int take_managed(Cuda& cu, Taken& taken) {
  Ptr block = 0;
  const int code = cu.cuMemAllocManaged(&block, kStep, 1);
  if (code == 0) taken.blocks.push_back(block);
  return code;
}

int take_array(Cuda& cu, Taken& taken) {
  Handle array = nullptr;
  const Array2d shape{.width = 4096, .height = kStep / 4096, .format = 1, .channels = 1};
  const int code = cu.cuArrayCreate_v2(&array, &shape);
  if (code == 0) taken.arrays.push_back(array);
  return code;
}

int take_array3d(Cuda& cu, Taken& taken) {
  Handle array = nullptr;
  const Array3d shape{.width = 256, .height = 256, .depth = 64, .format = 0x20, .channels = 1};
  const int code = cu.cuArray3DCreate_v2(&array, &shape);
  if (code == 0) taken.arrays.push_back(array);
  return code;
}

int take_physical(Cuda& cu, Taken& taken) {
  Ptr handle = 0;
  Prop prop;
  const int code = cu.cuMemCreate(&handle, kStep, &prop, 0);
  if (code == 0) taken.handles.push_back(handle);
  return code;
}

// The idiom that a count of handles does not see: map, then let go of the handle.
int take_mapped(Cuda& cu, Taken& taken) {
  Ptr handle = 0;
  Ptr at = 0;
  Prop prop;
  int code = cu.cuMemCreate(&handle, kStep, &prop, 0);
  if (code != 0) return code;
  code = cu.cuMemAddressReserve(&at, kStep, 0, 0, 0);
  if (code == 0) code = cu.cuMemMap(at, kStep, 0, handle, 0);
  cu.cuMemRelease(handle);
  if (code == 0) taken.handles.push_back(at);
  return code;
}

int take_async(Cuda& cu, Taken& taken) {
  Ptr block = 0;
  const int code = cu.cuMemAllocAsync(&block, kStep, nullptr);
  if (code == 0) taken.blocks.push_back(block);
  return code;
}

int take_from_pool(Cuda& cu, Taken& taken) {
  Ptr block = 0;
  PoolProps props;
  if (taken.pool == nullptr && cu.cuMemPoolCreate(&taken.pool, &props) != 0) return -1;
  const int code = cu.cuMemAllocFromPoolAsync(&block, kStep, taken.pool, nullptr);
  if (code == 0) taken.blocks.push_back(block);
  return code;
}

// A graph that allocates and does not free holds its memory after it has run.
int take_graph(Cuda& cu, Taken& taken) {
  Handle graph = nullptr;
  Handle node = nullptr;
  Handle executable = nullptr;
  AllocNode params;
  params.bytes = kStep;
  int code = cu.cuGraphCreate(&graph, 0);
  if (code == 0) code = cu.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
  if (code == 0) code = cu.cuGraphInstantiateWithFlags(&executable, graph, 0);
  if (code == 0) code = cu.cuGraphLaunch(executable, nullptr);
  if (graph != nullptr) cu.cuGraphDestroy(graph);
  if (code == 0) {
    taken.executables.push_back(executable);
    taken.blocks.push_back(params.pointer);
  } else if (executable != nullptr) {
    cu.cuGraphExecDestroy(executable);
  }
  return code;
}

constexpr std::array kFamilies = {
    Family{"linear (cuMemAlloc)", take_linear},
    Family{"pitched (cuMemAllocPitch)", take_pitched},
    Family{"managed (cuMemAllocManaged)", take_managed},
    Family{"arrays (cuArrayCreate)", take_array},
    Family{"3D arrays (cuArray3DCreate)", take_array3d},
    Family{"physical (cuMemCreate)", take_physical},
    Family{"mapped, handle released", take_mapped},
    Family{"stream-ordered (cuMemAllocAsync)", take_async},
    Family{"from a pool of its own", take_from_pool},
    Family{"graph memory", take_graph},
};

void give_back(Cuda& cu, Taken& taken, const Family& family) {
  for (const Ptr block : taken.blocks)
    cu.cuMemFree_v2(block);
  for (const Handle array : taken.arrays)
    cu.cuArrayDestroy(array);
  for (const Ptr handle : taken.handles) {
    if (family.take == take_mapped) {
      cu.cuMemUnmap(handle, kStep);
      cu.cuMemAddressFree(handle, kStep);
    } else {
      cu.cuMemRelease(handle);
    }
  }
  for (const Handle executable : taken.executables)
    cu.cuGraphExecDestroy(executable);
  if (taken.pool != nullptr) cu.cuMemPoolDestroy(taken.pool);
  cu.cuCtxSynchronize();
  cu.cuDeviceGraphMemTrim(0);
}

// The limit of the grant this process is in; 0: none.
std::int64_t limit_of_grant() {
  const char* named = std::getenv("BERTH_GRANT_DIR");
  for (const std::string& directory :
       {std::string(guard::kGrantDirectory), std::string(named != nullptr ? named : "")}) {
    const auto grant = grant::GrantDirectory::open(directory);
    if (!grant.ok()) continue;
    const grant::GrantReading reading = grant->read();
    if (!reading.devices.empty()) return reading.devices[0].limit.in_bytes();
  }
  return 0;
}

// True: held.
bool probe(Cuda& cu, const Family& family, std::int64_t limit) {
  Taken taken;
  std::int64_t got = 0;
  int code = 0;
  const std::int64_t most = limit + limit / 4 + static_cast<std::int64_t>(4 * kStep);
  while (code == 0 && got < most) {
    code = family.take(cu, taken);
    if (code == 0) got += static_cast<std::int64_t>(kStep);
  }
  give_back(cu, taken, family);
  constexpr int kOutOfMemory = 2;
  const bool held = code == kOutOfMemory && got <= limit;
  std::cout << fmt::format("{:<36} {:>8} MiB  {:<14} {}\n", family.name, got >> 20,
                           code == kOutOfMemory ? "refused" : fmt::format("code {}", code),
                           held ? "held" : "NOT HELD");
  return held;
}

int run(int device) {
  Cuda cu;
  if (!cu.load()) {
    std::cerr << "berth-guard-probe: the GPU driver (libcuda.so.1) cannot be loaded\n";
    return 1;
  }
  if (const int code = cu.start(device); code != 0) {
    std::cerr << fmt::format("berth-guard-probe: the driver refused to start: code {}{}\n", code,
                             code == 800 ? "; the grant cannot be used, see the line above" : "");
    return 1;
  }
  const std::int64_t limit = limit_of_grant();
  std::size_t total = 0;
  cu.cuDeviceTotalMem_v2(&total, device);
  if (limit == 0) {
    std::cerr << "berth-guard-probe: no grant here, so there is no limit to probe\n";
    return 1;
  }
  std::cout << fmt::format("limit {} MiB; the driver shows a device of {} MiB\n", limit >> 20,
                           total >> 20);
  std::cout << fmt::format("{:<36} {:>12}  {:<14} {}\n", "family", "got", "then", "verdict");
  bool good = total <= static_cast<std::size_t>(limit);
  if (!good) std::cout << "the device's total is not clamped: NOT HELD\n";
  for (const Family& family : kFamilies)
    good = probe(cu, family, limit) && good;
  std::cout << (good ? "every family is held\n" : "at least one family is not held\n");
  return good ? 0 : 1;
}

}  // namespace

}  // namespace berth::guard_probe

int main(int argc, char** argv) {
  int device = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help") {
      std::cout << berth::guard_probe::kHelp;
      return 0;
    }
    if (word != "--device" || i + 1 == argc) {
      std::cerr << berth::guard_probe::kHelp;
      return 2;
    }
    device = static_cast<int>(berth::guard_probe::number(argv[++i]));
  }
  return berth::guard_probe::run(device);
}
