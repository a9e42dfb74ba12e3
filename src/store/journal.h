// The SQLite file: rows in, rows out, one connection. The exceptions of SQLiteCpp end here.
//
// Requires of every function: the caller holds the lock of the directory.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "store/disk.h"
#include "store/row.h"
#include "store/row_index.h"

namespace berth::store {

class Journal {
 public:
  // Writes an empty journal under its name, whole or not at all. Errors: unavailable.
  static Result<void> create(Disk& disk);

  // Opens the file, checks form, version and every row, and only then lets anything be written;
  // brings an older version up to date. `saw` is given every row in the order of its seq.
  // Errors: conflict (refused, untouched); unavailable.
  static Result<std::unique_ptr<Journal>> open(Disk& disk,
                                               const std::function<void(const Row&)>& saw);

  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  // Every row in the order of its seq. Errors: unavailable.
  Result<void> read(const std::function<void(const Row&)>& saw);

  struct Append {
    std::span<const Row> rows;          // not empty; seq rising, beyond every one there
    std::span<const Superseded> sweep;  // to be deleted
    std::uint64_t total = 0;            // of all rows of the file thereafter
  };

  // One transaction, durable when it returns. Errors: unavailable; nothing has changed.
  Result<void> append(const Append& append);

  // Pages in the log.
  std::int64_t log_pages() const;

  // Moves the log into the file. Errors: unavailable; nothing is lost.
  Result<void> checkpoint();

 private:
  class Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::store
