#include "store/journal.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <cstring>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "store/format.h"
#include "store/refusal.h"
#include "store/row_scan.h"

namespace berth::store {

namespace {

constexpr int kBusyMs = 2'000;

int note_log_pages(void* pages, sqlite3*, const char*, int count) {
  *static_cast<std::int64_t*>(pages) = count;
  return SQLITE_OK;
}

}  // namespace

class Journal::Impl {
 public:
  explicit Impl(Disk& disk);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() { sqlite3_wal_hook(db_.getHandle(), nullptr, nullptr); }

  // Until trust() is called, closing leaves file and log as they are. Errors: unavailable.
  Result<void> trust();

  Result<void> check_form();
  Result<void> read(const std::function<void(const Row&)>& saw);
  Result<void> append(const Append& append);
  Result<void> checkpoint();
  Result<void> rehearse_migration();
  void migrate();

  Disk& disk() { return disk_; }

  std::int64_t log_pages() const { return log_pages_; }

  bool is_old() const { return version_ < newest_format(); }

  void begin() { db_.exec("BEGIN IMMEDIATE"); }

  void end() { db_.exec("COMMIT"); }

  void prepare();

 private:
  Result<void> check_schema();
  Result<void> quick_check();
  void insert(const Row& row, const std::uint64_t* total);
  void roll_back();

  struct Statements {
    explicit Statements(SQLite::Database& db)
        : begin(db, "BEGIN IMMEDIATE"),
          insert(db, "INSERT INTO journal VALUES(?,?,?,?,?,?,?)"),
          sweep(db, "DELETE FROM journal WHERE seq = ?"),
          commit(db, "COMMIT") {}

    SQLite::Statement begin;
    SQLite::Statement insert;
    SQLite::Statement sweep;
    SQLite::Statement commit;
  };

  Disk& disk_;
  SQLite::Database db_;
  int version_ = 0;
  std::optional<Statements> statements_;
  std::int64_t log_pages_ = 0;
};

Journal::Impl::Impl(Disk& disk)
    : disk_(disk),
      db_(disk.path(kJournalFile), SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX, kBusyMs,
          disk.vfs()) {
  sqlite3* handle = db_.getHandle();
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  // Before the first look at the file: its log is then never shared, and there is no -shm file.
  db_.exec("PRAGMA locking_mode=EXCLUSIVE");
  db_.exec("PRAGMA synchronous=FULL");
  db_.exec("PRAGMA wal_autocheckpoint=0");
  db_.exec("PRAGMA cell_size_check=ON");
  db_.exec("PRAGMA temp_store=MEMORY");
  db_.exec("PRAGMA cache_spill=OFF");  // only what is committed is written
}

Result<void> Journal::Impl::trust() {
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  // A restored copy may not have a log yet. What this changes lies within one sector of the file.
  // It is written only when the statement ends, after it has answered: hence the second look.
  db_.exec("PRAGMA journal_mode=WAL");
  if (db_.execAndGet("PRAGMA journal_mode").getString() != "wal") {
    return Error(ErrorCode::unavailable,
                 fmt::format("cannot begin a log for '{}': {}", disk_.path(kJournalFile),
                             strerror(disk_.last_error())));
  }
  return success();
}

void Journal::Impl::prepare() {
  db_.execAndGet("SELECT max(seq) FROM journal");  // a log that is new is only now made
  statements_.emplace(db_);
  log_pages_ = disk_.size(kLogFile) / 4'096;
  sqlite3_wal_hook(db_.getHandle(), note_log_pages, &log_pages_);
}

Result<void> Journal::Impl::check_form() {
  version_ = db_.execAndGet("PRAGMA user_version").getInt();
  if (version_ > newest_format()) {
    return refused(
        disk_,
        fmt::format("was written by a newer Berth (format {}, this one knows up to {})", version_,
                    newest_format()),
        "Start that version again, or move the file aside to start with an empty ledger");
  }
  if (version_ < 0) {
    return damaged(disk_, fmt::format("its format is {}", version_));
  }
  TRY_VOID(check_schema());
  TRY_VOID(quick_check());
  if (db_.execAndGet("PRAGMA journal_mode").getString() != "wal") {
    db_.exec("PRAGMA journal_mode=MEMORY");  // or what we do before trust() would leave a file
  }
  return success();
}

Result<void> Journal::Impl::check_schema() {
  SQLite::Statement schema(db_, "SELECT group_concat(sql, ';') FROM sqlite_schema");
  const std::string_view expected = formats()[static_cast<std::size_t>(version_)].schema;
  if (!schema.executeStep() || schema.getColumn(0).getString() != expected) {
    return damaged(disk_, fmt::format("it has not just the table of format {}", version_));
  }
  return success();
}

Result<void> Journal::Impl::quick_check() {
  SQLite::Statement check(db_, "PRAGMA quick_check(1)");
  check.executeStep();
  const std::string found = check.getColumn(0).getString();
  return found == "ok" ? success() : damaged(disk_, found);
}

// Does it all and takes it back. Nothing of it reaches the disk, so a file whose rows turn out to
// be wrong is refused as it was.
Result<void> Journal::Impl::rehearse_migration() {
  const int version = version_;
  begin();
  migrate();
  Result<void> read_back = read([](const Row&) {});
  db_.exec("ROLLBACK");
  version_ = version;
  return read_back;
}

void Journal::Impl::migrate() {
  for (; is_old(); ++version_) {
    formats()[static_cast<std::size_t>(version_)].to_next(db_);
  }
  db_.exec(fmt::format("PRAGMA user_version={}", version_));
}

Result<void> Journal::Impl::read(const std::function<void(const Row&)>& saw) {
  std::optional<std::string> fault = scan_rows(db_, saw);
  return fault ? damaged(disk_, *fault) : success();
}

void Journal::Impl::insert(const Row& row, const std::uint64_t* total) {
  SQLite::Statement& insert = statements_->insert;
  insert.bind(1, row.seq);
  insert.bind(2, row.place);
  insert.bind(3, std::string(row.kind));
  insert.bind(4, std::string(row.id));
  if (row.body) {
    // An empty text must not become NULL, which a null pointer would.
    const char* bytes = row.body->empty() ? "" : row.body->data();
    insert.bindNoCopy(5, bytes, static_cast<int>(row.body->size()));
  } else {
    insert.bind(5);
  }
  insert.bind(6, static_cast<std::int64_t>(row.sum));
  if (total != nullptr) {
    insert.bind(7, static_cast<std::int64_t>(*total));
  } else {
    insert.bind(7);
  }
  insert.exec();
  insert.reset();
}

Result<void> Journal::Impl::append(const Append& append) {
  ASSERT(!append.rows.empty());
  disk_.begin_commit();
  try {
    statements_->begin.exec();
    statements_->begin.reset();
    for (const Row& row : append.rows) {
      insert(row, &row == &append.rows.back() ? &append.total : nullptr);
    }
    for (const Superseded& row : append.sweep) {
      statements_->sweep.bind(1, row.seq);
      statements_->sweep.exec();
      statements_->sweep.reset();
    }
    statements_->commit.exec();
    statements_->commit.reset();
  } catch (const SQLite::Exception& exception) {
    Error error = trouble(disk_, "write", exception);
    roll_back();
    return error;
  }
  return success();
}

void Journal::Impl::roll_back() {
  for (SQLite::Statement* statement :
       {&statements_->begin, &statements_->insert, &statements_->sweep, &statements_->commit}) {
    statement->tryReset();
  }
  sqlite3* handle = db_.getHandle();
  if (sqlite3_get_autocommit(handle) == 0) {
    sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  disk_.take_back_commit();
}

Result<void> Journal::Impl::checkpoint() {
  int pages = 0;
  int moved = 0;
  const int code = sqlite3_wal_checkpoint_v2(db_.getHandle(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                             &pages, &moved);
  if (code != SQLITE_OK) {
    return trouble(disk_, "move the log into", SQLite::Exception(db_.getHandle(), code));
  }
  log_pages_ = pages - moved;
  return success();
}

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Journal::~Journal() = default;

Result<void> Journal::create(Disk& disk) {
  for (const std::string_view rest : {"", "-wal"}) {
    TRY_VOID(disk.remove(fmt::format("{}{}", kDraftFile, rest)));
  }
  TRY_VOID(disk.make(kDraftFile));  // SQLite would let everybody read it
  try {
    SQLite::Database db(disk.path(kDraftFile), SQLite::OPEN_READWRITE, kBusyMs, disk.vfs());
    db.exec("PRAGMA locking_mode=EXCLUSIVE");
    db.exec("PRAGMA journal_mode=MEMORY");  // the draft counts only once it is whole and renamed
    db.exec("PRAGMA synchronous=FULL");
    db.exec("PRAGMA page_size=4096");
    db.exec("BEGIN");
    db.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
    db.exec(fmt::format("PRAGMA user_version={}", newest_format()));
    found_journal(db);
    db.exec("COMMIT");
    db.exec("PRAGMA journal_mode=WAL");
  } catch (const SQLite::Exception& exception) {
    return trouble(disk, "make", exception);
  }
  TRY_VOID(disk.rename(kDraftFile, kJournalFile));
  return disk.sync_directory();
}

Result<std::unique_ptr<Journal>> Journal::open(Disk& disk,
                                               const std::function<void(const Row&)>& saw) {
  TRY_VOID(check_header(disk));
  const bool had_log = disk.exists(kLogFile);
  auto tried = [&]() -> Result<std::unique_ptr<Impl>> {
    try {
      auto impl = std::make_unique<Impl>(disk);
      TRY_VOID(impl->check_form());
      if (impl->is_old()) {
        TRY_VOID(impl->rehearse_migration());
        TRY_VOID(impl->trust());
        impl->begin();
        impl->migrate();
        TRY_VOID(impl->read(saw));
        impl->end();
      } else {
        TRY_VOID(impl->read(saw));
        TRY_VOID(impl->trust());
      }
      impl->prepare();
      return impl;
    } catch (const SQLite::Exception& exception) {
      if (speaks_of_damage(exception)) {
        return damaged(disk, exception.what());
      }
      return trouble(disk, "open", exception);
    }
  }();
  if (!tried.ok()) {
    if (!had_log && disk.exists(kLogFile) && disk.size(kLogFile) == 0) {
      static_cast<void>(disk.remove(kLogFile).ok());  // SQLite made it in order to look
    }
    return std::move(tried).error();
  }
  return std::unique_ptr<Journal>(new Journal(std::move(tried).value()));
}

Result<void> Journal::read(const std::function<void(const Row&)>& saw) {
  try {
    return impl_->read(saw);
  } catch (const SQLite::Exception& exception) {
    return trouble(impl_->disk(), "read", exception);
  }
}

Result<void> Journal::append(const Append& append) { return impl_->append(append); }

std::int64_t Journal::log_pages() const { return impl_->log_pages(); }

Result<void> Journal::checkpoint() { return impl_->checkpoint(); }

}  // namespace berth::store
