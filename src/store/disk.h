// The file system as the store sees it: SQLite's own way to the disk, with the fault hook on it.
//
// It knows three things that SQLite does not: the hook; that the log is written faster when its
// room was filled before (a sync of a growing file is two); and where a commit began in the log,
// so that the traces of one that failed can be cut off.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/fault_hook.h"

namespace berth::store {

inline constexpr std::string_view kJournalFile = "journal.db";
inline constexpr std::string_view kLogFile = "journal.db-wal";
inline constexpr std::string_view kRollbackFile = "journal.db-journal";
inline constexpr std::string_view kDraftFile = "journal.db.new";
inline constexpr std::string_view kLockFile = "journal.lock";

class Disk {
 public:
  // Requires: the directory exists. `faults` may be null.
  Disk(std::string directory, FaultHook* faults);
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  ~Disk();  // requires: SQLite has closed every file

  // The name under which SQLite finds it.
  const std::string& vfs() const;

  std::string path(std::string_view file) const;
  bool exists(std::string_view file) const;
  // Bytes; 0 where there is no such file.
  std::int64_t size(std::string_view file) const;

  // Makes an empty file for the owner alone. Errors: unavailable.
  Result<void> make(std::string_view file) const;

  // Errors: unavailable, the message names the file and what the system said.
  Result<void> rename(std::string_view from, std::string_view to);
  Result<void> remove(std::string_view file);  // nothing, if it does not exist
  Result<void> sync_directory();

  // Fills the log up to `bytes` with zeros where it is shorter, and syncs it. Best effort: a log
  // that grows instead is slower, nothing else.
  void make_room_in_log(std::int64_t bytes);

  // From here on the first place written in the log is remembered…
  void begin_commit();
  // … and everything behind it cut off. Best effort.
  void take_back_commit();

  // The errno of the last step that failed; 0 if none did.
  int last_error() const;
  // That of the last read that failed, which SQLite may take for damage of the file.
  int read_error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Makes a directory that is missing, for its owner alone, and syncs the one above it.
// Errors: unavailable.
Result<void> make_directory(const std::string& directory);

}  // namespace berth::store
