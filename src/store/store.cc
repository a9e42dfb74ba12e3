#include "store/store.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "store/directory_lock.h"
#include "store/disk.h"
#include "store/journal.h"
#include "store/row_index.h"

namespace berth::store {

namespace {

constexpr std::int64_t kFrameBytes = 4'096 + 24;
constexpr std::int64_t kLogHeaderBytes = 32;

// The rows that a commit adds, and the texts they point into stay with the caller.
std::vector<Row> rows_for(std::span<const Record> records, const RowIndex& index) {
  std::vector<Row> rows;
  rows.reserve(records.size());
  std::unordered_map<std::string, std::int64_t> places;  // within this commit; 0: erased
  for (const Record& record : records) {
    ASSERT(!record.kind.empty());
    std::string key = RowIndex::key_of(record.kind, record.id);
    const auto found = places.find(key);
    const std::int64_t place = found != places.end() ? found->second : index.place_of(key);
    if (place == 0 && !record.body) {
      continue;  // nothing to erase
    }
    Row row{.kind = record.kind, .id = record.id};
    row.seq = index.last_seq() + 1 + static_cast<std::int64_t>(rows.size());
    row.place = place == 0 ? row.seq : place;
    if (record.body) {
      row.body = *record.body;
    }
    row.sum = sum_of(row);
    places.insert_or_assign(std::move(key), record.body ? row.place : 0);
    rows.push_back(row);
  }
  return rows;
}

// More than any record of ours has; SQLite's own limit is far beyond.
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

Result<void> check_size(std::span<const Record> records) {
  for (const Record& record : records) {
    const std::size_t body = record.body ? record.body->size() : 0;
    if (record.kind.size() + record.id.size() + body > kMostBytes) {
      return invalid_argument(fmt::format("a record of kind '{}' has {} bytes, at most {} are kept",
                                          record.kind.substr(0, 64), body, kMostBytes));
    }
  }
  return success();
}

std::uint64_t total_after(const RowIndex& index, std::span<const Row> rows,
                          std::span<const Superseded> sweep) {
  std::uint64_t total = index.total();
  for (const Row& row : rows) {
    total += row.sum;
  }
  for (const Superseded& row : sweep) {
    total -= row.sum;
  }
  return total;
}

}  // namespace

class Store::Impl {
 public:
  Impl(StoreOptions options, DirectoryLock lock)
      : options_(std::move(options)),
        lock_(std::move(lock)),
        disk_(options_.directory, options_.faults),
        due_pages_(options_.checkpoint_pages) {}

  Result<void> open();
  Result<std::vector<Record>> load();
  Result<void> commit(std::span<const Record> records);
  Result<void> tidy();
  Figures figures() const;

 private:
  std::vector<Superseded> next_sweep(std::size_t rows) const;
  void make_room();

  StoreOptions options_;
  DirectoryLock lock_;
  Disk disk_;
  RowIndex index_;
  std::unique_ptr<Journal> journal_;
  std::int64_t due_pages_;  // the log's length at which a checkpoint is tried next
  bool room_lost_ = false;  // the log was cut short behind a commit that failed
  std::uint64_t commits_ = 0;
  std::uint64_t failed_commits_ = 0;
};

Result<void> Store::Impl::open() {
  if (!disk_.exists(kJournalFile)) {
    if (disk_.exists(kLogFile)) {
      return Error(ErrorCode::conflict,
                   fmt::format("'{}' is missing, but its log '{}' is there; nothing was changed. "
                               "Restore both from a backup, or move the log aside to start with an "
                               "empty ledger",
                               disk_.path(kJournalFile), kLogFile));
    }
    TRY_VOID(Journal::create(disk_));
  }
  TRY(journal_, Journal::open(disk_, [this](const Row& row) { index_.saw(row); }));
  // Best effort: where the disk is full now, commits say so.
  static_cast<void>(tidy().ok());
  make_room();
  return success();
}

void Store::Impl::make_room() {
  // The log may grow beyond what is due by the commit that makes it so.
  const std::int64_t frames = options_.checkpoint_pages + options_.checkpoint_pages / 8;
  disk_.make_room_in_log(kLogHeaderBytes + frames * kFrameBytes);
}

Result<std::vector<Record>> Store::Impl::load() {
  struct Placed {
    std::int64_t place;
    Record record;
  };

  std::unordered_map<std::string, Placed> found;
  found.reserve(static_cast<std::size_t>(index_.live_rows()));
  TRY_VOID(journal_->read([&](const Row& row) {
    if (row.kind.empty()) {
      return;  // the founding row
    }
    std::string key = RowIndex::key_of(row.kind, row.id);
    if (!row.body) {
      found.erase(key);
      return;
    }
    Placed placed{row.place, {std::string(row.kind), std::string(row.id), std::string(*row.body)}};
    found.insert_or_assign(std::move(key), std::move(placed));
  }));
  std::vector<Placed> ordered;
  ordered.reserve(found.size());
  for (auto& [key, placed] : found) {
    ordered.push_back(std::move(placed));
  }
  std::ranges::sort(ordered, {}, &Placed::place);
  std::vector<Record> records;
  records.reserve(ordered.size());
  for (Placed& placed : ordered) {
    records.push_back(std::move(placed.record));
  }
  return records;
}

std::vector<Superseded> Store::Impl::next_sweep(std::size_t rows) const {
  if (index_.superseded_rows() < options_.slack_rows + options_.sweep_rows) {
    return {};
  }
  // A commit that adds more than a step takes more than a step away, so that none falls behind.
  return index_.oldest(std::max(static_cast<std::size_t>(options_.sweep_rows), 2 * rows));
}

Result<void> Store::Impl::commit(std::span<const Record> records) {
  TRY_VOID(check_size(records));
  const std::vector<Row> rows = rows_for(records, index_);
  if (rows.empty()) {
    return success();
  }
  const std::vector<Superseded> sweep = next_sweep(rows.size());
  const Journal::Append append{
      .rows = rows, .sweep = sweep, .total = total_after(index_, rows, sweep)};
  if (Result<void> appended = journal_->append(append); !appended.ok()) {
    ++failed_commits_;
    room_lost_ = true;
    return appended;
  }
  ++commits_;
  index_.forget(sweep);
  for (const Row& row : rows) {
    index_.saw(row);
  }
  if (journal_->log_pages() >= 2 * due_pages_) {
    static_cast<void>(tidy().ok());  // the commit is done, whatever becomes of this
  }
  return success();
}

Result<void> Store::Impl::tidy() {
  if (std::exchange(room_lost_, false)) {
    make_room();
  }
  if (journal_->log_pages() < due_pages_) {
    return success();
  }
  Result<void> moved = journal_->checkpoint();
  due_pages_ =
      moved.ok() ? options_.checkpoint_pages : journal_->log_pages() + options_.checkpoint_pages;
  return moved;
}

Store::Figures Store::Impl::figures() const {
  return {.live_rows = index_.live_rows() - 1,
          .superseded_rows = index_.superseded_rows(),
          .log_pages = journal_->log_pages(),
          .commits = commits_,
          .failed_commits = failed_commits_};
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(StoreOptions options) {
  ASSERT(options.slack_rows >= 0 && options.sweep_rows >= 1, options.slack_rows,
         options.sweep_rows);
  ASSERT(options.checkpoint_pages >= 1, options.checkpoint_pages);
  TRY_VOID(make_directory(options.directory));
  TRY(DirectoryLock lock, DirectoryLock::take(fmt::format("{}/{}", options.directory, kLockFile)));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(lock));
  TRY_VOID(impl->open());
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Result<std::vector<Record>> Store::load() { return impl_->load(); }

Result<void> Store::commit(std::span<const Record> records) { return impl_->commit(records); }

Result<void> Store::tidy() { return impl_->tidy(); }

Store::Figures Store::figures() const { return impl_->figures(); }

}  // namespace berth::store
