// Table: 64-bit keys to 64-bit values in memory of its own (mmap; allocators look symbols up while
// they start, so nothing here may allocate through them).
//
// A key may occur more than once: the driver can hand an address out again before the thread that
// freed it has taken the old entry away. The oldest entry is the one that is found and taken.
// Linear probing with backward shift; the cost does not depend on how many entries live.
// Thread-safety: none, the caller holds a lock; growing is split so that no system call is made
// under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>

#include "guard/sys.h"

namespace berth::guard {

class Table {
 public:
  struct Item {
    std::uint64_t key;  // 0: empty
    std::uint64_t value;
  };

  bool has_room() const { return (count_ + 1) * 2 <= capacity_; }

  std::size_t capacity() const { return capacity_; }

  std::size_t count() const { return count_; }

  // Memory for a table of twice the size; nullptr: there is none. No lock needed.
  static Item* memory_for(std::size_t capacity) {
    return static_cast<Item*>(sys::map(nullptr, capacity * sizeof(Item), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1));
  }

  static void give_up(Item* items, std::size_t capacity) {
    if (items != nullptr) sys::unmap(items, capacity * sizeof(Item));
  }

  static constexpr std::size_t kFirstCapacity = 256;

  std::size_t next_capacity() const { return capacity_ == 0 ? kFirstCapacity : capacity_ * 2; }

  // Moves into larger memory and returns the old.
  Item* move_into(Item* items, std::size_t capacity) {
    Item* old = items_;
    const std::size_t old_capacity = capacity_;
    items_ = items;
    capacity_ = capacity;
    // From behind an empty place on, so that entries of one key keep their order.
    std::size_t start = 0;
    while (start < old_capacity && old[start].key != 0)
      ++start;
    for (std::size_t i = 0; i < old_capacity; ++i) {
      const Item& item = old[(start + i) & (old_capacity - 1)];
      if (item.key != 0) place(item.key, item.value);
    }
    return old;
  }

  // Requires: has_room(), key != 0.
  void insert(std::uint64_t key, std::uint64_t value) {
    place(key, value);
    ++count_;
  }

  std::uint64_t* find(std::uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    for (std::size_t at = home(key); items_[at].key != 0; at = next(at)) {
      if (items_[at].key == key) return &items_[at].value;
    }
    return nullptr;
  }

  // Calls `visit(value)` for every entry of a key.
  template <typename Visit>
  void each(std::uint64_t key, Visit&& visit) {
    if (capacity_ == 0 || key == 0) return;
    for (std::size_t at = home(key); items_[at].key != 0; at = next(at)) {
      if (items_[at].key == key) visit(items_[at].value);
    }
  }

  // Takes the oldest entry of a key away. False: there is none.
  bool take(std::uint64_t key, std::uint64_t& value) {
    if (capacity_ == 0 || key == 0) return false;
    for (std::size_t at = home(key); items_[at].key != 0; at = next(at)) {
      if (items_[at].key != key) continue;
      value = items_[at].value;
      close_gap(at);
      --count_;
      return true;
    }
    return false;
  }

  // Calls `visit(key, value)` for every entry and takes away those for which it answers true.
  template <typename Visit>
  void take_if(Visit&& visit) {
    for (std::size_t at = 0; at < capacity_;) {
      if (items_[at].key != 0 && visit(items_[at].key, items_[at].value)) {
        close_gap(at);  // another entry may have moved here: look again
        --count_;
      } else {
        ++at;
      }
    }
  }

 private:
  std::size_t home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20U) & (capacity_ - 1);
  }

  std::size_t next(std::size_t at) const { return (at + 1) & (capacity_ - 1); }

  void place(std::uint64_t key, std::uint64_t value) {
    std::size_t at = home(key);
    while (items_[at].key != 0)
      at = next(at);
    items_[at] = {.key = key, .value = value};
  }

  void close_gap(std::size_t gap) {
    for (std::size_t at = next(gap); items_[at].key != 0; at = next(at)) {
      const std::size_t wanted = home(items_[at].key);
      // It may move back unless its home lies behind the gap.
      const bool behind = ((at - wanted) & (capacity_ - 1)) < ((at - gap) & (capacity_ - 1));
      if (behind) continue;
      items_[gap] = items_[at];
      gap = at;
    }
    items_[gap] = {.key = 0, .value = 0};
  }

  Item* items_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t count_ = 0;
};

}  // namespace berth::guard
