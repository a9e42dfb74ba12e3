// Slots: which process may act for which record of an account, decided by the kernel.
//
// A slot is held by an open-file-description write lock on byte s of the account file. The kernel
// drops it at death, whatever killed the owner, so nobody waits for anybody. A free lock alone does
// not prove death: a daemon closes descriptors it does not know, exec closes ours. Hence the dead
// test of enforcement.md 2.7: lock obtainable, and not the same pid namespace with a living process
// of the same start time that still maps the account.
// Thread-safety: functions of the file; within a process the caller serialises them.
#pragma once

#include "guard/layout.h"
#include "guard/sys.h"
#include "guard/text.h"
#include "guard/word.h"

namespace berth::guard {

struct Identity {
  std::uint32_t pid = 0;
  std::uint32_t pid_namespace = 0;  // inode; 0: /proc cannot be read
  std::uint64_t start = 0;          // clock ticks since boot; 0: unknown
};

// Field 22 of /proc/<pid>/stat; 0 if there is no such process or no /proc. `name` receives the
// program's name (field 2), up to 15 bytes.
inline std::uint64_t start_time_of(std::uint32_t pid, char* name = nullptr) {
  Text<64> path;
  path.add("/proc/").number(pid).add("/stat");
  const int fd = sys::open(path.c_str(), O_RDONLY);
  if (fd < 0) return 0;
  char stat[512] = {};
  const sys::Word got = sys::read(fd, stat, sizeof(stat) - 1);
  sys::close(fd);
  if (got <= 0) return 0;
  sys::Word end = got - 1;
  while (end > 0 && stat[end] != ')')
    --end;  // the name may hold anything, also ')'
  sys::Word at = 0;
  while (at < end && stat[at] != '(')
    ++at;
  for (int i = 0; name != nullptr && i < 15 && at + 1 + i < end; ++i)
    name[i] = stat[at + 1 + i];
  int field = 2;
  std::uint64_t value = 0;
  for (at = end + 1; at < got && field < 23; ++at) {
    if (stat[at] == ' ') {
      ++field;
    } else if (field == 22 && stat[at] >= '0' && stat[at] <= '9') {
      value = value * 10 + static_cast<std::uint64_t>(stat[at] - '0');
    }
  }
  return value;
}

inline std::uint32_t own_pid_namespace() {
  struct stat space = {};
  return sys::stat("/proc/self/ns/pid", &space) == 0 ? static_cast<std::uint32_t>(space.st_ino) : 0;
}

inline Identity own_identity(char* name = nullptr) {
  const std::uint32_t pid = sys::process_id();
  return {.pid = pid, .pid_namespace = own_pid_namespace(), .start = start_time_of(pid, name)};
}

// Number of the form hex or decimal at text[at]; moves `at` behind it.
inline std::uint64_t parse_number_at(const char* text, std::size_t size, std::size_t& at,
                                     unsigned base) {
  std::uint64_t value = 0;
  for (; at < size; ++at) {
    const char c = text[at];
    unsigned digit = base;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a') + 10;
    if (digit >= base) break;
    value = value * base + digit;
  }
  return value;
}

// The inode of one line of /proc/<pid>/maps: "start-end perms offset dev inode path". 0: none.
inline std::uint64_t inode_of_maps_line(const char* line, std::size_t size) {
  std::size_t at = 0;
  for (int space = 0; space < 4 && at < size; ++at) {
    if (line[at] == ' ') ++space;
  }
  return parse_number_at(line, size, at, 10);
}

enum class Mapped : std::uint8_t { no, yes, unknown };

// Whether a process maps the file of that inode.
inline Mapped maps_inode(std::uint32_t pid, std::uint64_t inode) {
  Text<64> path;
  path.add("/proc/").number(pid).add("/maps");
  const int fd = sys::open(path.c_str(), O_RDONLY);
  if (fd < 0) return Mapped::unknown;
  char buffer[1024] = {};
  char line[128];
  std::size_t length = 0;
  Mapped result = Mapped::no;
  // At most 64 MiB of it: nobody reads for ever.
  for (int turn = 0; turn < 65'536 && result == Mapped::no; ++turn) {
    const sys::Word got = sys::read(fd, buffer, sizeof(buffer));
    if (got < 0) result = Mapped::unknown;
    if (got <= 0) break;
    for (sys::Word i = 0; i < got; ++i) {
      if (buffer[i] == '\n') {
        if (inode_of_maps_line(line, length) == inode) result = Mapped::yes;
        length = 0;
      } else if (length < sizeof(line)) {
        line[length++] = buffer[i];
      }
    }
  }
  sys::close(fd);
  return result;
}

inline bool lock_slot(int fd, std::uint32_t slot) { return sys::lock_byte(fd, slot, F_WRLCK) == 0; }

inline void unlock_slot(int fd, std::uint32_t slot) { sys::lock_byte(fd, slot, F_UNLCK); }

// True if somebody else holds the slot's lock.
inline bool is_slot_locked(int fd, std::uint32_t slot) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_start = slot;
  lock.l_len = 1;
  const sys::Word done = sys::call(SYS_fcntl, fd, sys::kOfdGetLock, sys::word_of(&lock));
  return done == 0 && lock.l_type != F_UNLCK;
}

// An account as a slot's life needs it.
struct SharedAccount {
  AccountView view;
  int fd = -1;
  std::uint64_t inode = 0;
  Identity self;
};

// The second half of the dead test; the caller holds the slot's lock. An owner that is the caller
// itself is a former image of this process (exec): dead.
inline bool is_owner_dead(const SharedAccount& account, std::uint32_t slot) {
  const Owner& owner = account.view.owner(slot);
  const std::uint32_t pid = owner.pid.load(std::memory_order_acquire);
  const std::uint64_t start = owner.start.load(std::memory_order_acquire);
  if (pid == 0 || start == 0) return true;
  if (owner.pid_namespace.load(std::memory_order_acquire) != account.self.pid_namespace) {
    return true;  // start times compare inside one namespace only; the lock has spoken
  }
  if (pid == account.self.pid && start == account.self.start) return true;
  if (start_time_of(pid) != start) return true;
  return maps_inode(pid, account.inode) == Mapped::no;
}

// Gives back on every device. Requires: the caller holds the slot's lock.
inline void give_back_everywhere(const AccountView& view, std::uint32_t slot) {
  DirectAccess access;
  for (std::uint32_t device = 0; device < view.n_devices(); ++device)
    give_back(access, books_of(view, device), slot);
}

// True if a slot's records say that it holds something, read without being its owner.
inline bool seems_to_hold(const AccountView& view, std::uint32_t slot) {
  DirectAccess access;
  for (std::uint32_t device = 0; device < view.n_devices(); ++device) {
    if (peek_slot(access, books_of(view, device), slot) != 0) return true;
  }
  return false;
}

inline void write_owner(Owner& owner, const Identity& self, const char* name) {
  owner.pid.store(0, std::memory_order_release);
  owner.start.store(self.start, std::memory_order_release);
  owner.pid_namespace.store(self.pid_namespace, std::memory_order_release);
  for (int i = 0; i < 15; ++i)
    owner.name[i] = name[i];
  owner.name[15] = '\0';
  owner.pid.store(self.pid, std::memory_order_release);
}

// Takes a slot and gives back what its former owner left. kNoSlot: all are taken.
inline std::uint32_t claim_slot(const SharedAccount& account, const char (&name)[16]) {
  const std::uint32_t slots = account.view.n_slots();
  const std::uint32_t first = (account.self.pid * 2654435761U) % slots;
  for (std::uint32_t i = 0; i < slots; ++i) {
    const std::uint32_t slot = (first + i) % slots;
    if (!lock_slot(account.fd, slot)) continue;
    if (is_owner_dead(account, slot)) {
      give_back_everywhere(account.view, slot);
      write_owner(account.view.owner(slot), account.self, name);
      return slot;
    }
    unlock_slot(account.fd, slot);
  }
  return kNoSlot;
}

// Gives back what dead owners hold; `own` is the caller's slot or kNoSlot. Slots in use cost a load
// each. Returns how many were reclaimed.
inline std::uint32_t reclaim_dead(const SharedAccount& account, std::uint32_t own) {
  std::uint32_t reclaimed = 0;
  for (std::uint32_t slot = 0; slot < account.view.n_slots(); ++slot) {
    if (slot == own || !seems_to_hold(account.view, slot)) continue;
    if (!lock_slot(account.fd, slot)) continue;
    if (is_owner_dead(account, slot)) {
      give_back_everywhere(account.view, slot);
      account.view.owner(slot).pid.store(0, std::memory_order_release);
      ++reclaimed;
    }
    unlock_slot(account.fd, slot);
  }
  return reclaimed;
}

}  // namespace berth::guard
