// A machine without a GPU for one test: a state file of the fake driver, a grant, and programs
// started under the guard.
//
//   Machine machine({.gpus = "1x16GiB", .limit = "1GiB"});
//   const Outcome seen = machine.run({"race", "2", "1000", "600", "1024"});
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "grant/directory.h"
#include "grant/spec.h"

namespace berth::guard_test {

struct Outcome {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string out;
  std::string err;
};

struct MachineSpec {
  std::string gpus = "1x16GiB";
  std::string driver = "570";
  std::string context = "16MiB";
  std::int64_t limit_mib = 1024;
  std::int64_t cap_mib = 0;  // 0: the limit
  bool closed = true;
  bool filter = false;
  int slots = 1023;
  int share = 0;  // 0: no compute limit
  int granted_devices = 1;
};

class Machine {
 public:
  explicit Machine(const MachineSpec& spec);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // guard_client under the guard; `extra` adds to the environment or takes away (empty value).
  Outcome run(const std::vector<std::string>& words,
              const std::map<std::string, std::string>& extra = {}) const;
  // Any program, under the environment of `run`.
  Outcome run_program(const std::vector<std::string>& words,
                      const std::map<std::string, std::string>& extra = {}) const;
  // berth-fake-gpu with the machine's state.
  Outcome fake(const std::vector<std::string>& words) const;

  std::string folder() const { return folder_; }
  std::string grant_directory() const { return folder_ + "/grant"; }
  std::string state_file() const { return folder_ + "/state"; }
  const std::vector<grant::Uuid>& uuids() const { return uuids_; }
  grant::GrantReading reading() const;

 private:
  std::string folder_;
  std::vector<grant::Uuid> uuids_;
};

// Runs a program to its end with exactly this environment added to ours.
Outcome run_to_end(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& environment);

// The lines of a text that contain a word.
std::vector<std::string> lines_with(const std::string& text, const std::string& word);

}  // namespace berth::guard_test
