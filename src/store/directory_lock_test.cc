#include "store/directory_lock.h"

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(DirectoryLock, RefusesASecondProcessAndNamesTheFirst) {
  const TemporaryDirectory directory;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = Store::open({.directory = directory.path()});
    const char ok = store.ok() ? '1' : '0';
    static_cast<void>(::write(ready[1], &ok, 1));
    for (;;) {
      ::pause();
    }
  }
  char ok = '0';
  ASSERT_EQ(::read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, '1');
  const auto second = Store::open({.directory = directory.path()});
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_THAT(second.error().message(),
              MatchesRegex(fmt::format("this state directory is in use by process {} since "
                                       "....-..-..T..:..:..Z .'{}' is locked.: stop that one "
                                       "first, or choose another directory .*",
                                       child, directory.file("journal.lock"))));
  // The first was killed: nothing of it is in the way.
  EXPECT_TRUE(Store::open({.directory = directory.path()}).ok());
}

TEST(DirectoryLock, RefusesASecondStoreOfTheSameProcess) {
  const TemporaryDirectory directory;
  auto first = Store::open({.directory = directory.path()});
  ASSERT_TRUE(first.ok());
  const auto second = Store::open({.directory = directory.path()});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr(fmt::format("by process {} since", ::getpid())));
  EXPECT_TRUE((*first)->commit(std::vector<Record>{{"lease", "l-1", "x"}}).ok());
  std::move(first).value().reset();
  EXPECT_TRUE(Store::open({.directory = directory.path()}).ok());
}

TEST(DirectoryLock, TakesNoNoticeOfWhatADeadHolderLeft) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("lock");
  std::ofstream(path) << "1 2026-01-01T00:00:00Z and a long text that an older version wrote\n";
  ASSERT_TRUE(DirectoryLock::take(path).ok());
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_THAT(text, MatchesRegex(fmt::format("{} ....-..-..T..:..:..Z", ::getpid())));
}

TEST(DirectoryLock, SaysWhatIsNeededWhereThereIsNoDirectory) {
  const auto taken = DirectoryLock::take("/nonexistent/lock");
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code(), ErrorCode::unavailable);
  EXPECT_THAT(taken.error().message(), HasSubstr("the state directory must exist"));
}

}  // namespace
}  // namespace berth::store
