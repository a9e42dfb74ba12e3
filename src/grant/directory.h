// GrantDirectory: a grant that exists, as its agent sees and steers it.
//
//   TRY(GrantDirectory grant, GrantDirectory::open("/run/berth/grants/g-17"));
//   grant.set_cap(uuid, Memory::mib(2048));
//   for (const DeviceReading& device : grant.read()) …
//
// The account is written by the grant's processes at the same time and may be full of garbage: what
// is read is a snapshot, and nothing here waits for a process. Thread-safety: none; any number of
// processes may have the same directory open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "grant/uuid.h"

namespace berth::grant {

struct SlotReading {
  std::uint32_t slot = 0;
  std::uint32_t pid = 0;  // in the owner's pid namespace
  std::string name;
  bool locked = false;  // its owner lives and holds the kernel's lock
  Memory held;
};

struct DeviceReading {
  Uuid uuid;
  Memory request;
  Memory limit;
  Memory cap;
  Memory overhead;
  Memory context_bytes;
  Memory charged;  // what the word says
  std::int64_t refused = 0;
  Memory overshoot;
  std::int64_t unknown_abi = 0;
  std::vector<SlotReading> slots;  // those that hold something on this device
};

struct GrantReading {
  std::string id;
  bool closed = false;
  std::uint32_t level = 0;          // 1 hardware … 4 advisory
  std::vector<SlotReading> owners;  // slots in use; `held` summed over devices
  std::vector<DeviceReading> devices;
};

// What an audit of one device found and did.
struct AuditFinding {
  Uuid uuid;
  Memory charged;         // the word before
  Memory held;            // sum over the slots
  bool exact = false;     // word and slots were read at one point in time
  bool repaired = false;  // the word now says `held`
};

// One sample of what the driver reports, for the overhead correction: charged before and after the
// driver was asked, and what it said of the grant's processes.
struct UsageSample {
  Memory charged_before;
  Memory reported;
  Memory charged_after;
};

// Smallest of the samples of max(0, reported - max(charged before, after)); zero without samples.
// Source: enforcement.md 2.7, "Agent audit".
Memory overhead_of(std::span<const UsageSample> samples);

class GrantDirectory {
 public:
  // Errors: not_found; conflict (not a grant of this layout); unavailable.
  static Result<GrantDirectory> open(const std::string& path);

  GrantDirectory(GrantDirectory&&) noexcept;
  GrantDirectory& operator=(GrantDirectory&&) noexcept;
  ~GrantDirectory();

  GrantReading read() const;

  // In force at the next reservation. The cap stays between request and limit.
  // Errors: not_found (device), invalid_argument (range), unavailable (policy not writable).
  Result<void> set_cap(const Uuid& device, Memory cap);
  Result<void> set_overhead(const Uuid& device, Memory overhead);
  // Share of the device's time from now on, 1 … share_limit thousandths.
  Result<void> set_share(const Uuid& device, Milli share);

  // Compares words with slots and repairs words. Processes go on meanwhile.
  std::vector<AuditFinding> audit();

  // Gives back what dead processes hold. Returns the number of slots.
  int reclaim();

  // Pids of slots in use, in their owners' namespaces.
  std::vector<std::uint32_t> pids() const;

 private:
  struct Mapping;
  explicit GrantDirectory(std::unique_ptr<Mapping> mapping);
  Result<void> with_policy(const Uuid& device, void (*change)(void* entry, std::int64_t value),
                           std::int64_t value);

  std::unique_ptr<Mapping> mapping_;
};

}  // namespace berth::grant
