#include "journals.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "store/store.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Clock = std::chrono::steady_clock;
using store::Record;

// Leases that come, are confirmed and go, a group at a time: of every three commits the first
// writes a text for each, the second another, and the third erases them.
class Leases {
 public:
  explicit Leases(const JournalLoad& load) : load_(load) {}

  const std::vector<Record>& next() {
    const int phase = number_ % 3;
    records_.clear();
    for (int i = 0; i < load_.group; ++i) {
      Record record{"lease", fmt::format("l-{:09}", number_ / 3 * load_.group + i), std::nullopt};
      if (phase != 2) {
        record.body = std::string(static_cast<std::size_t>(load_.body_bytes), 'x');
      }
      records_.push_back(std::move(record));
    }
    ++number_;
    return records_;
  }

 private:
  JournalLoad load_;
  int number_ = 0;
  std::vector<Record> records_;
};

// What somebody would write who had no store: an append to a table, with SQLite's own checkpoints.
class BareJournal {
 public:
  explicit BareJournal(const std::string& path)
      : db_(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    db_.exec("PRAGMA locking_mode=EXCLUSIVE");
    db_.exec("PRAGMA journal_mode=WAL");
    db_.exec("PRAGMA synchronous=FULL");
    db_.exec("CREATE TABLE journal(seq INTEGER PRIMARY KEY, kind TEXT, id TEXT, body BLOB)");
    insert_.emplace(db_, "INSERT INTO journal(kind, id, body) VALUES(?,?,?)");
  }

  void commit(const std::vector<Record>& records) {
    db_.exec("BEGIN IMMEDIATE");
    for (const Record& record : records) {
      insert_->bindNoCopy(1, record.kind);
      insert_->bindNoCopy(2, record.id);
      if (record.body) {
        insert_->bindNoCopy(3, record.body->data(), static_cast<int>(record.body->size()));
      } else {
        insert_->bind(3);
      }
      insert_->exec();
      insert_->reset();
    }
    db_.exec("COMMIT");
  }

 private:
  SQLite::Database db_;
  std::optional<SQLite::Statement> insert_;
};

class Stopwatch {
 public:
  template <class Work>
  void time(Work work) {
    const Clock::time_point start = Clock::now();
    work();
    seconds_.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }

  double per_second() const {
    double sum = 0;
    for (const double seconds : seconds_) {
      sum += seconds;
    }
    return static_cast<double>(seconds_.size()) / sum;
  }

  double p99_ms() {
    std::ranges::sort(seconds_);
    return seconds_[seconds_.size() * 99 / 100] * 1'000;
  }

 private:
  std::vector<double> seconds_;
};

Result<JournalSpeed> compare_in(const std::string& folder, const JournalLoad& load) {
  TRY(std::unique_ptr<store::Store> ours, store::Store::open({.directory = folder + "/store"}));
  BareJournal bare(folder + "/bare.db");
  Leases our_leases(load);
  Leases bare_leases(load);
  Stopwatch our_time;
  Stopwatch bare_time;
  Result<void> failed;
  for (int slice = 0; slice < load.slices && failed.ok(); ++slice) {
    for (int commit = 0; commit < load.slice; ++commit) {
      const std::vector<Record>& records = our_leases.next();
      our_time.time([&] {
        Result<void> done = ours->commit(records);
        if (done.ok()) {
          done = ours->tidy();
        }
        if (!done.ok()) {
          failed = std::move(done);
        }
      });
    }
    for (int commit = 0; commit < load.slice; ++commit) {
      const std::vector<Record>& records = bare_leases.next();
      bare_time.time([&] { bare.commit(records); });
    }
  }
  TRY_VOID(std::move(failed));
  return JournalSpeed{.store_per_s = our_time.per_second(),
                      .bare_per_s = bare_time.per_second(),
                      .store_p99_ms = our_time.p99_ms(),
                      .bare_p99_ms = bare_time.p99_ms()};
}

// On the disk of the work tree, where `berth serve` is measured, too.
Result<std::vector<Row>> run_store(const Context& context) {
  std::vector<double> shares;
  std::vector<double> commits;
  double bare = 0;
  const std::string directory = std::filesystem::exists("build") ? "build" : ".";
  for (int repetition = 0; repetition < context.repetitions; ++repetition) {
    TRY(const JournalSpeed speed, compare_journals(directory, {}));
    shares.push_back(speed.store_per_s / speed.bare_per_s);
    commits.push_back(speed.store_per_s);
    bare = std::max(bare, speed.bare_per_s);
  }
  return std::vector<Row>{
      {.name = "store.vs_sqlite",
       .unit = "share",
       .figures = {best_high("", shares, {GoalKind::at_least, 0.8})}},
      {.name = "store.commits_per_s",
       .unit = "1/s",
       .figures = {best_high("", commits, {})},
       .baseline = bare},
  };
}

const Measurement kMeasurements[] = {
    {"store", "commits of 16 records against bare SQLite, same bytes, pragmas, grouping",
     run_store},
};

}  // namespace

Result<JournalSpeed> compare_journals(const std::string& directory, const JournalLoad& load) {
  std::string folder = directory + "/journals-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return Error(ErrorCode::unavailable, fmt::format("cannot make a folder in '{}'", directory));
  }
  auto speed = [&]() -> Result<JournalSpeed> {
    try {
      return compare_in(folder, load);
    } catch (const SQLite::Exception& exception) {
      return Error(ErrorCode::unavailable, fmt::format("bare SQLite: {}", exception.what()));
    }
  }();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return speed;
}

std::span<const Measurement> store_measurements() { return kMeasurements; }

}  // namespace berth::bench
