// One process's view of the state file: it is opened once, kept for ever, and written by the rules
// of layout.h.
//
// A charge writes the own figure first and then sums everybody's. Two processes that charge at once
// both see both charges, so the card is never promised twice; at worst both withdraw, and then try
// again one after the other under a lock (that the kernel frees if its holder dies). `attempt`
// tells the one under the lock that a figure it sees may still be withdrawn. Thread-safety:
// `charge` and `release` want one caller at a time in a process (the driver's own lock); everything
// else may be called from anywhere.
#pragma once

#include <cstdint>
#include <string>

#include "fake/state/layout.h"
#include "fake/state/owner.h"

namespace berth::fake {

class Books {
 public:
  // The file that BERTH_FAKE_STATE names. Null with a reason in `why` if there is none or it is not
  // a state file. A file once opened is never closed: closing would drop the process's locks on it.
  static Books* open_from_environment(const char** why);
  static Books* open_path(const char* path, const char** why);

  State& state() { return *state_; }
  const State& state() const { return *state_; }
  const Identity& own() const { return own_; }
  int device_count() const { return static_cast<int>(state_->header.device_count); }

  // Takes a slot for this process, once; false = the table is full. A forked child takes its own.
  bool claim();
  int slot() const { return slot_; }
  // Forgets the slot without touching it: for the child of a fork, whose parent goes on with it.
  void forget_slot();
  Owner& own_owner() { return state_->owners[slot_]; }
  Figures& own_figures(int device) { return state_->figures[device][slot_]; }

  // Adds `bytes` to what this process holds, if the device (or, under a kernel limit, the group)
  // has room. False = out of memory, nothing changed.
  bool charge(int device, Family family, std::uint64_t bytes) {
    Figures& own = own_figures(device);
    const std::uint64_t before = own.total.load(std::memory_order_relaxed);
    own.attempt.store(bytes, std::memory_order_release);
    own.total.store(before + bytes, std::memory_order_seq_cst);
    if (state_->header.charge_special.load(std::memory_order_relaxed) != 0 ||
        bytes > room(device) || quick_sum(device) > room(device)) {
      own.total.store(before, std::memory_order_release);
      own.attempt.store(0, std::memory_order_release);
      if (bytes > room(device) || !charge_slowly(device, bytes)) return false;
    }
    own.attempt.store(0, std::memory_order_release);
    add_relaxed(own.family[static_cast<int>(family)], bytes);
    return true;
  }

  void release(int device, Family family, std::uint64_t bytes) {
    Figures& own = own_figures(device);
    add_relaxed(own.family[static_cast<int>(family)], 0 - bytes);
    own.total.store(own.total.load(std::memory_order_relaxed) - bytes, std::memory_order_release);
  }

  // What is in use on the device by everybody who lives, the driver's own reserve not counted.
  std::uint64_t used(int device);
  // What the process in `slot` holds there, adopted memory included; 0 if it is dead.
  std::uint64_t held(int slot, int device);
  // Total and free memory as a process of `cgroup` sees them: those of the card, under the hard
  // limit of its own group if it has one. A limit of a group above is enforced, but not seen.
  struct View {
    std::uint64_t total = 0;
    std::uint64_t free = 0;
  };
  View view(int device, const char* cgroup);
  // What the processes of a control group and of those below it hold.
  std::uint64_t group_use(int device, const char* cgroup);
  bool lives(int slot);
  std::uint32_t pid_of(int slot);
  // What all processes together can have.
  std::uint64_t room(int device) const {
    const DeviceEntry& entry = state_->devices[device];
    return entry.total - entry.reserved;
  }
  int slots_high() const {
    return static_cast<int>(state_->header.slots_high.load(std::memory_order_acquire));
  }

  // The descriptor, opened anew if the program has closed it behind our back.
  int fd();

  // Exclusive right to change what is not a process's own (shares, limits, foreign use). Kept
  // short.
  class Lock {
   public:
    explicit Lock(Books& books);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Books& books_;
  };

 private:
  Books(State* state, int fd, std::string path);
  static void add_relaxed(Word& word, std::uint64_t amount) {
    word.store(word.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  // Everybody's figures, the dead included, foreign use included.
  std::uint64_t quick_sum(int device) const {
    const int high = static_cast<int>(state_->header.slots_high.load(std::memory_order_relaxed));
    const Figures* figures = state_->figures[device];
    std::uint64_t sum = 0;
    for (int slot = 0; slot < high; ++slot) {
      sum += figures[slot].total.load(std::memory_order_seq_cst);
    }
    return sum + state_->devices[device].foreign_bytes.load(std::memory_order_relaxed);
  }
  bool charge_slowly(int device, std::uint64_t bytes);
  bool fits_now(int device);
  bool limits_allow(int device);
  bool others_attempt(int device);
  std::uint64_t adopted(int slot, int device);
  void clear_slot(int slot);
  void bury_dead();

  State* state_;
  int fd_;
  std::string path_;
  FileIdentity file_;
  Identity own_;
  int slot_ = -1;
};

}  // namespace berth::fake
