#include "machine_test_support.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::guard_test {

namespace {

const std::string kBuild = std::string(BERTH_BIN_DIR) + "/..";

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Outcome run_to_end(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& environment) {
  char folder[] = "/tmp/guard-run-XXXXXX";
  if (mkdtemp(folder) == nullptr) return {};
  const std::string out = std::string(folder) + "/out";
  const std::string err = std::string(folder) + "/err";
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execvp's old signature
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    for (const auto& [name, value] : environment) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
    // A hang is a failure, not a wait; the long runs of make soak share their machine with others.
    alarm(std::getenv("BERTH_SOAK") != nullptr ? 3600 : 240);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = contents(out);
  outcome.err = contents(err);
  std::filesystem::remove_all(folder);
  return outcome;
}

std::vector<std::string> lines_with(const std::string& text, const std::string& word) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(word) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

Machine::Machine(const MachineSpec& spec) {
  char folder[] = "/tmp/guard-machine-XXXXXX";
  folder_ = mkdtemp(folder);
  const Outcome made =
      fake({"init", spec.gpus, "--driver", spec.driver, "--context-bytes", spec.context});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const auto dump = nlohmann::json::parse(fake({"dump", "-o", "json"}).out);
  grant::GrantSpec grant;
  grant.id = "test";
  grant.closed = spec.closed;
  grant.filter_processes = spec.filter;
  grant.slots = spec.slots;
  if (spec.share != 0) grant.share = Milli(spec.share);
  for (const auto& device : dump["devices"]) {
    uuids_.push_back(grant::parse_uuid(device["uuid"].get<std::string>()).value());
    if (static_cast<int>(grant.devices.size()) == spec.granted_devices) continue;
    const Memory limit = Memory::mib(spec.limit_mib);
    const Memory cap = spec.cap_mib != 0 ? Memory::mib(spec.cap_mib) : limit;
    grant.devices.push_back(
        {.uuid = uuids_.back(),
         .request = cap,
         .limit = limit,
         .cap = cap,
         .context_bytes = Memory::bytes(device["context_bytes"].get<std::int64_t>())});
  }
  const Result<void> created = grant::create(grant_directory(), grant);
  EXPECT_TRUE(created.ok()) << (created.ok() ? "" : created.error().to_string());
}

Machine::~Machine() { std::filesystem::remove_all(folder_); }

Outcome Machine::run(const std::vector<std::string>& words,
                     const std::map<std::string, std::string>& extra) const {
  std::vector<std::string> all = {kBuild + "/tests/guard_client"};
  all.insert(all.end(), words.begin(), words.end());
  return run_program(all, extra);
}

Outcome Machine::run_program(const std::vector<std::string>& words,
                             const std::map<std::string, std::string>& extra) const {
  std::map<std::string, std::string> environment = {
      {"BERTH_FAKE_STATE", state_file()},
      {"BERTH_GRANT_DIR", grant_directory()},
      {"LD_LIBRARY_PATH", kBuild + "/fake"},
      {"LD_PRELOAD", kBuild + "/lib/libberth_guard.so"}};
  for (const auto& [name, value] : extra)
    environment[name] = value;
  return run_to_end(words, environment);
}

Outcome Machine::fake(const std::vector<std::string>& words) const {
  std::vector<std::string> all = {kBuild + "/bin/berth-fake-gpu"};
  all.insert(all.end(), words.begin(), words.end());
  return run_to_end(all, {{"BERTH_FAKE_STATE", state_file()}});
}

grant::GrantReading Machine::reading() const {
  const auto directory = grant::GrantDirectory::open(grant_directory());
  if (!directory.ok()) {
    ADD_FAILURE() << directory.error().to_string();
    return {};
  }
  return directory->read();
}

}  // namespace berth::guard_test
