// The two files that the guard and the agent share: the account (who holds how much) and the policy
// (how much may be held). Layout 1 of both, little-endian, as enforcement.md 2.7 and 2.8 fix them.
//
// The account is writable by every process of a grant, so whoever reads it trusts nothing in it:
// counts are checked against the file's size once (`AccountView::over`), indices at every use.
// The policy is written by the agent only and read without locks; its atomic fields change in
// place. Freestanding: no libstdc++ behind these headers. Thread-safety: atomics only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::guard {

inline constexpr std::uint32_t kLayout = 1;
inline constexpr std::size_t kUuidBytes = 16;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::uint32_t kMaxSlots = 1023;  // 1023 itself means "no slot" in a word
inline constexpr std::uint32_t kMaxDevices = 31;  // what one policy page holds
inline constexpr char kAccountMagic[9] = "BERTHACC";
inline constexpr char kPolicyMagic[9] = "BERTHPOL";

using Cell = std::atomic<std::uint64_t>;
static_assert(Cell::is_always_lock_free && sizeof(Cell) == 8);

// Account

struct AccountHeader {
  char magic[8];
  std::uint32_t layout;
  std::uint32_t n_devices;
  std::uint32_t n_slots;
  std::uint32_t zero;
  std::uint64_t generation;
};

// One device of the account. The word (see word.h) has a cache line of its own.
struct alignas(128) DeviceAccount {
  Cell word;
  std::uint8_t line[56];
  std::atomic<std::int64_t> tokens;  // nanoseconds of GPU time that may be drawn
  Cell refill_ns;                    // CLOCK_MONOTONIC of the last refill
  Cell refused;                      // refusals
  Cell overshoot;                    // bytes charged past the cap because they could not be refused
  Cell unknown_abi;                  // functions handed out uncounted: newer than our table
  std::uint8_t uuid[kUuidBytes];
  std::uint8_t rest[8];
};
static_assert(sizeof(DeviceAccount) == 128 && offsetof(DeviceAccount, tokens) == 64 &&
              offsetof(DeviceAccount, refill_ns) == 72 && offsetof(DeviceAccount, refused) == 80 &&
              offsetof(DeviceAccount, overshoot) == 88 &&
              offsetof(DeviceAccount, unknown_abi) == 96 && offsetof(DeviceAccount, uuid) == 104);

// Who holds a slot. `start` is field 22 of /proc/<pid>/stat; 0 where it could not be read.
struct Owner {
  std::atomic<std::uint32_t> pid;
  std::atomic<std::uint32_t> pid_namespace;
  Cell start;
  char name[16];
  std::uint8_t rest[32];
};
static_assert(sizeof(Owner) == 64 && offsetof(Owner, start) == 8 && offsetof(Owner, name) == 16);

struct Entry {
  Cell base;   // bytes held before the operation
  Cell delta;  // two's complement of a signed change
};

// What one slot did last on one device (word.h).
struct SlotRecord {
  Cell want;
  Cell done;
  Entry entry[2];
  std::uint8_t rest[16];
};
static_assert(sizeof(SlotRecord) == 64 && offsetof(SlotRecord, entry) == 16);

// Bytes of an account file of that many devices and slots.
constexpr std::size_t account_bytes(std::uint32_t devices, std::uint32_t slots) {
  return kHeaderBytes + devices * sizeof(DeviceAccount) + slots * sizeof(Owner) +
         static_cast<std::size_t>(devices) * slots * sizeof(SlotRecord);
}

// A mapped account whose counts were checked against its size.
class AccountView {
 public:
  AccountView() = default;

  // Empty (valid() false) unless `bytes` mapped at `memory` are a complete account of this layout.
  static AccountView over(void* memory, std::size_t bytes) {
    AccountView view;
    if (memory == nullptr || bytes < kHeaderBytes) return view;
    const auto* header = static_cast<const AccountHeader*>(memory);
    for (std::size_t i = 0; i < sizeof(header->magic); ++i) {
      if (header->magic[i] != kAccountMagic[i]) return view;
    }
    const std::uint32_t devices = header->n_devices;
    const std::uint32_t slots = header->n_slots;
    if (header->layout != kLayout || devices > kMaxDevices || slots == 0 || slots > kMaxSlots ||
        account_bytes(devices, slots) > bytes) {
      return view;
    }
    view.base_ = static_cast<unsigned char*>(memory);
    view.n_devices_ = devices;
    view.n_slots_ = slots;
    return view;
  }

  bool valid() const { return base_ != nullptr; }

  std::uint32_t n_devices() const { return n_devices_; }

  std::uint32_t n_slots() const { return n_slots_; }

  AccountHeader& header() const { return *reinterpret_cast<AccountHeader*>(base_); }

  // Requires: device < n_devices(), slot < n_slots().
  DeviceAccount& device(std::uint32_t device) const {
    return reinterpret_cast<DeviceAccount*>(base_ + kHeaderBytes)[device];
  }

  Owner& owner(std::uint32_t slot) const {
    return reinterpret_cast<Owner*>(base_ + kHeaderBytes +
                                    n_devices_ * sizeof(DeviceAccount))[slot];
  }

  // All records of a device, n_slots() of them.
  SlotRecord* records(std::uint32_t device) const {
    auto* first = reinterpret_cast<SlotRecord*>(
        base_ + kHeaderBytes + n_devices_ * sizeof(DeviceAccount) + n_slots_ * sizeof(Owner));
    return first + static_cast<std::size_t>(device) * n_slots_;
  }

 private:
  unsigned char* base_ = nullptr;
  std::uint32_t n_devices_ = 0;
  std::uint32_t n_slots_ = 0;
};

// Policy

enum PolicyFlag : std::uint32_t {
  policy_closed = 1,             // fail closed
  policy_filter_processes = 2,   // NVML lists show the grant's own processes only
  policy_managed_uncounted = 4,  // cuMemAllocManaged is not charged
  policy_compute = 8,            // the compute limiter is on
  policy_private_table = 16,     // patch the table that nvidia-smi reads processes from
  policy_share_utilisation = 32  // NVML utilisation is the share's own
};

enum class Level : std::uint32_t { hardware = 1, driver = 2, library = 3, advisory = 4 };

struct PolicyDevice {
  std::uint8_t uuid[kUuidBytes];
  std::uint64_t request;  // bytes
  std::uint64_t limit;    // bytes; never exceeded
  Cell cap;               // bytes; between request and limit, moved by the agent
  std::uint64_t context_bytes;
  Cell overhead;                             // bytes used that no account entry explains
  std::atomic<std::uint32_t> share_request;  // thousandths of the device's time
  std::atomic<std::uint32_t> share_limit;
  std::atomic<std::uint32_t> share_now;
  std::uint8_t rest[60];
};
static_assert(sizeof(PolicyDevice) == 128 && offsetof(PolicyDevice, cap) == 32 &&
              offsetof(PolicyDevice, overhead) == 48 && offsetof(PolicyDevice, share_now) == 64);

struct Policy {
  char magic[8];
  std::uint32_t layout;
  std::uint32_t n_devices;
  Cell generation;
  std::atomic<std::uint32_t> flags;
  std::uint32_t level;
  char grant_id[64];
  std::uint8_t rest[32];
  PolicyDevice device[kMaxDevices];
};
static_assert(sizeof(Policy) == 4096 && offsetof(Policy, device) == 128 &&
              offsetof(Policy, grant_id) == 32 && offsetof(Policy, flags) == 24);

// True if a mapped page of 4096 bytes is a policy of this layout.
inline bool is_policy(const Policy& policy) {
  for (std::size_t i = 0; i < sizeof(policy.magic); ++i) {
    if (policy.magic[i] != kPolicyMagic[i]) return false;
  }
  return policy.layout == kLayout && policy.n_devices <= kMaxDevices && policy.level >= 1 &&
         policy.level <= 4;
}

// File names inside a grant directory, and where it is mounted.
inline constexpr char kGrantDirectory[] = "/run/berth/grant";
inline constexpr char kAccountFile[] = "account";
inline constexpr char kPolicyFile[] = "policy";
inline constexpr char kPidsFile[] = "pids";  // u32 host pids that belong to the grant

}  // namespace berth::guard
