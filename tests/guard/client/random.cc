// random SEED STEPS GRANT_DIR: random calls of every family, wrong ones and injected failures among
// them. Every so often everything is synchronised and what the account says this process holds is
// compared with what the fake driver knows. Prints "steps N, compared C, refused R, failures F".
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include "grant/directory.h"
#include "truth.h"
#include "verbs.h"

namespace berth::guard_test {

namespace {

constexpr std::size_t kMib = 1U << 20U;
constexpr std::size_t kGranularity = 2 * kMib;

struct Mapping {
  Ptr at = 0;
  std::size_t bytes = 0;
  bool reserved_here = true;
};

struct Physical {
  Ptr handle = 0;
  std::size_t bytes = 0;
};

struct World {
  Cuda cu;
  std::mt19937_64 random;
  std::vector<Ptr> blocks;  // linear, pitched, managed
  std::vector<Handle> arrays;
  std::vector<Handle> mipmaps;
  std::vector<Physical> physicals;
  std::vector<Mapping> mappings;
  std::vector<Ptr> pool_blocks;
  std::vector<Handle> pools;
  std::vector<Handle> executables;
  std::vector<Handle> contexts;
  std::vector<Ptr> groups;  // multicast objects
  Handle stream = nullptr;
  std::uint64_t refused = 0;
  std::uint64_t failures = 0;
  std::map<std::string, std::uint64_t> done;  // successes by function
  std::vector<std::string> recent;            // what was called since the last comparison

  std::size_t up_to(std::size_t most) { return random() % (most + 1); }

  std::size_t size() {
    switch (up_to(5)) {
      case 0: return up_to(4096);
      case 1: return up_to(64) * kMib;
      case 2: return up_to(64) * kMib + up_to(2000);
      case 3: return up_to(8) * kMib;
      case 4: return up_to(256) * kMib;
      default: return up_to(1) == 0 ? std::size_t{1} << 63U : 0;
    }
  }

  // Counts the outcome; true: success.
  bool told(const char* what, int code) {
    recent.push_back(std::string(what) + "=" + std::to_string(code));
    if (code == 0) {
      ++done[what];
      return true;
    }
    if (code == 2) {
      ++refused;
    } else {
      ++failures;
    }
    return false;
  }

  template <typename Item>
  bool take(std::vector<Item>& from, Item& out) {
    if (from.empty()) return false;
    std::swap(from[up_to(from.size() - 1)], from.back());
    out = from.back();
    from.pop_back();
    return true;
  }
};

void allocate_block(World& w) {
  Ptr pointer = 0;
  std::size_t pitch = 0;
  bool good = false;
  switch (w.up_to(2)) {
    case 0: good = w.told("linear", w.cu.cuMemAlloc_v2(&pointer, w.size())); break;
    case 1:
      good = w.told("pitched", w.cu.cuMemAllocPitch_v2(&pointer, &pitch, w.up_to(9000),
                                                       w.up_to(9000), 4U << w.up_to(2)));
      break;
    default: good = w.told("managed", w.cu.cuMemAllocManaged(&pointer, w.size(), 1)); break;
  }
  if (good) w.blocks.push_back(pointer);
}

void free_block(World& w) {
  Ptr pointer = 0;
  if (!w.take(w.blocks, pointer)) return;
  const int code =
      w.up_to(9) == 0 ? w.cu.cuMemFreeAsync(pointer, w.stream) : w.cu.cuMemFree_v2(pointer);
  if (!w.told("free", code)) w.blocks.push_back(pointer);
}

void make_array(World& w) {
  static const unsigned kFormats[] = {0x01, 0x02, 0x03, 0x08, 0x09, 0x0a, 0x10, 0x20};
  const unsigned format = kFormats[w.up_to(7)];
  const unsigned channels = 1U << w.up_to(2);
  Handle array = nullptr;
  if (w.up_to(2) == 0) {
    const Array2d shape{
        .width = w.up_to(4000), .height = w.up_to(4000), .format = format, .channels = channels};
    if (w.told("array", w.cu.cuArrayCreate_v2(&array, &shape))) w.arrays.push_back(array);
    return;
  }
  static const unsigned kFlags[] = {0, 0, 0, 1, 2, 4, 0x40, 0x80};
  const Array3d shape{.width = w.up_to(700),
                      .height = w.up_to(700),
                      .depth = w.up_to(20),
                      .format = format,
                      .channels = channels,
                      .flags = kFlags[w.up_to(7)]};
  if (w.up_to(1) == 0) {
    if (w.told("array3d", w.cu.cuArray3DCreate_v2(&array, &shape))) w.arrays.push_back(array);
  } else if (w.told("mipmap", w.cu.cuMipmappedArrayCreate(&array, &shape,
                                                          static_cast<unsigned>(w.up_to(12))))) {
    w.mipmaps.push_back(array);
  }
}

void destroy_array(World& w) {
  Handle array = nullptr;
  if (w.take(w.arrays, array) && !w.told("array free", w.cu.cuArrayDestroy(array))) {
    w.arrays.push_back(array);
  }
  if (w.take(w.mipmaps, array) && !w.told("mipmap free", w.cu.cuMipmappedArrayDestroy(array))) {
    w.mipmaps.push_back(array);
  }
}

void make_physical(World& w) {
  Prop prop;
  if (w.up_to(9) == 0) prop.location.type = 2;
  Physical made{.handle = 0, .bytes = w.up_to(32) * kGranularity};
  if (w.told(prop.location.type == 1 ? "vmm" : "vmm host",
             w.cu.cuMemCreate(&made.handle, made.bytes, &prop, 0))) {
    w.physicals.push_back(made);
  }
}

void map_physical(World& w) {
  if (w.physicals.empty()) return;
  const Physical physical = w.physicals[w.up_to(w.physicals.size() - 1)];
  Mapping mapping{.at = 0, .bytes = physical.bytes};
  if (w.cu.cuMemAddressReserve(&mapping.at, mapping.bytes, 0, 0, 0) != 0) return;
  if (w.told("map", w.cu.cuMemMap(mapping.at, mapping.bytes, 0, physical.handle, 0))) {
    w.mappings.push_back(mapping);
  } else {
    w.cu.cuMemAddressFree(mapping.at, mapping.bytes);
  }
}

void unmap(World& w) {
  Mapping mapping;
  if (!w.take(w.mappings, mapping)) return;
  if (w.told("unmap", w.cu.cuMemUnmap(mapping.at, mapping.bytes))) {
    w.cu.cuMemAddressFree(mapping.at, mapping.bytes);
  } else {
    w.mappings.push_back(mapping);
  }
}

void retain_physical(World& w) {
  if (w.mappings.empty()) return;
  const Mapping mapping = w.mappings[w.up_to(w.mappings.size() - 1)];
  Physical again{.handle = 0, .bytes = mapping.bytes};
  if (w.told("vmm retain", w.cu.cuMemRetainAllocationHandle(&again.handle,
                                                            reinterpret_cast<void*>(mapping.at)))) {
    w.physicals.push_back(again);
  }
}

void release_physical(World& w) {
  Physical physical;
  if (w.take(w.physicals, physical) && !w.told("vmm release", w.cu.cuMemRelease(physical.handle))) {
    w.physicals.push_back(physical);
  }
}

void pool_step(World& w) {
  Handle pool = nullptr;
  switch (w.up_to(9)) {
    case 0:
      if (w.pools.size() < 8) {
        PoolProps props;
        if (w.told("pool", w.cu.cuMemPoolCreate(&pool, &props))) w.pools.push_back(pool);
      }
      return;
    case 1:
      if (w.take(w.pools, pool) && !w.told("pool destroy", w.cu.cuMemPoolDestroy(pool))) {
        w.pools.push_back(pool);
      }
      return;
    case 2:
      if (!w.pools.empty()) {
        pool = w.pools[w.up_to(w.pools.size() - 1)];
      } else {
        w.cu.cuDeviceGetDefaultMemPool(&pool, 0);
      }
      w.told("trim", w.cu.cuMemPoolTrimTo(pool, w.up_to(64) * kMib));
      return;
    case 3: {
      std::uint64_t threshold = w.up_to(2) == 0 ? ~std::uint64_t{0} : w.up_to(128) * kMib;
      w.cu.cuDeviceGetDefaultMemPool(&pool, 0);
      w.told("pool attribute", w.cu.cuMemPoolSetAttribute(pool, 4, &threshold));
      return;
    }
    case 4:
    case 5: {
      Ptr pointer = 0;
      if (w.pools.empty()) return;
      pool = w.pools[w.up_to(w.pools.size() - 1)];
      if (w.told("from pool", w.cu.cuMemAllocFromPoolAsync(&pointer, w.size(), pool, w.stream))) {
        w.pool_blocks.push_back(pointer);
      }
      return;
    }
    default: {
      Ptr pointer = 0;
      if (w.told("async", w.cu.cuMemAllocAsync(&pointer, w.size(), w.stream))) {
        w.pool_blocks.push_back(pointer);
      }
    }
  }
}

void free_pool_block(World& w) {
  Ptr pointer = 0;
  if (!w.take(w.pool_blocks, pointer)) return;
  const int code =
      w.up_to(4) == 0 ? w.cu.cuMemFree_v2(pointer) : w.cu.cuMemFreeAsync(pointer, w.stream);
  if (!w.told("async free", code)) w.pool_blocks.push_back(pointer);
}

void graph_step(World& w) {
  Handle executable = nullptr;
  switch (w.up_to(5)) {
    case 0:
    case 1: {
      Handle graph = nullptr;
      Handle node = nullptr;
      Handle end = nullptr;
      if (w.cu.cuGraphCreate(&graph, 0) != 0) return;
      AllocNode params;
      params.bytes = w.up_to(96) * kMib + 1;
      bool good = w.cu.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params) == 0;
      good = good && w.cu.cuGraphAddMemFreeNode(&end, graph, &node, 1, params.pointer) == 0;
      if (good && w.told("graph", w.cu.cuGraphInstantiateWithFlags(&executable, graph, 0))) {
        w.executables.push_back(executable);
      }
      w.cu.cuGraphDestroy(graph);
      return;
    }
    case 2:
    case 3:
      if (!w.executables.empty()) {
        executable = w.executables[w.up_to(w.executables.size() - 1)];
        w.told("graph launch", w.cu.cuGraphLaunch(executable, w.stream));
      }
      return;
    case 4:
      if (w.take(w.executables, executable) &&
          !w.told("graph destroy", w.cu.cuGraphExecDestroy(executable))) {
        w.executables.push_back(executable);
      }
      return;
    default: w.told("graph trim", w.cu.cuDeviceGraphMemTrim(0)); return;
  }
}

// What is allocated in another context dies with it.
void context_step(World& w) {
  Handle context = nullptr;
  if (w.up_to(1) == 0 && w.contexts.size() < 4) {
    if (w.told("context", w.cu.cuCtxCreate_v2(&context, 0, 0))) {
      w.contexts.push_back(context);
      Ptr pointer = 0;
      w.told("linear", w.cu.cuMemAlloc_v2(&pointer, w.up_to(32) * kMib));
      w.cu.cuCtxSetCurrent(w.cu.context);
    }
  } else if (w.take(w.contexts, context) &&
             !w.told("context destroy", w.cu.cuCtxDestroy_v2(context))) {
    w.contexts.push_back(context);
  }
  w.cu.cuCtxSetCurrent(w.cu.context);
}

void primary_step(World& w) {
  Handle context = nullptr;
  if (w.told("primary retain", w.cu.cuDevicePrimaryCtxRetain(&context, 0))) {
    w.cu.cuCtxSetCurrent(context);
    Ptr pointer = 0;
    w.told("linear", w.cu.cuMemAlloc_v2(&pointer, w.up_to(32) * kMib));
    w.cu.cuCtxSetCurrent(w.cu.context);
    const bool reset = w.up_to(2) == 0;
    const int code =
        reset ? w.cu.cuDevicePrimaryCtxReset_v2(0) : w.cu.cuDevicePrimaryCtxRelease_v2(0);
    if (!w.told("primary end", code) || reset) w.cu.cuDevicePrimaryCtxRelease_v2(0);
  }
}

void limit_step(World& w) {
  const int limit = static_cast<int>(w.up_to(2));
  const std::size_t value = limit == 0 ? w.up_to(2048) : w.up_to(64) * kMib;
  w.told("limit", w.cu.cuCtxSetLimit(limit, value));
}

void capture_step(World& w) {
  Handle graph = nullptr;
  if (w.cu.cuStreamBeginCapture_v2(w.stream, 0) != 0) return;
  Ptr pointer = 0;
  const bool made =
      w.told("captured", w.cu.cuMemAllocAsync(&pointer, w.up_to(64) * kMib + 1, w.stream));
  if (made) w.cu.cuMemFreeAsync(pointer, w.stream);
  w.cu.cuStreamEndCapture(w.stream, &graph);
  if (graph != nullptr) w.cu.cuGraphDestroy(graph);
}

// Multicast objects keep what is bound to them, also when its handle and mappings are gone.
void multicast_step(World& w) {
  struct Properties {
    unsigned devices = 1;
    std::size_t bytes = 64 * kGranularity;
    unsigned long long handles = 1, flags = 0;
  };
  const Properties properties;
  Ptr group = 0;
  if (w.groups.size() < 4 && w.up_to(2) == 0 &&
      w.told("group", call_driver("cuMulticastCreate", &group, &properties))) {
    w.told("group device", call_driver("cuMulticastAddDevice", group, 0));
    w.groups.push_back(group);
  }
  if (w.groups.empty()) return;
  group = w.groups[w.up_to(w.groups.size() - 1)];
  const std::size_t offset = w.up_to(31) * kGranularity;
  switch (w.up_to(5)) {
    case 0:
      if (w.take(w.groups, group) && !w.told("group release", w.cu.cuMemRelease(group))) {
        w.groups.push_back(group);
      }
      return;
    case 1:
      w.told("unbind",
             call_driver("cuMulticastUnbind", group, 0, std::size_t{0}, properties.bytes));
      return;
    case 2:
      if (!w.mappings.empty()) {
        const Mapping mapping = w.mappings[w.up_to(w.mappings.size() - 1)];
        w.told("bind address",
               call_driver("cuMulticastBindAddr", group, offset, mapping.at, mapping.bytes, 0ULL));
      }
      return;
    default:
      if (!w.physicals.empty()) {
        const Physical physical = w.physicals[w.up_to(w.physicals.size() - 1)];
        w.told("bind", call_driver("cuMulticastBindMem", group, offset, physical.handle,
                                   std::size_t{0}, physical.bytes, 0ULL));
      }
  }
}

// What no program should do.
void wrong_step(World& w) {
  switch (w.up_to(7)) {
    case 0: w.told("wrong", w.cu.cuMemFree_v2(w.random())); break;
    case 1: w.told("wrong", w.cu.cuMemAlloc_v2(nullptr, 4096)); break;
    case 2: w.told("wrong", w.cu.cuMemAllocAsync(nullptr, 4096, w.stream)); break;
    case 3: w.told("wrong", w.cu.cuMemRelease(w.random())); break;
    case 4: w.told("wrong", w.cu.cuMemUnmap(w.random() & ~0xfffULL, kGranularity)); break;
    case 5: w.told("wrong", w.cu.cuMemFree_v2(0)); break;
    case 6: w.told("wrong", w.cu.cuArrayCreate_v2(nullptr, nullptr)); break;
    default: w.told("wrong", w.cu.cuMemCreate(nullptr, kGranularity, nullptr, 0)); break;
  }
}

void step(World& w) {
  const std::size_t dice = w.up_to(99);
  if (dice < 20) return allocate_block(w);
  if (dice < 42) return free_block(w);
  if (dice < 47) return make_array(w);
  if (dice < 52) return destroy_array(w);
  if (dice < 57) return make_physical(w);
  if (dice < 62) return map_physical(w);
  if (dice < 68) return unmap(w);
  if (dice < 70) return retain_physical(w);
  if (dice < 75) return release_physical(w);
  if (dice < 76) return multicast_step(w);
  if (dice < 82) return pool_step(w);
  if (dice < 88) return free_pool_block(w);
  if (dice < 92) return graph_step(w);
  if (dice < 94) return context_step(w);
  if (dice < 95) return primary_step(w);
  if (dice < 96) return limit_step(w);
  if (dice < 97) return capture_step(w);
  wrong_step(w);
}

bool agrees(World& w, const grant::GrantDirectory& directory, std::uint64_t at) {
  w.cu.cuStreamSynchronize(w.stream);
  w.cu.cuCtxSynchronize();
  std::uint64_t held = 0;
  const grant::GrantReading reading = directory.read();
  for (const grant::SlotReading& slot : reading.devices.at(0).slots) {
    if (slot.pid == static_cast<std::uint32_t>(getpid())) {
      held += static_cast<std::uint64_t>(slot.held.in_bytes());
    }
  }
  std::string families;
  const std::uint64_t true_bytes = truth(0, &families);
  if (held == true_bytes) {
    w.recent.clear();
    return true;
  }
  std::printf("step %lu: the account says %lu, the driver holds %lu (%+ld): %s\n", at, held,
              true_bytes, static_cast<long>(held - true_bytes), families.c_str());
  for (const std::string& call : w.recent)
    std::printf("  %s\n", call.c_str());
  return false;
}

}  // namespace

int run_random(int argc, char** argv) {
  if (argc != 3) return 2;
  World w;
  w.random.seed(number(argv[0]));
  const std::uint64_t steps = number(argv[1]);
  if (!w.cu.load() || w.cu.start() != 0 || w.cu.cuStreamCreate(&w.stream, 0) != 0) return 1;
  const auto directory = grant::GrantDirectory::open(argv[2]);
  if (!directory.ok()) {
    std::fprintf(stderr, "%s\n", directory.error().to_string().c_str());
    return 1;
  }
  const char* every_text = std::getenv("GUARD_TEST_EVERY");
  const std::uint64_t every = every_text != nullptr ? number(every_text) : 101;
  std::uint64_t compared = 0;
  for (std::uint64_t i = 1; i <= steps; ++i) {
    step(w);
    if (i % every != 0 && i != steps) continue;
    if (!agrees(w, directory.value(), i)) return 1;
    ++compared;
  }
  std::printf("steps %lu, compared %lu, refused %lu, failures %lu\n", steps, compared, w.refused,
              w.failures);
  for (const auto& [what, count] : w.done)
    std::printf("  %s %lu\n", what.c_str(), count);
  return 0;
}

}  // namespace berth::guard_test
