// Files that are cut short, bent, mixed, foreign or too new: a store that opens has a prefix of the
// commits; one that does not says why and what to do, and has changed nothing.

#include <SQLiteCpp/SQLiteCpp.h>
#include <cerrno>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/files_test.h"
#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

using testing::HasSubstr;

constexpr const char* kDb = "journal.db";
constexpr const char* kLog = "journal.db-wal";

class DamagedFiles : public testing::Test {
 protected:
  // Copies of both files after every commit of a history, as a kill would leave them.
  DamagedFiles() {
    const TemporaryDirectory directory;
    {
      auto store = std::move(Store::open(brisk_options(directory.path()))).value();
      for (const std::vector<Record>& records : history_) {
        EXPECT_TRUE(store->commit(records).ok());
        moments_.push_back(read_files(directory.path()));
        if (moments_.size() % 5 == 0) {
          EXPECT_TRUE(store->tidy().ok());
        }
      }
      EXPECT_GT(store->figures().superseded_rows, 0);
    }
    moments_.push_back(read_files(directory.path()));
  }

  void expect_prefix_or_refusal(const Files& files, const std::string& what) {
    const TemporaryDirectory directory;
    write_files(directory.path(), files);
    Result<std::unique_ptr<Store>> opened = Store::open(brisk_options(directory.path()));
    if (!opened.ok()) {
      ++refused_;
      ASSERT_EQ(opened.error().code(), ErrorCode::conflict) << what << opened.error().to_string();
      ASSERT_THAT(opened.error().message(), HasSubstr("nothing was changed")) << what;
      ASSERT_TRUE(read_files(directory.path()) == files) << what << ": refused, yet changed";
      return;
    }
    ++opened_;
    Result<std::vector<Record>> loaded = (*opened)->load();
    ASSERT_TRUE(loaded.ok()) << what << loaded.error().to_string();
    ASSERT_NE(std::ranges::find(states_, *loaded), states_.end()) << what << ": not a prefix";
    const std::vector<Record> more = {{"job", "after", "x"}};
    ASSERT_TRUE((*opened)->commit(more).ok()) << what;
  }

  History history_ = make_history(60, 5);
  std::vector<std::vector<Record>> states_ = states_of(history_);
  std::vector<Files> moments_;
  int opened_ = 0;
  int refused_ = 0;
};

TEST_F(DamagedFiles, CutShortAnywhereGiveAPrefixOrAreRefusedUntouched) {
  for (const std::size_t moment :
       {std::size_t{3}, std::size_t{33}, std::size_t{58}, moments_.size() - 1}) {
    for (const char* name : {kDb, kLog}) {
      const Files& whole = moments_[moment];
      const std::size_t size = whole.contains(name) ? whole.at(name).size() : 0;
      std::vector<std::size_t> sizes;
      for (std::size_t page = 0; page * 4'096 < size; ++page) {
        const std::size_t log = page == 0 ? 0 : 32 + (page - 1) * 4'120;
        const std::size_t boundary = name == kDb ? page * 4'096 : log;
        for (const std::size_t odd :
             std::initializer_list<std::size_t>{0, 1, 24, 100, 512, 1'777, 4'095}) {
          sizes.push_back(boundary + odd);
        }
      }
      for (const std::size_t cut : sizes) {
        if (cut < size && !HasFatalFailure()) {
          Files files = whole;
          files[name].resize(cut);
          expect_prefix_or_refusal(
              files, fmt::format("{} cut to {} of {} at moment {}: ", name, cut, size, moment));
        }
      }
    }
  }
  EXPECT_GT(opened_, 50);
  EXPECT_GT(refused_, 50);
}

TEST_F(DamagedFiles, WithOneByteChangedGiveAPrefixOrAreRefusedUntouched) {
  std::mt19937 random(6);
  for (int round = 0; round < 800 && !HasFatalFailure(); ++round) {
    Files files = moments_[random() % moments_.size()];
    const char* name = random() % 2 == 0 || !files.contains(kLog) ? kDb : kLog;
    std::string& bytes = files[name];
    if (bytes.empty()) {
      continue;
    }
    // Half of them near the beginning, where the headers are.
    const bool anywhere = random() % 2 == 0;
    const std::size_t range = anywhere ? bytes.size() : std::min<std::size_t>(bytes.size(), 200);
    const std::size_t at = random() % range;
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1U << (random() % 8)));
    expect_prefix_or_refusal(files, fmt::format("byte {} of {}, round {}: ", at, name, round));
  }
  EXPECT_GT(opened_, 50);
  EXPECT_GT(refused_, 50);
}

TEST_F(DamagedFiles, WithAnyByteOfTheHeaderChangedGiveAPrefixOrAreRefusedUntouched) {
  for (std::size_t at = 0; at < 100 && !HasFatalFailure(); ++at) {
    for (const unsigned bit : {0U, 1U, 2U, 7U}) {
      Files files = moments_.back();
      std::string& bytes = files.at(kDb);
      bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1U << bit));
      expect_prefix_or_refusal(files, fmt::format("bit {} of byte {}: ", bit, at));
    }
  }
  EXPECT_GT(opened_, 30);
  EXPECT_GT(refused_, 50);
}

TEST_F(DamagedFiles, OfTwoAgesPutTogetherGiveAPrefixOrAreRefusedUntouched) {
  for (std::size_t first = 0; first < moments_.size(); first += 3) {
    for (std::size_t second = 0; second < moments_.size() && !HasFatalFailure(); second += 2) {
      Files files = {{kDb, moments_[first].at(kDb)}};
      if (moments_[second].contains(kLog)) {
        files[kLog] = moments_[second].at(kLog);
      }
      expect_prefix_or_refusal(
          files, fmt::format("the file of moment {}, the log of moment {}: ", first, second));
    }
  }
  EXPECT_GT(opened_, 50);
  EXPECT_GT(refused_, 50);
}

TEST_F(DamagedFiles, OverwrittenWithRowsThatWereNeverCommittedAreRefused) {
  const TemporaryDirectory directory;
  const auto refusal_after = [&](const std::string& sql) {
    write_files(directory.path(), moments_.back());
    {
      SQLite::Database db(directory.file(kDb), SQLite::OPEN_READWRITE);
      db.exec(sql);
    }
    const Files before = read_files(directory.path());
    Result<std::unique_ptr<Store>> opened = Store::open({.directory = directory.path()});
    EXPECT_FALSE(opened.ok()) << sql;
    EXPECT_TRUE(read_files(directory.path()) == before) << sql;
    return opened.ok() ? "opened" : opened.error().message();
  };
  EXPECT_THAT(
      refusal_after("UPDATE journal SET body=x'00' WHERE seq=(SELECT max(seq) FROM journal)"),
      HasSubstr("the check sum of row"));
  EXPECT_THAT(refusal_after("DELETE FROM journal WHERE seq=(SELECT max(seq)-1 FROM journal)"),
              HasSubstr("some are missing or of another age"));
  EXPECT_THAT(refusal_after("DELETE FROM journal"), HasSubstr("it has no rows"));
  EXPECT_THAT(refusal_after("UPDATE journal SET total=total+1"), HasSubstr("some are missing"));
  EXPECT_THAT(refusal_after("UPDATE journal SET seq=seq+1000"), HasSubstr("check sum"));
  EXPECT_THAT(refusal_after("CREATE TABLE more(a)"),
              HasSubstr("it has not just the table of format 1"));
  EXPECT_THAT(refusal_after("CREATE TRIGGER t AFTER INSERT ON journal BEGIN SELECT 1; END"),
              HasSubstr("it has not just the table of format 1"));
  EXPECT_THAT(refusal_after("ALTER TABLE journal RENAME TO diary"),
              HasSubstr("it has not just the table of format 1"));
}

}  // namespace

TEST(Store, RefusesAFileOfANewerVersionAndLeavesItAlone) {
  const TemporaryDirectory directory;
  {
    auto store = std::move(Store::open({.directory = directory.path()})).value();
  }
  {
    SQLite::Database db(directory.file(kDb), SQLite::OPEN_READWRITE);
    db.exec("PRAGMA user_version=7");
    db.exec("CREATE TABLE from_the_future(a)");
  }
  const Files before = read_files(directory.path());
  const Result<std::unique_ptr<Store>> opened = Store::open({.directory = directory.path()});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::conflict);
  EXPECT_EQ(opened.error().message(),
            fmt::format("'{}' was written by a newer Berth (format 7, this one knows up to 1); "
                        "nothing was changed. Start that version again, or move the file aside to "
                        "start with an empty ledger",
                        directory.file(kDb)));
  EXPECT_TRUE(read_files(directory.path()) == before);
}

TEST(Store, RefusesWhatIsNotItsOwn) {
  const auto refusal_of = [](const Files& files) {
    const TemporaryDirectory directory;
    write_files(directory.path(), files);
    const Result<std::unique_ptr<Store>> opened = Store::open({.directory = directory.path()});
    EXPECT_FALSE(opened.ok());
    EXPECT_TRUE(read_files(directory.path()) == files);
    return opened.ok() ? "opened" : opened.error().message();
  };
  const TemporaryDirectory directory;
  {
    SQLite::Database db(directory.file("other.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("CREATE TABLE a(b)");
  }
  const std::string other = read_files(directory.path()).at("other.db");
  EXPECT_THAT(refusal_of({{kDb, other}}), HasSubstr("is an SQLite file of another program"));
  EXPECT_THAT(refusal_of({{kDb, ""}}), HasSubstr("is damaged: it is empty"));
  EXPECT_THAT(refusal_of({{kDb, "SQLite"}}), HasSubstr("it ends after 6 bytes"));
  EXPECT_THAT(refusal_of({{kDb, std::string(5'000, 'x')}}),
              HasSubstr("it does not begin as an SQLite file does"));
  EXPECT_THAT(refusal_of({{kLog, ""}}), HasSubstr("is missing, but its log"));
}

// Such a copy has no log. Were it written without one, commits would not be durable.
class RestoredCopy : public testing::Test {
 protected:
  RestoredCopy() {
    const TemporaryDirectory original;
    {
      auto store = std::move(Store::open({.directory = original.path()})).value();
      EXPECT_TRUE(store->commit(records_).ok());
    }
    SQLite::Database(original.file(kDb), SQLite::OPEN_READWRITE)
        .exec(fmt::format("VACUUM INTO '{}'", directory_.file(kDb)));
    copy_ = read_files(directory_.path());
    EXPECT_EQ(copy_.at(kDb)[18], 1);  // "legacy" of the file format's write version
  }

  std::vector<Record> records_ = {{"lease", "l-1", "x"}, {"lease", "l-2", ""}};
  TemporaryDirectory directory_;
  Files copy_;
};

TEST_F(RestoredCopy, IsOpenedAndGetsALog) {
  auto store = Store::open({.directory = directory_.path()});
  ASSERT_TRUE(store.ok()) << store.error().to_string();
  EXPECT_EQ((*store)->load().value(), records_);
  EXPECT_TRUE((*store)->commit(records_).ok());
  EXPECT_EQ(read_files(directory_.path()).at(kDb)[18], 2);
}

TEST_F(RestoredCopy, IsNeverWrittenWithoutALogWhateverTheDiskDoes) {
  class FailOnce : public FaultHook {
   public:
    explicit FailOnce(std::size_t at) : at_(at) {}

    DiskFault before(const DiskStep& step) override {
      return step.deed != DiskDeed::read && ++steps == at_ ? DiskFault{.error = EIO} : DiskFault{};
    }

    std::size_t steps = 0;

   private:
    std::size_t at_;
  };

  for (std::size_t at = 1;; ++at) {
    const TemporaryDirectory directory;
    write_files(directory.path(), copy_);
    FailOnce disk(at);
    auto store = Store::open(brisk_options(directory.path(), &disk));
    if (store.ok()) {
      EXPECT_EQ(read_files(directory.path()).at(kDb)[18], 2);
      std::move(store).value().reset();
    } else {
      EXPECT_EQ(store.error().code(), ErrorCode::unavailable) << store.error().to_string();
    }
    ASSERT_EQ(Store::open(brisk_options(directory.path())).value()->load().value(), records_);
    if (disk.steps < at) {
      EXPECT_GT(at, 3U);
      break;
    }
  }
}

}  // namespace berth::store
