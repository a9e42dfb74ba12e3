// Scheduler: `berth scheduler`. One thread that lists and watches, decides and writes.
//
//   TRY(auto scheduler, Scheduler::make(std::move(options)));
//   scheduler->run();        // the caller's thread; returns after stop(), or when the lease is
//   lost
//
// One that waits to lead keeps its books up to date. Once it leads it asks for everything that was
// written meanwhile, so that no binding of the one before it is missed, and only then decides. Who
// loses the lease must exit.
// Thread-safety: stop(), reload() and addresses() from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/client/access.h"
#include "kube/scheduler/harbour.h"

namespace berth::kube {

struct SchedulerOptions {
  Access access;
  HarbourConfig harbour;
  bool leader_elect = false;
  std::string lease_namespace = "berth-system";
  std::string lease_name = "berth-scheduler";
  Duration lease_duration{15'000};
  Duration lease_fence{10'000};
  Duration lease_retry{2'000};
  std::string instance = {};  // of this process among several; reports events, holds the lease
  bool dry_run = false;
  std::vector<std::string> listen = {};  // "0.0.0.0:8080", "unix:/path"; empty: no HTTP face
  std::string decision_log = {};         // a file for `berth replay`; empty: none
  std::string version = {};
  std::uint64_t seed = 0;  // of jitter
  // Reads the queue files again on reload(). Empty: there are none.
  std::function<Result<core::QueueConfig>()> read_queues = {};
  // One line of the log: level ("info", "warning", "error") and text.
  std::function<void(std::string_view level, std::string_view text)> log = {};
};

class Scheduler {
 public:
  // Errors: of the access, the configuration, the decision log's file, the address to listen on.
  static Result<std::unique_ptr<Scheduler>> make(SchedulerOptions options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Until stop(). Error: the lease was lost.
  Result<void> run();
  void stop();
  // The queues anew. What is wrong is logged and changes nothing.
  void reload();
  std::vector<std::string> addresses() const;

 private:
  struct Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::kube
