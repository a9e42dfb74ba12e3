#include "fake/checks/machine.h"

#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace berth::fake::checks {

namespace {

std::string fake_folder() { return std::string(BERTH_BIN_DIR) + "/../fake"; }

std::string read_all(int fd) {
  std::string text;
  char part[4096];
  ssize_t got = 0;
  while ((got = read(fd, part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(got));
  return text;
}

// A temporary file that a child writes and we read: no pipe can fill up.
int scratch() { return static_cast<int>(memfd_create("output", 0)); }

[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  (void)execvp(arguments[0], arguments.data());
  _exit(127);
}

// Failed checks of the running test so far: a child inherits those of its parent.
int failures() {
  return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

}  // namespace

Ran run(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  const int out = scratch();
  const int err = scratch();
  const pid_t pid = fork();
  if (pid == 0) {
    for (const std::string& one : environment)
      (void)putenv(const_cast<char*>(one.c_str()));
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    become(words);
  }
  Ran ran;
  ran.exit = wait_for(pid);
  (void)lseek(out, 0, SEEK_SET);
  (void)lseek(err, 0, SEEK_SET);
  ran.out = read_all(out);
  ran.err = read_all(err);
  (void)close(out);
  (void)close(err);
  return ran;
}

Machine::Machine(const std::string& spec, const std::vector<std::string>& options) {
  char name[] = "/tmp/berth-fake-XXXXXX";
  folder_ = mkdtemp(name);
  state_ = folder_ + "/gpus";
  std::vector<std::string> words = {"init", spec};
  words.insert(words.end(), options.begin(), options.end());
  const Ran ran = tool(words);
  EXPECT_EQ(ran.exit, 0) << ran.err;
}

Machine::~Machine() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Ran Machine::tool(std::vector<std::string> words) const {
  words.insert(words.begin(), std::string(BERTH_BIN_DIR) + "/berth-fake-gpu");
  return run(words, {"BERTH_FAKE_STATE=" + state_});
}

std::string Machine::dump() const {
  const Ran ran = tool({"dump", "-o", "json"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  return ran.out;
}

std::uint64_t Machine::used(int device) const {
  return nlohmann::json::parse(dump())["devices"][static_cast<std::size_t>(device)]["used"]
      .get<std::uint64_t>();
}

std::string Machine::client_says(const std::function<std::string()>& body) const {
  const std::string path = folder_ + "/said";
  client([&] { std::ofstream(path) << body(); });
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

pid_t Machine::start(const std::function<void()>& body, const std::string& line) const {
  const int failed_before = failures();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  (void)setenv("BERTH_FAKE_STATE", state_.c_str(), 1);
  const std::string folder = line.empty() ? fake_folder() : fake_folder() + "/" + line;
  for (const char* library : {"/libcuda.so.1", "/libnvidia-ml.so.1"}) {
    if (dlopen((folder + library).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      (void)std::fprintf(stderr, "%s\n", dlerror());
      _exit(99);
    }
  }
  body();
  (void)std::fflush(nullptr);
  _exit(failures() > failed_before ? 1 : 0);
}

void Machine::client(const std::function<void()>& body, const std::string& line) const {
  EXPECT_EQ(wait_for(start(body, line)), 0) << "the client process has failed (see above)";
}

nlohmann::json dump_of(const Machine& machine) { return nlohmann::json::parse(machine.dump()); }

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

client::Session open_session(client::Road road, int device) {
  client::Session session;
  const char* why = "";
  EXPECT_TRUE(client::load(road, &session.calls, &why)) << why;
  EXPECT_EQ(session.open(device), 0);
  return session;
}

std::size_t free_memory(const client::Session& session) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  EXPECT_EQ(session.calls.cuMemGetInfo_v2(&free_bytes, &total), 0);
  return free_bytes;
}

void* find_symbol(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

Signal::Signal() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }

Signal::~Signal() {
  (void)close(ends_[0]);
  (void)close(ends_[1]);
}

void Signal::send() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }

bool Signal::wait() const {
  constexpr int kPatienceMs = 10'000;
  pollfd waiting{.fd = ends_[0], .events = POLLIN, .revents = 0};
  char byte = 0;
  return poll(&waiting, 1, kPatienceMs) == 1 && read(ends_[0], &byte, 1) == 1;
}

}  // namespace berth::fake::checks
