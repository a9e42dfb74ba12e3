// The kernel's own refusals: a file system that is full or read-only, a file that may not grow.

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
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

// Runs in a child what would harm this process. Returns what the child says: "" if all is well.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return "no pipe";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string said = body();
    const ssize_t written = ::write(ends[1], said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? said
                                                       : fmt::format("ended with {}", status);
}

constexpr const char* kNoNamespace = "no mount namespace";

// A small tmpfs on the directory, which nobody but the calling process sees.
bool mount_small_disk(const std::string& directory) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=2m") == 0;
}

bool remount(const std::string& directory, unsigned long flags) {
  return ::mount("tmpfs", directory.c_str(), "tmpfs", MS_REMOUNT | flags, "size=2m") == 0;
}

// Writes until there is no room.
void fill(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4'096, 'b');
  while (::write(file, block.data(), block.size()) > 0) {
  }
  ::close(file);
}

std::vector<Record> big_record(int number) {
  return {{"lease", fmt::format("id-{}", number), std::string(20'000, 'x')}};
}

// Commits until one fails. Returns its message, or "" if a hundred did not.
std::string commit_until_refused(Store& store, Model& model) {
  for (int number = 0; number < 100; ++number) {
    const std::vector<Record> records = big_record(number);
    if (const Result<void> done = store.commit(records); !done.ok()) {
      return done.error().code() == ErrorCode::unavailable ? done.error().message() : "wrong code";
    }
    model.apply(records);
  }
  return "";
}

// Whether it holds what the model holds, after a commit that must succeed, and when opened anew.
std::string mended(std::unique_ptr<Store> store, const std::string& directory, Model& model) {
  if (store->load().value() != model.records()) {
    return "what was refused is there, or what was not is gone";
  }
  const std::vector<Record> records = big_record(1'000);
  if (const Result<void> done = store->commit(records); !done.ok()) {
    return "does not work again: " + done.error().message();
  }
  model.apply(records);
  if (store->load().value() != model.records()) {
    return "the commit after is not there";
  }
  store.reset();
  auto again = Store::open({.directory = directory});
  if (!again.ok()) {
    return again.error().message();
  }
  return (*again)->load().value() == model.records() ? "" : "opened anew it holds something else";
}

std::string outlive_a_full_disk(const std::string& directory) {
  if (!mount_small_disk(directory)) {
    return kNoNamespace;
  }
  auto opened = Store::open({.directory = directory, .checkpoint_pages = 20});
  if (!opened.ok()) {
    return opened.error().message();
  }
  Model model;
  fill(directory + "/ballast");
  const std::string refusal = commit_until_refused(**opened, model);
  if (refusal.find("the disk is full; free some space there") == std::string::npos) {
    return "refused with: " + refusal;
  }
  ::unlink((directory + "/ballast").c_str());
  return mended(std::move(opened).value(), directory, model);
}

std::string outlive_a_read_only_mount(const std::string& directory) {
  if (!mount_small_disk(directory)) {
    return kNoNamespace;
  }
  Model model;
  {
    auto store = std::move(Store::open({.directory = directory})).value();
    const std::vector<Record> records = big_record(1);
    if (!store->commit(records).ok()) {
      return "the first commit failed";
    }
    model.apply(records);
  }
  const Files before = read_files(directory);
  if (!remount(directory, MS_RDONLY)) {
    return fmt::format("remount: {}", strerror(errno));
  }
  const auto refused = Store::open({.directory = directory});
  if (refused.ok() || refused.error().code() != ErrorCode::unavailable ||
      refused.error().message().find("Read-only file system") == std::string::npos) {
    return refused.ok() ? "opened" : refused.error().message();
  }
  if (read_files(directory) != before || !remount(directory, 0)) {
    return "files changed, or cannot be written again";
  }
  auto opened = Store::open({.directory = directory});
  return opened.ok() ? mended(std::move(opened).value(), directory, model)
                     : opened.error().message();
}

// write(2) fails with EFBIG where a file would grow beyond what the process may.
std::string outlive_a_file_size_limit(const std::string& directory) {
  ::signal(SIGXFSZ, SIG_IGN);
  auto opened = Store::open({.directory = directory, .checkpoint_pages = 20});
  if (!opened.ok()) {
    return opened.error().message();
  }
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit low{200'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  Model model;
  const std::string refusal = commit_until_refused(**opened, model);
  if (refusal.find("File too large") == std::string::npos) {
    return "refused with: " + refusal;
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  return mended(std::move(opened).value(), directory, model);
}

void expect_well(const std::string& said) {
  if (said == kNoNamespace) {
    std::cerr << "NOT TESTED: a real full or read-only disk needs the right to mount (root)\n";
    GTEST_SKIP() << "needs the right to mount in a namespace of its own";
  }
  EXPECT_EQ(said, "");
}

TEST(RealDisk, IsFullThenHasRoomAgain) {
  const TemporaryDirectory directory;
  expect_well(in_child([&] { return outlive_a_full_disk(directory.path()); }));
}

TEST(RealDisk, IsReadOnlyThenIsNot) {
  const TemporaryDirectory directory;
  expect_well(in_child([&] { return outlive_a_read_only_mount(directory.path()); }));
}

TEST(RealDisk, LetsNoFileGrowThenDoes) {
  const TemporaryDirectory directory;
  expect_well(in_child([&] { return outlive_a_file_size_limit(directory.path()); }));
}

// Another user's file: may be read, may not be written. Asked as somebody who is not root.
std::string refuse_a_file_of_another(const std::string& directory) {
  {
    auto store = std::move(Store::open({.directory = directory})).value();
  }
  constexpr uid_t kNobody = 65'534;
  if (::chmod((directory + "/journal.db").c_str(), 0444) != 0 ||
      ::chmod((directory + "/journal.lock").c_str(), 0666) != 0 ||
      ::chmod(directory.c_str(), 0777) != 0) {
    return "chmod";
  }
  if (::getuid() == 0 && ::setuid(kNobody) != 0) {
    return "setuid";
  }
  const auto opened = Store::open({.directory = directory});
  return opened.ok() ? "opened" : opened.error().message();
}

TEST(RealDisk, HasAFileThatMayOnlyBeRead) {
  const TemporaryDirectory directory;
  EXPECT_EQ(in_child([&] { return refuse_a_file_of_another(directory.path()); }),
            fmt::format("'{}' may not be written (Permission denied); see who owns it and how its "
                        "file system is mounted",
                        directory.file("journal.db")));
}

TEST(RealDisk, IsMadeForItsOwnerAlone) {
  const TemporaryDirectory above;
  const std::string directory = above.file("state");
  auto store = Store::open({.directory = directory});
  ASSERT_TRUE(store.ok()) << store.error().to_string();
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(directory).permissions(), perms::owner_all);
  const perms others = perms::group_all | perms::others_all;
  for (const char* name : {"journal.db", "journal.db-wal", "journal.lock"}) {
    const auto path = std::filesystem::path(directory) / name;
    EXPECT_EQ(std::filesystem::status(path).permissions() & others, perms::none) << name;
  }
}

}  // namespace
}  // namespace berth::store
