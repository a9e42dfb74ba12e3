// Who owns a slot of the state file, and whether that process still lives.
//
// A process holds a POSIX record lock on its slot's byte; the kernel drops it when the process
// dies, whatever kills it, and children do not inherit it. A process that closes all its
// descriptors (a daemon does) loses the lock but not its memory, so a free lock alone proves
// nothing: then the recorded process (PID namespace, pid, start time) is looked for, and must still
// have the file mapped (an exec in place has not). Thread-safety: functions of their arguments and
// the operating system.
#pragma once

#include <cstdint>

#include "fake/state/layout.h"

namespace berth::fake {

struct Identity {
  std::uint32_t pid = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;
};

// Of the calling process. Zeroes where /proc is not mounted.
Identity own_identity();

// How an open state file is told from others in /proc/PID/maps.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// Whether the recorded owner lives, by the rule above. `own` is the caller's identity, `fd` an
// open descriptor of the file.
bool owner_lives(const Owner& owner, int slot, int fd, const FileIdentity& file,
                 const Identity& own);

// The owner's pid as the caller's PID namespace numbers it (as the kernel module tells it to
// nvidia-smi), or the recorded one where that cannot be known.
std::uint32_t visible_pid(const Owner& owner, int slot, int fd, const Identity& own);

// Takes the lock of a slot's byte without waiting; false = another process has it.
bool try_lock_slot(int fd, int slot);
void unlock_slot(int fd, int slot);

// Own name and control group: what `dump` shows and kernel limits go by.
void read_own_command(char (&command)[64]);
void read_own_cgroup(char (&cgroup)[256]);

}  // namespace berth::fake
