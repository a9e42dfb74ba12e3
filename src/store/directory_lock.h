// The lock that keeps a second process away from a store's directory.
//
// A flock(2) on a file that says who holds it. The system drops it with the process, however that
// ends, so there are no stale ones; the text in the file is only for the message.
// Thread-safety: a value that moves; none.
#pragma once

#include <string>

#include "base/result.h"

namespace berth::store {

class DirectoryLock {
 public:
  // Errors: conflict (held: names the pid and since when); unavailable (no such directory, no
  // right).
  static Result<DirectoryLock> take(const std::string& path);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace berth::store
