// No commit returns before its sync: counted at the C library's door, not by the store itself.
//
// The functions below stand before those of the C library for the whole test program, SQLite's own
// calls included (a program's symbols come before those of the libraries it loads).

#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace {

struct Door {
  bool watched = false;
  std::set<int> dirty;  // descriptors written since their last sync
  int writes = 0;
  int syncs = 0;
};

Door& door() {
  static Door the_door;
  return the_door;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void wrote(int file) {
  if (door().watched) {
    ++door().writes;
    door().dirty.insert(file);
  }
}

void synced(int file) {
  if (door().watched) {
    ++door().syncs;
    door().dirty.erase(file);
  }
}

}  // namespace

extern "C" {

ssize_t pwrite64(int file, const void* from, std::size_t size, off64_t offset) {
  static auto* const real = next<decltype(pwrite64)>("pwrite64");
  wrote(file);
  return real(file, from, size, offset);
}

ssize_t pwrite(int file, const void* from, std::size_t size, off_t offset) {
  static auto* const real = next<decltype(pwrite)>("pwrite");
  wrote(file);
  return real(file, from, size, offset);
}

int ftruncate64(int file, off64_t size) noexcept {
  static auto* const real = next<decltype(ftruncate64)>("ftruncate64");
  wrote(file);
  return real(file, size);
}

int fdatasync(int file) {
  static auto* const real = next<decltype(fdatasync)>("fdatasync");
  const int result = real(file);
  synced(file);
  return result;
}

int fsync(int file) {
  static auto* const real = next<decltype(fsync)>("fsync");
  const int result = real(file);
  synced(file);
  return result;
}
}

namespace berth::store {
namespace {

class SyncOrder : public testing::Test {
 protected:
  ~SyncOrder() override { door() = {}; }

  // A commit, and how it left the files.
  void commit(const std::vector<Record>& records) {
    door() = {.watched = true, .dirty = {}};
    ASSERT_TRUE(store_->commit(records).ok());
    door().watched = false;
  }

  void open(StoreOptions options) { store_ = std::move(Store::open(std::move(options))).value(); }

  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(SyncOrder, ACommitReturnsAfterTheSyncOfAllThatItWrote) {
  open(brisk_options(directory_.path()));
  for (const std::vector<Record>& records : make_history(200, 9)) {
    ASSERT_NO_FATAL_FAILURE(commit(records));
    EXPECT_GE(door().writes, 2);  // a page and its header
    EXPECT_GE(door().syncs, 1);
    EXPECT_TRUE(door().dirty.empty());
    ASSERT_TRUE(store_->tidy().ok());
  }
}

TEST_F(SyncOrder, ACommitHasOneSyncAndTheFirstAfterTheLogWasMovedTwo) {
  open({.directory = directory_.path(), .checkpoint_pages = 110});
  std::vector<Record> batch;
  for (int i = 0; i < 16; ++i) {
    batch.push_back({"lease", fmt::format("id-{}", i), std::string(200, 'x')});
  }
  ASSERT_NO_FATAL_FAILURE(commit(batch));
  EXPECT_EQ(door().syncs, 3);  // one of them for the name of the new log
  const auto fill = [&] {
    int commits = 0;
    for (; store_->figures().log_pages < 110; ++commits) {
      ASSERT_NO_FATAL_FAILURE(commit(batch));
      EXPECT_EQ(door().syncs, 1);
    }
    EXPECT_GT(commits, 20);
  };
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_TRUE(store_->tidy().ok());
  EXPECT_EQ(store_->figures().log_pages, 0);
  ASSERT_NO_FATAL_FAILURE(commit(batch));
  EXPECT_EQ(door().syncs, 2);  // the log's new header, then the commit
  ASSERT_NO_FATAL_FAILURE(fill());
}

TEST_F(SyncOrder, ACommitOfNothingTouchesNothing) {
  open({.directory = directory_.path()});
  ASSERT_NO_FATAL_FAILURE(commit({}));
  ASSERT_NO_FATAL_FAILURE(commit({{"lease", "was never there", std::nullopt}}));
  EXPECT_EQ(door().writes, 0);
  EXPECT_EQ(door().syncs, 0);
}

}  // namespace
}  // namespace berth::store
