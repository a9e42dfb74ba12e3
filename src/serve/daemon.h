// Daemon: `berth serve`. One decision thread takes what arrived, lets the service decide, makes it
// durable in one commit, and only then lets answers leave.
//
//   TRY(auto daemon, Daemon::start(std::move(options)));
//   daemon->run();           // the decision thread is the caller's; returns after stop()
//
// What arrives while a commit runs is the next batch: the slower the disk, the larger the group.
// Thread-safety: stop() and reload() may be called from any thread and from signal handlers'
// helpers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"
#include "lease/service.h"
#include "net/server.h"
#include "serve/sources.h"
#include "store/fault_hook.h"

namespace berth::serve {

struct DaemonOptions {
  lease::ServiceConfig service;
  net::ServerOptions server;
  std::string state_directory;
  std::string grants_directory;  // of the guard's limits; empty = in the state directory
  std::string guard_library;     // empty: no guard
  std::string version;
  core::Node node;  // this machine: name, CPU, RAM
  // Soft RLIMIT_NOFILE of the programs that it starts: the daemon raises its own. 0: the daemon's.
  std::uint64_t open_files = 0;

  // Devices: simulated, or the driver's.
  std::optional<std::vector<core::Node>> simulated;
  bool manual_clock = false;
  SourceOptions sources;
  Duration sampling{1'000};

  // Reads the configuration again, on reload, and says in the log what changed. Of its answer the
  // daemon takes what Service::adjust() takes. Empty: there is none.
  std::function<Result<lease::ServiceConfig>()> read_settings = {};
  // Reads the queue files again, on reload. Empty: there are none.
  std::function<Result<core::QueueConfig>()> read_queues;
  store::FaultHook* faults = nullptr;         // tests: between the journal and its disk
  std::function<void()> before_answers = {};  // tests: after a commit, before anybody is told of it
  // One line of the log: level ("info", "warning", "error") and text.
  std::function<void(std::string_view level, std::string_view text)> log;
};

class Daemon {
 public:
  // Opens the journal, takes over what it holds, and listens. Errors say what to do: conflict
  // (another daemon has the state directory or the socket: who), unavailable, invalid_argument.
  static Result<std::unique_ptr<Daemon>> start(DaemonOptions options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Until stop(). Error: what made it end by itself.
  Result<void> run();
  void stop();
  // Settings, tokens, certificate and queues anew. What is wrong is logged and leaves all as it
  // was.
  void reload();

  std::vector<std::string> addresses() const;

 private:
  struct Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::serve
