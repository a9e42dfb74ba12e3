#include "store/format.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/disk.h"
#include "store/files_test.h"
#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

// A file of format 0 as its program would have written it: rows, and nothing else. A copy that
// SQLite made of it has the journal mode "delete".
void make_format_0(const std::string& path, const std::string& journal_mode,
                   const History& history) {
  SQLite::Database db(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec("PRAGMA journal_mode=" + journal_mode);
  db.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
  db.exec(std::string(formats()[0].schema));
  SQLite::Statement insert(db, "INSERT INTO journal(kind, id, body) VALUES(?,?,?)");
  for (const std::vector<Record>& records : history) {
    for (const Record& record : records) {
      insert.bind(1, record.kind);
      insert.bind(2, record.id);
      if (record.body) {
        insert.bind(3, record.body->data(), static_cast<int>(record.body->size()));
      } else {
        insert.bind(3);
      }
      insert.exec();
      insert.reset();
    }
  }
}

int format_of(const std::string& path) {
  SQLite::Database db(path, SQLite::OPEN_READONLY);
  return db.execAndGet("PRAGMA user_version").getInt();
}

class Migration : public testing::TestWithParam<const char*> {
 protected:
  Migration() {
    make_format_0(original_.file("journal.db"), GetParam(), history_);
    files_ = read_files(original_.path());
  }

  void expect_holds_all(const TemporaryDirectory& directory) {
    {
      auto store = Store::open(brisk_options(directory.path()));
      ASSERT_TRUE(store.ok()) << store.error().to_string();
      ASSERT_EQ((*store)->load().value(), states_.back());
    }
    ASSERT_EQ(format_of(directory.file("journal.db")), newest_format());
  }

  History history_ = make_history(30, 7);
  std::vector<std::vector<Record>> states_ = states_of(history_);
  TemporaryDirectory original_;
  Files files_;
};

TEST_P(Migration, BringsAFileOfTheFirstFormatUpToDateAndKeepsRecordsAndOrder) {
  const TemporaryDirectory directory;
  write_files(directory.path(), files_);
  ASSERT_EQ(format_of(directory.file("journal.db")), 0);
  expect_holds_all(directory);
  auto store = std::move(Store::open(brisk_options(directory.path()))).value();
  Model model;
  for (const std::vector<Record>& records : history_) {
    model.apply(records);
  }
  for (const std::vector<Record>& records : make_history(20, 8)) {
    ASSERT_TRUE(store->commit(records).ok());
    model.apply(records);
  }
  EXPECT_EQ(store->load().value(), model.records());
}

TEST_P(Migration, BeginsAnewWhereTheDiskFailsItAtAnyStep) {
  class FailOnce : public FaultHook {
   public:
    DiskFault before(const DiskStep& step) override {
      if (step.deed == DiskDeed::read || ++steps != at) {
        return {};
      }
      struck = true;
      return {.error = EIO, .written = step.bytes.size() / 2};
    }

    std::size_t at = 0;
    std::size_t steps = 0;
    bool struck = false;
  };

  for (std::size_t at = 1;; ++at) {
    SCOPED_TRACE(fmt::format("step {} fails", at));
    const TemporaryDirectory directory;
    write_files(directory.path(), files_);
    FailOnce disk;
    disk.at = at;
    {
      const auto opened = Store::open(brisk_options(directory.path(), &disk));
      if (!opened.ok()) {
        ASSERT_EQ(opened.error().code(), ErrorCode::unavailable) << opened.error().to_string();
      }
    }
    if (!disk.struck) {
      EXPECT_GT(at, 10U);
      break;
    }
    ASSERT_NO_FATAL_FAILURE(expect_holds_all(directory));
  }
}

TEST_P(Migration, RefusesADamagedOldFileAndLeavesItAlone) {
  Files bent = files_;
  std::string& bytes = bent.at("journal.db");
  const std::size_t page = 4'096;  // the root of the table
  std::memset(bytes.data() + page, 0, 64);
  const TemporaryDirectory directory;
  write_files(directory.path(), bent);
  const auto opened = Store::open({.directory = directory.path()});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::conflict);
  EXPECT_TRUE(read_files(directory.path()) == bent);
}

TEST_P(Migration, RefusesAnOldFileWithRowsThatCannotBeAndLeavesItAlone) {
  const TemporaryDirectory directory;
  make_format_0(directory.file("journal.db"), GetParam(), {{{"", "a record without a kind", "x"}}});
  const Files before = read_files(directory.path());
  const auto opened = Store::open({.directory = directory.path()});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::conflict) << opened.error().to_string();
  EXPECT_TRUE(read_files(directory.path()) == before);
}

INSTANTIATE_TEST_SUITE_P(Store, Migration, testing::Values("wal", "delete"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(Format, OnlyTheNewestHasNoStepToTheNext) {
  for (const Format& format : formats()) {
    EXPECT_EQ(format.to_next == nullptr, &format == &formats().back());
    EXPECT_TRUE(format.schema.starts_with("CREATE TABLE journal ("));
  }
}

}  // namespace
}  // namespace berth::store
