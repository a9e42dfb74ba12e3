// Which of our functions stands for a function of the driver. Thread-safety: all functions.
#pragma once

#include "guard/preload/grant.h"
#include "guard/preload/names.h"
#include "guard/preload/real.h"

namespace berth::guard {

using HookPointer = void (*)();
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern const HookPointer kHooks[kExported];

// True if a call of that name is to come to us: launches only under a compute limit, nothing at all
// where there is no grant.
bool is_wanted(Name name);

// Counts a function newer than our table on every device of the grant.
void count_unknown_abi();

inline constexpr Flags64 kPerThreadStream = 2;

// What cuGetProcAddress answers in the place of the driver's `pointer`. `ask(version, &pointer)`
// asks the driver again.
template <typename Ask>
void* hook_for(const char* symbol, void* pointer, int version, Flags64 flags, Ask&& ask) {
  const Abi* abi = find_abi(symbol, version, (flags & kPerThreadStream) != 0);
  if (abi == nullptr) return pointer;
  if (version > kNewestVersion) {
    // A version we do not know: the same function as in the newest we do, or an unknown one.
    void* known = nullptr;
    if (ask(kNewestVersion, &known) != kCudaSuccess || known != pointer) {
      count_unknown_abi();
      return pointer;
    }
  }
  remember(abi->name, reinterpret_cast<FunctionPointer>(pointer));
  if (!is_wanted(abi->name)) return pointer;
  return reinterpret_cast<void*>(kHooks[index_of(abi->name)]);
}

}  // namespace berth::guard
