// The program in a test: words in, what it printed and its status out, in a folder of its own.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/program.h"

namespace berth::cli {

struct Answer {
  ExitCode code;
  std::string out;
  std::string err;
};

inline Answer run_words(CommandTable commands, const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const ExitCode code = run_program(commands, words, console);
  return {code, out.str(), err.str()};
}

inline Answer berth(const std::vector<std::string>& words) {
  return run_words(all_commands(), words);
}

using UsageError = std::pair<std::vector<std::string>, std::string>;  // words, and what is said

// Each is refused with exit 2 and nothing on stdout.
inline void expect_usage_errors(const std::string& command, const std::vector<UsageError>& cases) {
  for (const auto& [words, said] : cases) {
    std::vector<std::string> all = {command};
    all.insert(all.end(), words.begin(), words.end());
    const Answer answer = berth(all);
    EXPECT_EQ(answer.code, ExitCode::usage) << said;
    EXPECT_THAT(answer.err, testing::HasSubstr(said));
    EXPECT_EQ(answer.out, "") << said;
  }
}

// A folder that is gone at the end.
class OwnFolder {
 public:
  OwnFolder() {
    std::string pattern = testing::TempDir() + "/berth_cli_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~OwnFolder() { std::filesystem::remove_all(folder_); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& name() const { return folder_; }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // The path of the new file.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

 private:
  std::string folder_;
};

// A test of files on disk.
class BerthInAFolder : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }

  std::vector<std::string> files() const { return folder_.files(); }

  OwnFolder folder_;
};

}  // namespace berth::cli
