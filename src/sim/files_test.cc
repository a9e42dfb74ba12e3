#include "sim/files.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::sim {
namespace {

class OutputFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/berth_files_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  std::string folder_;
};

TEST_F(OutputFiles, BecomeVisibleWithCommitOnly) {
  {
    OutputFile file = OutputFile::create(path("a")).value();
    ASSERT_TRUE(file.write("half").ok());
    EXPECT_FALSE(std::filesystem::exists(path("a")));
  }
  EXPECT_THAT(names(), testing::IsEmpty());
  OutputFile file = OutputFile::create(path("a")).value();
  ASSERT_TRUE(file.write("one").ok());
  ASSERT_TRUE(file.write(" two").ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(read_input_file(path("a")).value(), "one two");
  EXPECT_THAT(names(), testing::ElementsAre("a"));
}

TEST_F(OutputFiles, ReplaceWhatIsThereAndKeepALink) {
  std::ofstream(path("a")) << "old";
  std::filesystem::create_symlink("a", path("link"));
  OutputFile file = OutputFile::create(path("link")).value();
  ASSERT_TRUE(file.write("new").ok());
  EXPECT_EQ(read_input_file(path("a")).value(), "old");
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(read_input_file(path("a")).value(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_THAT(names(), testing::ElementsAre("a", "link"));
}

TEST_F(OutputFiles, OfTwoAtOnceTheLastOneStaysWhole) {
  OutputFile first = OutputFile::create(path("a")).value();
  OutputFile second = OutputFile::create(path("a")).value();
  ASSERT_TRUE(first.write("first, which is longer").ok());
  ASSERT_TRUE(second.write("second").ok());
  ASSERT_TRUE(first.commit().ok());
  ASSERT_TRUE(second.commit().ok());
  EXPECT_EQ(read_input_file(path("a")).value(), "second");
  EXPECT_THAT(names(), testing::ElementsAre("a"));
}

TEST_F(OutputFiles, LeaveNothingBehindWhereTheProcessIsKilled) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto file = OutputFile::create(path("a"));
    if (!file.ok() || !file->write("half").ok()) _exit(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_THAT(names(), testing::IsEmpty());
}

TEST_F(OutputFiles, SayAtOnceWhyAPathCannotBeWritten) {
  EXPECT_THAT(OutputFile::create(path("no/such")).error().message(),
              testing::HasSubstr("no/such: cannot be written: No such file or directory"));
  EXPECT_THAT(OutputFile::create(folder_).error().message(),
              testing::HasSubstr("it is a directory"));
  EXPECT_THAT(OutputFile::create("").error().message(), testing::HasSubstr("the path is empty"));
}

}  // namespace
}  // namespace berth::sim
