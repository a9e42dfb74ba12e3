// What every test here needs: a machine with fake GPUs in a folder of its own, the tool, and
// clients that are processes (the driver is one per process, and so is its truth).
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json_fwd.hpp>

#include "clients/families.h"

namespace berth::fake::checks {

struct Ran {
  int exit = -1;
  std::string out;
  std::string err;
};

// Runs a program to its end. `environment` is added to ours as NAME=VALUE.
Ran run(const std::vector<std::string>& words, const std::vector<std::string>& environment = {});

class Machine {
 public:
  // `berth-fake-gpu init SPEC OPTIONS…`; fails the test if that fails.
  explicit Machine(const std::string& spec, const std::vector<std::string>& options = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const std::string& path() const { return state_; }
  std::string folder() const { return folder_; }
  Ran tool(std::vector<std::string> words) const;
  // The truth: `dump -o json`.
  std::string dump() const;
  std::uint64_t used(int device = 0) const;

  // Runs `body` in a new process that sees this machine, with the driver library of `line` ("" =
  // every name). What fails in there fails the test.
  void client(const std::function<void()>& body, const std::string& line = "") const;
  // The same for what a client has to tell: the text that `body` returns there.
  std::string client_says(const std::function<std::string()>& body) const;
  // The same without waiting: the process lives until it is told to go on, and `body` may block.
  pid_t start(const std::function<void()>& body, const std::string& line = "") const;

 private:
  std::string folder_;
  std::string state_;
};

nlohmann::json dump_of(const Machine& machine);

// Waits for a process; its exit status, or -signal.
int wait_for(pid_t pid);
// A session on device 0 by dlsym; fails the test if the driver does not come up.
client::Session open_session(client::Road road = client::Road::dlsym_handle, int device = 0);
std::size_t free_memory(const client::Session& session);
// A function of a library that is loaded: symbol<int(unsigned)>("libcuda.so.1", "cuInit").
void* find_symbol(const char* library, const char* name);
template <class Function>
Function* symbol(const char* library, const char* name) {
  return reinterpret_cast<Function*>(find_symbol(library, name));
}

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;
inline constexpr int kOutOfMemory = 2;

// Lets one process tell another that something has happened.
class Signal {
 public:
  Signal();
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void send() const;
  // False when nothing came within ten seconds.
  bool wait() const;

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace berth::fake::checks
