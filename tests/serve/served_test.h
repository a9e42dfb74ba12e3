// A daemon in a process of its own, with one simulated device of 16 GiB, for tests that stand
// between it and its disk.
#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "net/client.h"
#include "scenario/fleet_spec.h"
#include "serve/daemon.h"

namespace berth::serve {

inline constexpr std::int64_t kUsableMib = 15'892;  // of 16 GiB without the reserve

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crash-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The daemon in a process of its own.
class Served {
 public:
  // `faults` and `before_answers` act in the daemon's process.
  explicit Served(const std::string& folder, store::FaultHook* faults = nullptr,
                  const std::function<void()>& before_answers = {})
      : socket_("unix:" + folder + "/berth.sock") {
    pid_ = fork();
    if (pid_ == 0) {
      DaemonOptions options;
      options.server.listen = {socket_};
      options.state_directory = folder + "/state";
      options.simulated = *scenario::fleet_from_spec("n0=1x16GiB");
      options.node = options.simulated->front();
      options.node.devices.clear();
      options.service.node = "n0";
      options.service.engine.policy = "spread";
      options.faults = faults;
      options.before_answers = before_answers;
      Result<std::unique_ptr<Daemon>> daemon = Daemon::start(std::move(options));
      _exit(daemon.ok() && (*daemon)->run().ok() ? 0 : 1);
    }
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  ~Served() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

  // False: it was killed before it was ready.
  bool ready() const {
    for (int tries = 0; tries < 4000; ++tries) {
      if (dead()) return false;
      Result<net::Client> client = net::Client::connect(socket_);
      if (client.ok()) {
        const Result<net::Response> answer = client->call({.target = "/readyz"});
        if (answer.ok() && answer->status == 200) return true;
      }
      usleep(2000);
    }
    return false;
  }

  bool dead() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }

  // Empty: no answer, the daemon died.
  std::optional<net::Response> call(const std::string& method, const std::string& target,
                                    const std::string& body) const {
    Result<net::Client> client = net::Client::connect(socket_);
    if (!client.ok()) return std::nullopt;
    Result<net::Response> answer = client->call(
        {.method = method, .target = target, .body = body, .timeout = Duration(20'000)});
    if (!answer.ok()) return std::nullopt;
    return std::move(*answer);
  }

 private:
  std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace berth::serve
