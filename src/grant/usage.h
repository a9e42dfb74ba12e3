// What the driver reports of single processes, against what the account says they hold.
//
// The driver also counts what no call asks for: a context's own memory beyond the policy's
// estimate, modules, and whatever the guard cannot see (enforcement.md 2.7, 2.12). Thread-safety:
// functions of their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "grant/directory.h"
#include "grant/uuid.h"

namespace berth::grant {

// One process of the grant on one device, by NVML or nvidia-smi; `pid` as the account's owners
// count it.
struct ReportedUse {
  Uuid device;
  std::uint32_t pid = 0;
  Memory used;
};

struct UseFinding {
  Uuid device;
  std::uint32_t pid = 0;
  Memory reported;
  Memory held;           // by the account; zero if it has no slot
  bool guarded = false;  // it has a slot of the account
};

// One finding for each report, in their order.
std::vector<UseFinding> compare_use(const GrantReading& reading,
                                    std::span<const ReportedUse> reported);

// A finding for people: what differs, and what that means.
std::string meaning_of(const UseFinding& finding);

}  // namespace berth::grant
