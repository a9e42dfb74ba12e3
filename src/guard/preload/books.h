// Charging: the one place where a process's memory goes up and down.
//
//   Reservation place(target, bytes);
//   if (!place.granted()) return kCudaOutOfMemory;
//   const int code = driver<…>(…);
//   if (code == kCudaSuccess) place.keep();      // otherwise given back
//
// Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"
#include "guard/preload/local.h"

namespace berth::guard {

// More than a word can say; any size from outside is cut to it.
inline constexpr std::uint64_t kImpossible = std::uint64_t{1} << 45;

// Rounding up that cannot overflow.
constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  if (bytes >= kImpossible) return kImpossible;
  return (bytes + unit - 1) / unit * unit;
}

constexpr std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > kImpossible / b) return kImpossible;
  const std::uint64_t product = a * b;
  return product > kImpossible ? kImpossible : product;
}

inline constexpr std::uint64_t kGrain = 512;            // of linear memory
inline constexpr std::uint64_t kPoolGrain = 2U << 20U;  // of pools

enum class Charging : std::uint8_t {
  refused,  // over the cap, and said so
  charged,
  uncounted  // let pass without a slot (fail-open)
};

// Tries without consequences: no message, no counter, nothing reclaimed.
Charging try_charge(int target, std::uint64_t bytes);
// Takes the trouble: settles pools and reclaims the dead before it refuses. `quiet`: the caller
// still has another way, so a refusal is neither counted nor printed.
Charging charge(int target, std::uint64_t bytes, bool quiet = false);
// What can be done before a refusal: settles pools, gives back what the dead hold.
void make_room();
// Counts and prints a refusal.
void refuse(int target, std::uint64_t bytes);
// Charges what cannot be refused any more; past the cap it is counted as overshoot.
void charge_always(int target, std::uint64_t bytes);
void release(int target, std::uint64_t bytes);

// Bytes charged on the device by all processes of the grant.
std::uint64_t charged_on(int target);

class Reservation {
 public:
  Reservation(int target, std::uint64_t bytes)
      : Reservation(target, bytes, charge(target, bytes)) {}

  Reservation(int target, std::uint64_t bytes, Charging charging)
      : target_(target),
        bytes_(charging == Charging::charged ? bytes : 0),
        granted_(charging != Charging::refused) {}

  ~Reservation() {
    if (bytes_ != 0) release(target_, bytes_);
  }

  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  bool granted() const { return granted_; }

  std::uint64_t bytes() const { return bytes_; }

  // The bytes stay charged and are now the caller's to remember.
  std::uint64_t keep() {
    const std::uint64_t kept = bytes_;
    bytes_ = 0;
    return kept;
  }

 private:
  int target_;
  std::uint64_t bytes_;
  bool granted_;
};

// Objects. One object's charge, packed into the value of a table.
struct Held {
  std::uint64_t bytes = 0;
  int target = kUntouched;
  std::uint32_t context = kContexts;  // kContexts: none

  std::uint64_t packed() const {
    return bytes | (static_cast<std::uint64_t>(target + 1) << 44U) |
           (std::uint64_t{context} << 50U);
  }

  static Held of(std::uint64_t packed) {
    return {.bytes = packed & kMaxBytes,
            .target = static_cast<int>((packed >> 44U) & 63U) - 1,
            .context = static_cast<std::uint32_t>(packed >> 50U)};
  }
};

// Enters an object; where there is no memory for the table the charge stays until the process ends.
void enter(Table& table, std::uint64_t key, std::uint64_t value);
// Takes the oldest object of a key away and releases its charge. False: unknown.
bool drop(Table& table, std::uint64_t key);
// Releases every object of the table that `context` holds.
void drop_objects_of(std::uint32_t context);

}  // namespace berth::guard
