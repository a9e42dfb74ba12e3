// Contexts of the driver: which device a call works on, and what the contexts themselves cost.
//
// Contexts come to life in the open (cuCtxCreate, cuDevicePrimaryCtxRetain) or unseen: the runtime
// library takes the primary context through a private table. The unseen are met at their first
// counted call and charged then, since it is too late to refuse them (enforcement.md 2.3).
// Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"
#include "guard/preload/local.h"

namespace berth::guard {

// Where a call of the current thread lands.
struct Place {
  int target = kUntouched;
  std::uint32_t context = kContexts;  // index; kContexts: not in the table
};

// The place of the thread's current context; untouched without one.
Place current_place();

// Bytes the policy charges for one context.
std::uint64_t context_bytes(int target);

// Enters a context with the charge that was reserved for it. A second entry of a living handle
// gives its charge back.
void enter_context(CuHandle context, CuDevice device, std::uint64_t charged, bool created_here);

// The driver destroyed it: its objects, its charge and its limits' charge go.
void context_gone(CuHandle context);

// One more user of a context; one less, and with the last it is gone.
void context_attached(CuHandle context);
void context_detached(CuHandle context);

// True if the device's primary context lives, as far as the driver tells.
bool is_primary_active(CuDevice device);
// True if it is charged already.
bool is_primary_known(CuDevice device);
// Drops the primary context's charge and objects if the driver says that it is gone.
void settle_primary(CuDevice device);

// The driver destroyed it, whoever retains it.
void primary_gone(CuDevice device);
void count_retain(CuDevice device, int change);
// The context of a green context: its memory is the primary one's.
void enter_green(CuHandle context);

// Context limits: charged is what they take beyond the values the context began with, which
// `context_bytes` covers. Bytes of `limit` at `value` of the driver's own unit.
std::uint64_t limit_bytes(int limit, std::uint64_t value);
// The charge of a limit at `value` where it was `before`, and what is charged for it now.
std::uint64_t limit_charge(std::uint32_t context, int limit, std::uint64_t before,
                           std::uint64_t value);
std::uint64_t charged_for_limit(std::uint32_t context, int limit);
// Sets the remembered charge and returns the old one.
std::uint64_t remember_limit_charge(std::uint32_t context, int limit, std::uint64_t bytes);

}  // namespace berth::guard
