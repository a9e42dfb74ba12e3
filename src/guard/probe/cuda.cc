#include "guard/probe/cuda.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>

namespace berth::guard_probe {

namespace {

using GetProcAddress = int (*)(const char*, void**, int, unsigned long long, int*);

// The base name and version by which cuGetProcAddress knows a symbol of this table.
struct Versioned {
  const char* base;
  int version;
};

Versioned versioned(const std::string& symbol) {
  static const std::map<std::string, Versioned> special = {
      {"cuDeviceTotalMem_v2", {"cuDeviceTotalMem", 3020}},
      {"cuCtxCreate_v2", {"cuCtxCreate", 3020}},
      {"cuCtxDestroy_v2", {"cuCtxDestroy", 4000}},
      {"cuDevicePrimaryCtxRelease_v2", {"cuDevicePrimaryCtxRelease", 11000}},
      {"cuDevicePrimaryCtxReset_v2", {"cuDevicePrimaryCtxReset", 11000}},
      {"cuMemGetInfo_v2", {"cuMemGetInfo", 3020}},
      {"cuMemAlloc_v2", {"cuMemAlloc", 3020}},
      {"cuMemFree_v2", {"cuMemFree", 3020}},
      {"cuMemAllocPitch_v2", {"cuMemAllocPitch", 3020}},
      {"cuMemAllocHost_v2", {"cuMemAllocHost", 3020}},
      {"cuArrayCreate_v2", {"cuArrayCreate", 3020}},
      {"cuArray3DCreate_v2", {"cuArray3DCreate", 3020}},
      {"cuStreamDestroy_v2", {"cuStreamDestroy", 4000}},
      {"cuStreamBeginCapture_v2", {"cuStreamBeginCapture", 10010}},
  };
  const auto found = special.find(symbol);
  if (found != special.end()) return found->second;
  return {symbol.c_str(), 12000};
}

void* look_up(void* library, Road road, const char* name) {
  switch (road) {
    case Road::dlsym: return dlsym(library, name);
    case Road::dlvsym: {
      // The driver's symbols carry no versions; the linker takes any for them.
      void* found = dlvsym(library, name, "libcuda.so.1");
      return found != nullptr ? found : dlsym(library, name);
    }
    case Road::get_proc_address: break;
  }
  const auto ask = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  void* found = nullptr;
  int status = 0;
  const std::string symbol = name;
  const Versioned wanted = versioned(symbol);
  if (ask == nullptr || ask(wanted.base, &found, wanted.version, 0, &status) != 0) return nullptr;
  return found;
}

}  // namespace

bool Cuda::load(Road road) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  bool all = true;
  const auto find = [&](const char* name) {
    void* found = look_up(library, road, name);
    if (found == nullptr) {
      std::fprintf(stderr, "the driver lacks %s\n", name);
      all = false;
    }
    return found;
  };
#define GUARD_PROBE_LOAD(name, types) name = reinterpret_cast<int(*) types>(find(#name));
  GUARD_PROBE_FUNCTIONS(GUARD_PROBE_LOAD)
#undef GUARD_PROBE_LOAD
  return all;
}

int Cuda::start(int device) {
  int code = cuInit(0);
  if (code != 0) return code;
  int handle = 0;
  code = cuDeviceGet(&handle, device);
  if (code != 0) return code;
  return cuCtxCreate_v2(&context, 0, handle);
}

std::uint64_t number(const char* text) { return std::strtoull(text, nullptr, 10); }

}  // namespace berth::guard_probe
