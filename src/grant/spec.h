// What a grant directory is made from.
// Thread-safety: a value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "grant/uuid.h"

namespace berth::grant {

struct DeviceShare {
  Uuid uuid;
  Memory request;             // guaranteed
  Memory limit;               // never exceeded; >= request
  Memory cap;                 // what may be used now; request <= cap <= limit
  Memory context_bytes = {};  // charged for every live context
};

struct GrantSpec {
  std::string id;  // at most 63 bytes
  std::vector<DeviceShare> devices;
  bool closed = false;             // what cannot be enforced is refused, not passed
  bool filter_processes = false;   // NVML process lists show the grant's own
  bool managed_uncounted = false;  // managed memory is not charged
  bool private_table = false;      // nvidia-smi's private process lists are filtered too
  bool show_share_utilisation = false;
  std::optional<Milli> share;  // of each device's time; absent: no compute limit
  int slots = 1023;            // processes that may use the grant at once
};

// Errors: invalid_argument names the field, the value and the rule.
Result<void> check(const GrantSpec& spec);

// Makes the directory: account complete, policy in force, both 0444/0666 as enforcement.md 2.7 and
// 2.8 say. The directory appears whole or not at all; an empty one in its place is replaced.
// Errors: invalid_argument, already_exists, unavailable (file system).
Result<void> create(const std::string& directory, const GrantSpec& spec);

// Deletes account, policy, pids and the directory. Processes that still run keep what they mapped.
// Errors: not_found, conflict (something else lies in it; nothing is deleted), unavailable.
Result<void> remove(const std::string& directory);

}  // namespace berth::grant
