// The functions behind ours: the driver's, and the dynamic linker's.
//
// Every driver function is found when it is first needed and remembered in one atomic pointer per
// ABI; what the driver lacks stays absent. Thread-safety: all functions.
#pragma once

#include <atomic>

#include "guard/preload/names.h"

namespace berth::guard {

using FunctionPointer = void (*)();

// The dynamic linker's dlsym, dlvsym and dlopen, found by walking the loaded objects; null if the
// process has none.
using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);
using DlopenFunction = void* (*)(const char* file, int flags);

struct Linker {
  DlsymFunction dlsym = nullptr;
  DlvsymFunction dlvsym = nullptr;
  DlopenFunction dlopen = nullptr;
};
Linker linker();

// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern std::atomic<FunctionPointer> g_real[kNames];

// Keeps the library of a driver's function loaded, if it is.
void keep_library(Name name);

// Looks a function up in the loaded driver. Null: the driver lacks it or is not loaded.
FunctionPointer resolve(Name name);

// Remembers what the driver itself handed out for a name.
inline void remember(Name name, FunctionPointer pointer) {
  FunctionPointer none = nullptr;
  g_real[index_of(name)].compare_exchange_strong(none, pointer, std::memory_order_acq_rel);
}

inline FunctionPointer real_pointer(Name name) {
  FunctionPointer pointer = g_real[index_of(name)].load(std::memory_order_acquire);
  return pointer != nullptr ? pointer : resolve(name);
}

// The stream that a call of that name means by 0: for the per-thread forms the thread's own
// (CU_STREAM_PER_THREAD), whatever form asks about it next.
template <Name kName>
inline CuHandle stream_meant(CuHandle stream) {
  constexpr bool kPerThread = ends_with(kNameTexts[index_of(kName)], "_ptsz");
  return kPerThread && stream == nullptr ? reinterpret_cast<CuHandle>(std::uintptr_t{2}) : stream;
}

// The driver's function if it was found before, else null. Nothing but its code is behind it.
template <Name kName>
inline auto* known_driver() {
  using Function = typename Signature<kName>::Type;
  return reinterpret_cast<Function*>(g_real[index_of(kName)].load(std::memory_order_relaxed));
}

// Calls the driver's function; CUDA_ERROR_NOT_FOUND (NVML: FUNCTION_NOT_FOUND, 13) if it has none.
template <Name kName, typename... Arguments>
inline int driver(Arguments... arguments) {
  using Function = typename Signature<kName>::Type;
  auto* function = reinterpret_cast<Function*>(real_pointer(kName));
  if (__builtin_expect(function == nullptr, false)) {
    return kNameTexts[index_of(kName)][0] == 'n' ? 13 : kCudaNotFound;
  }
  return function(arguments...);
}

}  // namespace berth::guard
