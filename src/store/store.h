// The durable journal of `berth serve`: what was committed is there after any crash.
//
//   TRY(std::unique_ptr<store::Store> store, store::Store::open({.directory = "/var/lib/berth"}));
//   TRY(std::vector<store::Record> records, store->load());
//   TRY_VOID(store->commit(batch));   // std::vector<store::Record>; on disk when this returns
//   …answer…
//   store->tidy();                    // upkeep, when nobody waits
//
// A record is (kind, id) -> body, bytes that only their owner understands. Every commit appends its
// records to one table of an SQLite file as one transaction with one fdatasync; rows that later
// ones supersede are swept away a few at a time by later commits, so that neither the file nor a
// commit grows with history.
//
// Guaranteed, whatever instant the process or the machine stops at: a store that opens again holds
// the records of a prefix of the commits, in which every commit is that returned success. A file
// that holds anything else is refused at open() and left as it is.
// One exception is told rather than hidden: a commit that failed because the disk would not sync,
// and whose traces the same disk did not let us remove, may be found done after a crash that comes
// before the next commit that succeeds.
//
// One process at a time: the directory is locked as long as a Store lives.
// Thread-safety: none; one thread at a time may use a Store. Memory: some 200 bytes a record.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/fault_hook.h"

namespace berth::store {

struct Record {
  std::string kind;                 // not empty
  std::string id;                   // unique within its kind
  std::optional<std::string> body;  // none: erased

  bool operator==(const Record&) const = default;
};

struct StoreOptions {
  std::string directory;  // made, for the owner alone, if it does not exist
  // Superseded rows are swept by a commit when there are `slack_rows + sweep_rows` of them,
  // `sweep_rows` at a time. They mostly lie side by side, and a page that is written for one of
  // them costs the same as for all of them. At least 0 and 1.
  std::int64_t slack_rows = 4'096;
  std::int64_t sweep_rows = 128;
  // Pages of log that make tidy() move them into the file. At least 1.
  std::int64_t checkpoint_pages = 1'000;
  FaultHook* faults = nullptr;  // must outlive the store
};

class Store {
 public:
  // Locks the directory, makes the file if there is none, and checks every row of one that is
  // there. Errors, each with what to do: conflict (another process has it: names its pid; the file
  // is damaged, truncated, foreign or from a newer version: nothing was changed); unavailable (the
  // disk does not let us).
  static Result<std::unique_ptr<Store>> open(StoreOptions options);

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  // Everything that is not erased, in the order of its first appearance (an id that is erased and
  // comes again appears anew). Errors: unavailable; conflict where the file was damaged since.
  Result<std::vector<Record>> load();

  // All records in their order, or none; durable when it returns. A later record of the same kind
  // and id replaces the earlier one, also within one call; erasing what is not there is nothing.
  // Errors: unavailable (disk full, read-only, broken): nothing of it is kept, what was committed
  // before stays, and the next commit tries afresh; invalid_argument: a record beyond 16 MiB.
  // Requires: kinds that are not empty.
  Result<void> commit(std::span<const Record> records);

  // Moves what the log gathered into the file, if that is due: at most some thousand page writes
  // and two syncs. To be called when nobody waits for an answer; commit() does it itself only when
  // nobody did for long. Errors: unavailable: nothing is lost, and later calls try again.
  Result<void> tidy();

  struct Figures {
    std::int64_t live_rows = 0;        // records that load() gives
    std::int64_t superseded_rows = 0;  // to be swept some day
    std::int64_t log_pages = 0;        // commits not yet moved into the file
    std::uint64_t commits = 0;         // successful ones since open
    std::uint64_t failed_commits = 0;
  };

  Figures figures() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::store
