// The word: one 64-bit counter per device that many processes change and that survives the death of
// any of them between any two instructions (enforcement.md 2.7; the proof is in README.md).
//
//   bits 0-43 bytes charged, 44-53 slot of the last operation (1023 = none), 54-63 low bits of that
//   operation's number.
//
// A slot's record says what its operation number k = `want` was about to do. Whether it took effect
// is decided by the word: the tag (slot, k) stands there until somebody replaces it, and whoever
// replaces it first moves `done` of the tagged slot to k. So `done >= k`, or the tag in the word,
// means it did.
//
// The functions are templates over how memory is accessed: production uses `DirectAccess`; the
// explorer of word_explorer_test.cc runs the same functions one access at a time.
// Thread-safety: any number of processes; one operation at a time per slot.
#pragma once

#include <cstdint>

#include "guard/layout.h"

namespace berth::guard {

inline constexpr unsigned kBytesBits = 44;
inline constexpr unsigned kSlotBits = 10;
inline constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << kBytesBits) - 1;
inline constexpr std::uint64_t kTagMask = (std::uint64_t{1} << kSlotBits) - 1;
inline constexpr std::uint32_t kNoSlot = 1023;
inline constexpr std::uint64_t kNoCap = ~std::uint64_t{0};

constexpr std::uint64_t bytes_of(std::uint64_t word) { return word & kMaxBytes; }

constexpr std::uint32_t slot_of(std::uint64_t word) {
  return static_cast<std::uint32_t>((word >> kBytesBits) & kTagMask);
}

constexpr std::uint64_t number_of(std::uint64_t word) { return word >> (kBytesBits + kSlotBits); }

constexpr std::uint64_t pack_word(std::uint64_t bytes, std::uint32_t slot, std::uint64_t number) {
  return bytes | (std::uint64_t{slot} << kBytesBits) |
         ((number & kTagMask) << (kBytesBits + kSlotBits));
}

inline constexpr std::uint64_t kEmptyWord = pack_word(0, kNoSlot, 0);

// Plain access to shared memory. `turn` marks the head of a retry loop, where no local state is
// carried over.
struct DirectAccess {
  static std::uint64_t load(const Cell& cell) { return cell.load(std::memory_order_acquire); }

  static void store(Cell& cell, std::uint64_t value) {
    cell.store(value, std::memory_order_release);
  }

  static bool exchange(Cell& cell, std::uint64_t expected, std::uint64_t desired) {
    return cell.compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                        std::memory_order_acquire);
  }

  static void turn() {}
};

// One device of a mapped account.
struct DeviceBooks {
  Cell* word = nullptr;
  SlotRecord* records = nullptr;
  std::uint32_t n_slots = 0;
};

inline DeviceBooks books_of(const AccountView& account, std::uint32_t device) {
  return {.word = &account.device(device).word,
          .records = account.records(device),
          .n_slots = account.n_slots()};
}

struct Charge {
  std::uint32_t slot = 0;
  std::uint64_t held = 0;      // what the slot holds on this device
  std::int64_t delta = 0;      // change in bytes
  std::uint64_t cap = kNoCap;  // growth past it is refused
};

// A tenant can write garbage or keep changing the word; nobody loops for ever because of it.
inline constexpr int kMaxAttempts = 1 << 22;

constexpr std::uint64_t changed_by(std::uint64_t bytes, std::int64_t delta) {
  if (delta >= 0) return bytes + static_cast<std::uint64_t>(delta);
  const auto less = std::uint64_t{0} - static_cast<std::uint64_t>(delta);
  return bytes > less ? bytes - less : 0;
}

// True if growth by `delta` from `bytes` passes the cap or what a word can say.
constexpr bool passes_cap(std::uint64_t bytes, std::int64_t delta, std::uint64_t cap) {
  if (delta <= 0) return false;
  const std::uint64_t after = bytes + static_cast<std::uint64_t>(delta);
  return after > cap || after > kMaxBytes;
}

// Lets the word's last operation be seen in its owner's record before the tag disappears. False:
// the word has changed meanwhile, look again.
template <typename Access>
bool acknowledge(Access& access, const DeviceBooks& books, std::uint64_t word,
                 std::uint32_t own_slot) {
  const std::uint32_t slot = slot_of(word);
  if (slot == own_slot || slot >= books.n_slots) return true;
  Cell& done = books.records[slot].done;
  const std::uint64_t number = access.load(done);
  if ((number & kTagMask) == number_of(word)) return true;
  if (access.load(*books.word) != word) return false;
  access.exchange(done, number, number + 1);
  return true;
}

// Changes the word by charge.delta in the name of charge.slot. False: refused, nothing changed.
// Requires: the caller is the only one that acts for the slot; slot < n_slots.
template <typename Access>
bool apply_charge(Access& access, const DeviceBooks& books, const Charge& charge) {
  SlotRecord& record = books.records[charge.slot];
  const std::uint64_t number = access.load(record.done) + 1;
  Entry& entry = record.entry[number & 1];
  access.store(entry.base, charge.held);
  access.store(entry.delta, static_cast<std::uint64_t>(charge.delta));
  access.store(record.want, number);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    access.turn();
    const std::uint64_t word = access.load(*books.word);
    // `want` stays: the number is used again by the next operation.
    if (passes_cap(bytes_of(word), charge.delta, charge.cap)) return false;
    if (!acknowledge(access, books, word, charge.slot)) continue;
    const std::uint64_t next =
        pack_word(changed_by(bytes_of(word), charge.delta), charge.slot, number);
    if (access.exchange(*books.word, word, next)) {
      access.store(record.done, number);
      return true;
    }
  }
  return false;
}

// What a slot holds on a device, whoever owned it and wherever it was stopped.
// Requires: the caller is the only one that acts for the slot.
template <typename Access>
std::uint64_t settle_slot(Access& access, const DeviceBooks& books, std::uint32_t slot) {
  SlotRecord& record = books.records[slot];
  const std::uint64_t number = access.load(record.want);
  std::uint64_t done = access.load(record.done);
  if (done < number) {
    const std::uint64_t word = access.load(*books.word);
    if (slot_of(word) == slot && number_of(word) == (number & kTagMask)) {
      access.exchange(record.done, number - 1, number);
    }
    done = access.load(record.done);
  }
  const Entry& entry = record.entry[number & 1];
  const std::uint64_t base = access.load(entry.base);
  if (done < number) return base;
  return changed_by(base, static_cast<std::int64_t>(access.load(entry.delta)));
}

// What a slot holds, read by somebody who does not act for it. Exact if the word is the same before
// and after (every operation changes its tag); an agent that audits checks that.
template <typename Access>
std::uint64_t peek_slot(Access& access, const DeviceBooks& books, std::uint32_t slot) {
  const SlotRecord& record = books.records[slot];
  const std::uint64_t number = access.load(record.want);
  const std::uint64_t word = access.load(*books.word);
  const bool tagged = slot_of(word) == slot && number_of(word) == (number & kTagMask);
  const bool took_effect = access.load(record.done) >= number || tagged;
  const Entry& entry = record.entry[number & 1];
  const std::uint64_t base = access.load(entry.base);
  if (!took_effect) return base;
  return changed_by(base, static_cast<std::int64_t>(access.load(entry.delta)));
}

// Gives back what a slot holds. Whoever is stopped in the middle is finished by the next caller.
// False: not done (only in an account full of garbage).
// Requires: as for settle_slot.
template <typename Access>
bool give_back(Access& access, const DeviceBooks& books, std::uint32_t slot) {
  const std::uint64_t held = settle_slot(access, books, slot);
  if (held == 0) return true;
  if (held > kMaxBytes) return false;
  return apply_charge(access, books,
                      {.slot = slot, .held = held, .delta = -static_cast<std::int64_t>(held)});
}

}  // namespace berth::guard
