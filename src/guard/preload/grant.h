// The grant of this process: where it is, what its policy says, which device is which.
//
// Opened at the first call of a driver function, once: every thread that comes first opens it for
// itself and one result is kept, so nobody waits. Thread-safety: all functions.
#pragma once

#include <atomic>
#include <cstdint>

#include "guard/layout.h"
#include "guard/preload/local.h"
#include "guard/preload/names.h"

namespace berth::guard {

enum class Mode : std::uint8_t {
  unknown,  // not opened yet
  inert,    // no grant on this host, or another copy of the library is at work
  passing,  // the grant is unusable and its policy lets pass
  closed,   // the grant is unusable and nothing is allowed
  active
};

struct Grant {
  const Policy* policy;
  AccountView view;
  std::uint64_t account_inode;
  std::uint64_t account_device;
  std::int32_t account_index[kTargets];  // of a target; -1: not in the account
  bool fails_closed;
  bool lists_only;      // hardware or driver hold the limit; only process lists are ours
  char directory[256];  // absolute
};

// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern std::atomic<Mode> g_mode;
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern Grant g_grant;  // valid while g_mode is `active`

Mode open_grant();

inline Mode mode() {
  const Mode known = g_mode.load(std::memory_order_acquire);
  return known != Mode::unknown ? known : open_grant();
}

// True if calls of this process are counted.
inline bool is_active() { return mode() == Mode::active; }

// The constructor's part: whether the fixed directory exists, so that a host without grants pays
// nothing later.
void look_for_grant();

// Why the grant is unusable; for the one line of a closed start.
const char* closed_reason();

// After a fork in the middle of opening: the child opens for itself.
void forget_opening();

// True if the descriptor is open on the account.
bool is_account_descriptor(int fd);

// A new descriptor of the account, with locks of its own; negative: error.
int open_account();

// The target of a driver's device; kUntouched where nothing is limited. Asks the driver once per
// device. Requires: mode() is active.
int target_of_device(CuDevice device);
// The same for 16 bytes of UUID.
int target_of_uuid(const std::uint8_t* uuid);

// Null for kDenied.
inline const PolicyDevice* policy_of(int target) {
  return target >= 0 && target < kDenied ? &g_grant.policy->device[target] : nullptr;
}

// What may be charged in all, now: the cap less what the agent saw outside the account.
inline std::uint64_t cap_of(int target) {
  const PolicyDevice* policy = policy_of(target);
  if (policy == nullptr) return 0;
  std::uint64_t cap = policy->cap.load(std::memory_order_acquire);
  if (cap > policy->limit) cap = policy->limit;
  const std::uint64_t overhead = policy->overhead.load(std::memory_order_acquire);
  return cap > overhead ? cap - overhead : 0;
}

}  // namespace berth::guard
