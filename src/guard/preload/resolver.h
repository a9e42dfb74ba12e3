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
  // A driver that takes the very symbol for a name, too.
  const int exact = abi == nullptr && !is_base_name(symbol) ? exported_index(symbol) : -1;
  if (abi == nullptr && exact < 0) return pointer;
  const Name name = abi != nullptr ? abi->name : static_cast<Name>(exact);
  if (abi != nullptr && version > kNewestVersion) {
    // A version we do not know: the same function as in the newest we do, or an unknown one.
    void* known = nullptr;
    if (ask(kNewestVersion, &known) != kCudaSuccess || known != pointer) {
      count_unknown_abi();
      return pointer;
    }
  }
  remember(name, reinterpret_cast<FunctionPointer>(pointer));
  if (!is_wanted(name)) return pointer;
  return reinterpret_cast<void*>(kHooks[index_of(name)]);
}

}  // namespace berth::guard
