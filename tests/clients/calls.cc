#include "clients/calls.h"

#include <cstring>
#include <dlfcn.h>
#include <iterator>

namespace berth::client {

namespace {

constexpr const char* kRoads[] = {"dlsym",  "default",          "next",
                                  "dlvsym", "cuGetProcAddress", "cuGetProcAddress-ptds"};
constexpr unsigned long long kPerThread = 2;

using GetProcAddress = Code (*)(const char*, void**, int, unsigned long long, int*);
using GetProcAddressV1 = Code (*)(const char*, void**, int, unsigned long long);

struct Finder {
  Road road;
  void* handle;
  GetProcAddress resolve;
  GetProcAddressV1 resolve_v1;

  void* operator()(const char* name, const char* base, int version) const {
    switch (road) {
      case Road::dlsym_handle: return dlsym(handle, name);
      case Road::dlsym_default: return dlsym(RTLD_DEFAULT, name);
      case Road::dlsym_next: return dlsym(RTLD_NEXT, name);
      case Road::dlvsym: return dlvsym(handle, name, "libcuda.so.1");
      case Road::proc:
      case Road::proc_per_thread: break;
    }
    void* function = nullptr;
    const unsigned long long flags = road == Road::proc ? 0 : kPerThread;
    // Per-thread forms begin at 7000: a program built for them asks for that version at least.
    const int asked = road == Road::proc || version > 7000 ? version : 7000;
    if (resolve != nullptr) {
      int status = 0;
      (void)resolve(base, &function, road == Road::proc ? version : asked, flags, &status);
    } else if (resolve_v1 != nullptr) {
      (void)resolve_v1(base, &function, road == Road::proc ? version : asked, flags);
    }
    return function;
  }
};

template <class Function>
void put(Function*& slot, void* found) {
  std::memcpy(&slot, &found, sizeof slot);
}

}  // namespace

const char* road_name(Road road) { return kRoads[static_cast<int>(road)]; }

bool road_named(const char* name, Road* road) {
  for (int number = 0; number < static_cast<int>(std::size(kRoads)); ++number) {
    if (std::strcmp(kRoads[number], name) != 0) continue;
    *road = static_cast<Road>(number);
    return true;
  }
  return false;
}

bool load(Road road, Calls* calls, const char** why, const char* library) {
  void* handle = dlopen(library != nullptr ? library : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    *why = dlerror();
    return false;
  }
  Finder find{.road = road, .handle = handle, .resolve = nullptr, .resolve_v1 = nullptr};
  put(find.resolve, dlsym(handle, "cuGetProcAddress_v2"));
  put(find.resolve_v1, dlsym(handle, "cuGetProcAddress"));
#define BERTH_FIND(name, base, version, parameters) put(calls->name, find(#name, #base, version));
  BERTH_CALLS(BERTH_FIND)
#undef BERTH_FIND
  if (calls->cuInit == nullptr) {
    *why = "this road leads to no function of the driver";
    return false;
  }
  return true;
}

}  // namespace berth::client
