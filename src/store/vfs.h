// SQLite's way to the disk, past a tap: a VFS that passes everything on to the one of Unix.
//
// Its files have no shared memory, so a log can only be used in the exclusive locking mode.
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "store/tap.h"

namespace berth::store {

class Vfs {
 public:
  // Registers itself with SQLite. `tap` must outlive it.
  explicit Vfs(Tap& tap);
  Vfs(const Vfs&) = delete;
  Vfs& operator=(const Vfs&) = delete;
  ~Vfs();  // requires: SQLite has closed every file

  // Under which SQLite finds it; unique in the process.
  const std::string& name() const;

 private:
  struct Registration;
  std::unique_ptr<Registration> registration_;
};

}  // namespace berth::store
