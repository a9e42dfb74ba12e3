// NVML seen from inside a grant: whose device, whose processes (enforcement.md 2.6).
// Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"
#include "guard/preload/grant.h"
#include "guard/preload/real.h"

namespace berth::guard {

// Target of an NVML device handle; kUntouched where nothing is limited.
int target_of_handle(NvmlDevice device);

inline bool is_filtering() {
  return is_active() && (g_grant.policy->flags.load() & policy_filter_processes) != 0;
}

// The pids that belong to the grant, read anew: slot owners of the caller's pid namespace, and what
// the agent wrote into the directory. Empty: nobody knows, so nothing may be filtered.
class OwnPids {
 public:
  OwnPids();

  bool known() const { return count_ != 0; }

  bool has(std::uint32_t pid) const;

 private:
  void add(std::uint32_t pid) {
    if (count_ < kMost) pids_[count_++] = pid;
  }

  static constexpr std::uint32_t kMost = 2048;
  std::uint32_t count_ = 0;
  std::uint32_t* pids_ = nullptr;  // one page range of this object

 public:
  ~OwnPids();
  OwnPids(const OwnPids&) = delete;
  OwnPids& operator=(const OwnPids&) = delete;
};

// Memory for a list of the driver's; unmapped at the end.
class ListMemory {
 public:
  explicit ListMemory(std::size_t bytes);
  ~ListMemory();
  ListMemory(const ListMemory&) = delete;
  ListMemory& operator=(const ListMemory&) = delete;

  template <typename Item>
  Item* as() const {
    return static_cast<Item*>(memory_);
  }

  bool good() const { return memory_ != nullptr; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// Moves the entries of our own processes to the front and returns their number.
template <typename Item>
unsigned keep_own(Item* list, unsigned count, const OwnPids& own) {
  unsigned kept = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (own.has(list[i].pid)) list[kept++] = list[i];
  }
  return kept;
}

// A process list with the size-query contract: `ask(&count, list)` asks the driver. The caller
// learns the filtered count, also when his room is too small.
inline constexpr unsigned kMostProcesses = 4096;

template <typename Item, typename Ask>
int filtered_list(unsigned* count, Item* list, Ask&& ask) {
  const OwnPids own;
  if (!own.known() || count == nullptr) return ask(count, list);
  const ListMemory memory(kMostProcesses * sizeof(Item));
  if (!memory.good()) return ask(count, list);
  unsigned found = kMostProcesses;
  const int code = ask(&found, memory.as<Item>());
  if (code != kNvmlSuccess) return code;
  if (found > kMostProcesses) found = kMostProcesses;
  const unsigned kept = keep_own(memory.as<Item>(), found, own);
  const unsigned room = *count;
  *count = kept;
  if (kept == 0) return kNvmlSuccess;
  if (list == nullptr || room < kept) return kNvmlInsufficientSize;
  for (unsigned i = 0; i < kept; ++i)
    list[i] = memory.as<Item>()[i];
  return kNvmlSuccess;
}

// The table that nvidia-smi reads processes from: a copy with three functions of ours, or the
// driver's own if anything about it is not as known.
const void* private_table_for(const void* table, const void* id);

}  // namespace berth::guard
