#include "cli/ensure_daemon.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/daemon_client.h"
#include "cli/usual_places.h"
#include "local/files.h"
#include "local/processes.h"
#include "net/client.h"

namespace berth::cli {

namespace {

using local::Descriptor;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLogTail = 2000;  // bytes of a log that explain a failure

struct Place {
  std::string socket;
  std::string state;
  std::string log;
};

Place own_place() {
  Place place;
  place.socket = own_socket();
  place.state = default_state_directory();
  place.log = place.state + "/serve.log";
  return place;
}

std::vector<std::string> serve_words(const Place& place, const DaemonPlan& plan) {
  std::vector<std::string> words = {"berth",   "serve",    "--listen", "unix:" + place.socket,
                                    "--state", place.state};
  words.insert(words.end(), plan.options.begin(), plan.options.end());
  return words;
}

// Variables of the work that is being started are not the daemon's.
std::vector<std::string> serve_environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool work = text.starts_with("CUDA_") || text.starts_with("NVIDIA_") ||
                      text.starts_with("BERTH_") || text.starts_with("LD_PRELOAD=");
    if (!work) kept.emplace_back(text);
  }
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words)
    list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// The daemon's pid as a grandchild tells it; its parent is init then.
Result<std::int64_t> start(const Place& place, const DaemonPlan& plan) {
  std::vector<std::string> words = serve_words(place, plan);
  std::vector<std::string> environment = serve_environment();
  const std::vector<char*> word_list = pointers(words);
  const std::vector<char*> environment_list = pointers(environment);
  const Descriptor log(open(place.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return local::system_error("write the daemon's log", place.log, errno);
  TRY(local::Pipe told, local::make_pipe());
  const pid_t first = fork();
  if (first < 0)
    return Error(ErrorCode::exhausted, "cannot start the daemon: " + local::errno_text(errno));
  if (first == 0) {
    setsid();
    const pid_t second = fork();
    if (second != 0) {
      const auto number = static_cast<std::int64_t>(second);
      [[maybe_unused]] const ssize_t written = write(told.write.get(), &number, sizeof number);
      _exit(0);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(log.get(), STDOUT_FILENO);
    dup2(log.get(), STDERR_FILENO);
    close_range(3, ~0U, 0);
    if (chdir("/") != 0) _exit(127);
    execve("/proc/self/exe", word_list.data(), environment_list.data());
    _exit(127);
  }
  while (waitpid(first, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::int64_t pid = -1;
  if (read(told.read.get(), &pid, sizeof pid) != sizeof pid || pid < 0)
    return Error(ErrorCode::exhausted, "cannot start the daemon: no process left");
  return pid;
}

bool is_ready(const std::string& address) {
  Result<net::Client> client = net::Client::connect(address);
  if (!client.ok()) return false;
  const Result<net::Response> answer =
      client->call({.target = "/readyz", .timeout = Duration(2000)});
  return answer.ok() && answer->status == 200;
}

std::string end_of(const std::string& log) {
  std::string text = local::read_file(log).value_or("");
  if (text.size() > kLogTail) text = text.substr(text.find('\n', text.size() - kLogTail) + 1);
  while (text.ends_with('\n'))
    text.pop_back();
  return printable_lines(text);
}

Result<DaemonFound> start_and_wait(const Place& place, const DaemonPlan& plan) {
  std::error_code error;
  for (const std::string& directory :
       {place.state, std::filesystem::path(place.socket).parent_path().string()}) {
    std::filesystem::create_directories(directory, error);
    if (error) return local::system_error("make the directory", directory, error.value());
  }
  const std::string address = "unix:" + place.socket;
  // One at a time; who waited here finds the other's daemon.
  const Descriptor lock(
      open((place.state + "/starting").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return local::system_error("write", place.state, errno);
  while (flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  if (net::is_listening(address)) return DaemonFound{.address = address};
  TRY(const std::int64_t pid, start(place, plan));
  const auto until = Clock::now() + std::chrono::milliseconds(plan.most.count());
  while (Clock::now() < until) {
    if (is_ready(address))
      return DaemonFound{.address = address, .started = true, .log = place.log};
    const local::Processes processes;
    const local::Process* daemon = processes.find(pid);
    if (daemon == nullptr || !daemon->lives()) {
      return Error(ErrorCode::unavailable,
                   fmt::format("no daemon was running, and the one started for you ended at once. "
                               "The end of its log {}:\n{}",
                               printable(place.log), end_of(place.log)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (net::is_listening(address))
    return DaemonFound{.address = address, .started = true, .log = place.log};
  return Error(ErrorCode::unavailable,
               fmt::format("the daemon started for you (pid {}) does not listen on {} yet. The end "
                           "of its log {}:\n{}",
                           pid, printable(place.socket), printable(place.log), end_of(place.log)));
}

}  // namespace

Result<DaemonFound> ensure_daemon(const DaemonPlan& plan) {
  const char* said = std::getenv("BERTH_SOCKET");  // NOLINT(concurrency-mt-unsafe): one thread
  if (said != nullptr && *said != '\0') {
    const std::string address = full_address(said);
    if (net::is_listening(address)) return DaemonFound{.address = address};
    return Error(ErrorCode::unavailable,
                 fmt::format("$BERTH_SOCKET is {}, but nobody listens there; start `berth serve "
                             "--listen {}`, or unset the variable",
                             printable(said), printable(address)));
  }
  for (const std::string& address : usual_addresses()) {
    if (net::is_listening(address)) return DaemonFound{.address = address};
  }
  if (machine_has_daemon()) {
    return Error(
        ErrorCode::unavailable,
        fmt::format("the daemon of this machine does not run: nobody listens on {}. `systemctl "
                    "status berth` says why, `systemctl start berth.socket berth.service` starts "
                    "it. None is started for you alone, which would not know what others use",
                    kMachineSocket));
  }
  return start_and_wait(own_place(), plan);
}

}  // namespace berth::cli
