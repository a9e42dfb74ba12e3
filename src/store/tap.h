// Where every step on the disk goes past the fault hook, and what is remembered of it.
// Thread-safety: one thread at a time.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>

#include "store/fault_hook.h"

namespace berth::store {

struct Tap {
  FaultHook* faults = nullptr;
  int last_error = 0;                           // the errno of the last step that failed
  int read_error = 0;                           // of the last read that failed
  std::optional<std::int64_t> commit_begins{};  // the first place in the log written for a commit

  // To be asked before the step is made.
  DiskFault before(const DiskStep& step) {
    const DiskFault fault = faults == nullptr ? DiskFault() : faults->before(step);
    if (fault.error != 0) {
      failed(step.deed, fault.error);
    }
    return fault;
  }

  void failed(DiskDeed deed, int error) {
    last_error = error;
    if (deed == DiskDeed::read) {
      read_error = error;
    }
  }

  // To be told after it was made.
  void after(const DiskStep& step) const {
    if (faults != nullptr) {
      faults->after(step);
    }
  }

  // A step that is one system call, which returns 0 or sets errno. Returns its errno, or 0.
  template <class Call>
  int step(const DiskStep& deed, Call call) {
    if (const DiskFault fault = before(deed); fault.error != 0) {
      return fault.error;
    }
    if (call() != 0) {
      last_error = errno;
      return last_error;
    }
    after(deed);
    return 0;
  }
};

}  // namespace berth::store
