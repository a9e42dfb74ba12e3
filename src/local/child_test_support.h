// Real processes for tests: started by fork, told when to go on, and gone at the end of the test.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "local/processes.h"

namespace berth::local {

// What a child of a test does; it tells numbers (pids) by `tell` and ends when it returns.
using Tell = std::function<void(std::int64_t)>;

class Child {
 public:
  explicit Child(const std::function<void(const Tell&)>& work) {
    int told[2] = {-1, -1};
    EXPECT_EQ(pipe(told), 0);
    pid_ = fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) {
      close(told[0]);
      work([&](std::int64_t number) {
        if (write(told[1], &number, sizeof number) != sizeof number) _exit(99);
      });
      _exit(0);
    }
    close(told[1]);
    told_ = told[0];
  }
  ~Child() {
    if (told_ >= 0) close(told_);
    if (pid_ > 0) end(SIGKILL);
    for (const std::int64_t other : others_)
      kill(static_cast<pid_t>(other), SIGKILL);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        told_(std::exchange(other.told_, -1)),
        others_(std::exchange(other.others_, {})) {}

  std::int64_t pid() const { return pid_; }

  // What the child told next; -1: it ended without.
  std::int64_t next() const {
    std::int64_t number = -1;
    return read(told_, &number, sizeof number) == sizeof number ? number : -1;
  }

  // The next number is the pid of another process, which is killed at the end of the test.
  std::int64_t next_process() {
    others_.push_back(next());
    EXPECT_GT(others_.back(), 0);
    return others_.back();
  }

  // Kills and collects it; its status as of waitpid.
  int end(int signal) {
    kill(static_cast<pid_t>(pid_), signal);
    return collect();
  }

  int collect() {
    int status = -1;
    while (waitpid(static_cast<pid_t>(pid_), &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int told_ = -1;
  std::vector<std::int64_t> others_;
};

[[noreturn]] inline void sleep_for_ever() {
  for (;;)
    pause();
}

// Becomes a program that lasts, with exactly this environment.
[[noreturn]] inline void become_sleep(const std::vector<std::string>& environment) {
  std::vector<char*> entries;
  for (const std::string& entry : environment)
    entries.push_back(const_cast<char*>(entry.c_str()));  // NOLINT: execve takes them so
  entries.push_back(nullptr);
  char program[] = "sleep";
  char seconds[] = "1000";
  char* words[] = {program, seconds, nullptr};
  execve("/bin/sleep", words, entries.data());
  _exit(127);
}

// Waits, at most some seconds, until it is so.
inline bool soon(const std::function<bool()>& is_so) {
  for (int i = 0; i < 2000; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

inline bool runs_program(std::int64_t pid, const std::string& name) {
  return soon([&] {
    const Processes processes;
    const Process* process = processes.find(pid);
    return process != nullptr && process->name == name;
  });
}

inline bool ended(std::int64_t pid) {
  return soon([&] {
    const Processes processes;
    const Process* process = processes.find(pid);
    return process == nullptr || !process->lives();
  });
}

// While one lives, orphans below this process come to it (as to an init), and it can collect them.
class Subreaper {
 public:
  Subreaper() { EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }
  ~Subreaper() {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;
};

// A folder of one's own, gone at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = testing::TempDir() + "berth_local_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(folder_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? folder_ : folder_ + "/" + name;
  }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }

 private:
  std::string folder_;
};

}  // namespace berth::local
