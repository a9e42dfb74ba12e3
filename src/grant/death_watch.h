// DeathWatch: waits for the death of processes without polling /proc (pidfd_open and poll).
//
//   DeathWatch watch;
//   for (std::uint32_t pid : grant.pids()) watch.add(pid);
//   if (watch.wait(Duration(1000)) > 0) grant.reclaim();
//
// Pids are those of the caller's own pid namespace. Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>

#include "base/quantity.h"

namespace berth::grant {

class DeathWatch {
 public:
  DeathWatch() = default;
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;
  ~DeathWatch();

  // False: there is no such process (any more), or the kernel has no pidfds (before 5.3).
  bool add(std::uint32_t pid);

  // Waits until at least one watched process has ended or the time is over; forgets those that
  // ended and returns how many they were.
  int wait(Duration most);

 private:
  std::map<std::uint32_t, int> descriptors_;
};

}  // namespace berth::grant
