// A disk that fails, is full, may not be written, tears writes, or is slow.

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/files_test.h"
#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

// Fails the steps number `from` to `until - 1`; reads count only if asked for.
class FailingDisk : public FaultHook {
 public:
  DiskFault before(const DiskStep& step) override {
    if ((step.deed == DiskDeed::read) != reads) {
      return {};
    }
    ++steps;
    if (steps < from || steps >= until) {
      return {};
    }
    ++failed;
    return {.error = error, .written = step.bytes.size() * torn_percent / 100};
  }

  int error = EIO;
  std::size_t torn_percent = 0;
  bool reads = false;
  std::size_t from = 0;
  std::size_t until = 0;
  std::size_t steps = 0;
  std::size_t failed = 0;
};

struct Fault {
  const char* name;
  int error;
  std::size_t torn_percent;
};

class BrokenDisk : public testing::TestWithParam<Fault> {
 protected:
  void SetUp() override {
    disk_.error = GetParam().error;
    disk_.torn_percent = GetParam().torn_percent;
  }

  // Opens it, again and again where the disk fails that.
  std::unique_ptr<Store> open(const TemporaryDirectory& directory) {
    for (;;) {
      const std::size_t failed = disk_.failed;
      Result<std::unique_ptr<Store>> opened = Store::open(brisk_options(directory.path(), &disk_));
      if (opened.ok()) {
        return std::move(opened).value();
      }
      EXPECT_EQ(opened.error().code(), ErrorCode::unavailable) << opened.error().to_string();
      EXPECT_GT(disk_.failed, failed) << opened.error().to_string();
      if (disk_.failed == failed) {
        return nullptr;
      }
    }
  }

  // One commit, tried until the disk lets it. Whatever a failed one did must not be seen.
  void commit(Store& store, const std::vector<Record>& records, Model& model) {
    for (int tries = 0;; ++tries) {
      const std::size_t failed = disk_.failed;
      const Result<void> done = store.commit(records);
      if (done.ok()) {
        break;
      }
      EXPECT_EQ(done.error().code(), ErrorCode::unavailable);
      ASSERT_GT(disk_.failed, failed) << "failed by itself: " << done.error().to_string();
      ASSERT_LT(tries, 100);
      expect_holds(store, model);
      if (disk_.until == disk_.from + 1) {
        expect_gone_after_kill(model);
      }
    }
    model.apply(records);
  }

  static void expect_holds(Store& store, const Model& model) {
    Result<std::vector<Record>> loaded = store.load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    ASSERT_EQ(*loaded, model.records());
  }

  // A process killed right after a commit failed must not find it done when it comes back.
  void expect_gone_after_kill(const Model& model) {
    const TemporaryDirectory copy;
    write_files(copy.path(), read_files(directory_));
    Result<std::unique_ptr<Store>> opened = Store::open(brisk_options(copy.path()));
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    expect_holds(**opened, model);
  }

  // The whole history while steps `from` to `until - 1` fail. Returns how many steps there were.
  std::size_t play(std::size_t from, std::size_t until) {
    disk_.steps = 0;
    disk_.from = from;
    disk_.until = until;
    const TemporaryDirectory directory;
    directory_ = directory.path();
    Model model;
    {
      const std::unique_ptr<Store> store = open(directory);
      for (std::size_t i = 0; i < history_.size() && !HasFatalFailure(); ++i) {
        commit(*store, history_[i], model);
        if (i % 3 == 0) {
          static_cast<void>(store->tidy().ok());
        }
      }
      expect_holds(*store, model);
    }
    const std::size_t steps = disk_.steps;
    disk_.until = 0;
    const std::unique_ptr<Store> store = open(directory);
    expect_holds(*store, model);
    return steps;
  }

  History history_ = make_history(18, 2);
  FailingDisk disk_;
  std::string directory_;
};

TEST_P(BrokenDisk, LosesAndKeepsNothingByMistakeWhicheverSingleStepFails) {
  std::size_t steps = 2;
  std::size_t position = 1;
  for (; position < steps && !HasFatalFailure(); ++position) {
    SCOPED_TRACE(fmt::format("step {} fails", position));
    steps = play(position, position + 1);
  }
  EXPECT_GT(position, 120U);
  EXPECT_GE(disk_.failed, position - 1);
}

TEST_P(BrokenDisk, WorksAgainWithoutReopeningOnceALongFaultIsGone) {
  for (std::size_t position = 1; position < 120 && !HasFatalFailure(); position += 3) {
    SCOPED_TRACE(fmt::format("steps from {} fail", position));
    play(position, position + 12);
  }
}

INSTANTIATE_TEST_SUITE_P(Store, BrokenDisk,
                         testing::Values(Fault{"InputOutputError", EIO, 0},
                                         Fault{"Full", ENOSPC, 0}, Fault{"FullAndTorn", ENOSPC, 60},
                                         Fault{"Torn", EIO, 40}, Fault{"ReadOnly", EROFS, 0}),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST(Store, SaysUnavailableWhereReadingFailsAndOpensOnceThatIsOver) {
  const TemporaryDirectory directory;
  Model model;
  {
    auto store = std::move(Store::open(brisk_options(directory.path()))).value();
    for (const std::vector<Record>& records : make_history(20, 3)) {
      ASSERT_TRUE(store->commit(records).ok());
      model.apply(records);
    }
  }
  for (std::size_t position = 1;; ++position) {
    FailingDisk disk;
    disk.reads = true;
    disk.from = position;
    disk.until = position + 1;
    auto opened = Store::open(brisk_options(directory.path(), &disk));
    if (disk.failed == 0) {
      EXPECT_GT(position, 4U);
      break;
    }
    if (!opened.ok()) {
      EXPECT_EQ(opened.error().code(), ErrorCode::unavailable) << opened.error().to_string();
      EXPECT_NE(opened.error().message().find("Input/output error"), std::string::npos)
          << opened.error().to_string();
      continue;
    }
    auto loaded = (*opened)->load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    EXPECT_EQ(*loaded, model.records());
  }
}

TEST(Store, IsUnavailableWhileACommitCannotReadWhatItSweeps) {
  const TemporaryDirectory directory;
  const auto records_of = [](int round) {
    std::vector<Record> records;
    for (int i = 0; i < 3'000; ++i) {
      records.push_back({"lease", fmt::format("l-{}", i), std::string(1'000, 'a')});
      records.back().body->back() = static_cast<char>('a' + round);
    }
    return records;
  };
  StoreOptions options = {.directory = directory.path(), .slack_rows = 10'000};
  {
    auto store = std::move(Store::open(options)).value();
    ASSERT_TRUE(store->commit(records_of(0)).ok());
    ASSERT_TRUE(store->commit(records_of(1)).ok());
  }
  FailingDisk disk;
  options.faults = &disk;
  options.slack_rows = 0;
  auto store = std::move(Store::open(options)).value();
  disk.reads = true;
  disk.until = SIZE_MAX;
  const std::vector<Record> more = {{"lease", "new", "x"}};
  const Result<void> refused = store->commit(more);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::unavailable);
  disk.until = 0;
  EXPECT_TRUE(store->commit(more).ok());
  EXPECT_EQ(store->load().value().size(), 3'001U);
  EXPECT_LT(store->figures().superseded_rows, 3'000);
}

TEST(Store, TellsWhatIsWrongWithTheDiskAndWhatToDo) {
  const TemporaryDirectory directory;
  FailingDisk disk;
  auto store = std::move(Store::open({.directory = directory.path(), .faults = &disk})).value();
  const std::vector<Record> records = {{"lease", "l-1", "x"}};
  disk.from = disk.steps + 1;
  disk.until = SIZE_MAX;
  const auto message_of = [&](int error) {
    disk.error = error;
    return store->commit(records).error().message();
  };
  const std::string file = directory.file("journal.db");
  EXPECT_EQ(message_of(ENOSPC),
            fmt::format("cannot write '{}': database or disk is full (No space left on device): "
                        "the disk is full; free some space there",
                        file));
  EXPECT_EQ(message_of(EROFS),
            fmt::format("cannot write '{}': disk I/O error (Read-only file system): it may not be "
                        "written; see how its file system is mounted and who owns it",
                        file));
  EXPECT_EQ(message_of(EIO), fmt::format("cannot write '{}': disk I/O error (Input/output error): "
                                         "look for errors of the disk in the kernel's log",
                                         file));
  EXPECT_EQ(store->figures().failed_commits, 3U);
  disk.until = 0;
  EXPECT_TRUE(store->commit(records).ok());
}

TEST(Store, WaitsForASlowDisk) {
  class SlowDisk : public FaultHook {
   public:
    DiskFault before(const DiskStep& step) override {
      if (slow && step.deed == DiskDeed::sync) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
      }
      return {};
    }

    bool slow = false;
  };

  const TemporaryDirectory directory;
  SlowDisk disk;
  auto store = std::move(Store::open({.directory = directory.path(), .faults = &disk})).value();
  disk.slow = true;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(store->commit(std::vector<Record>{{"lease", "l-1", "x"}}).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
  disk.slow = false;
}

}  // namespace
}  // namespace berth::store
