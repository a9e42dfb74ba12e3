// Running an exec plug-in: a program that prints a credential (client.authentication.k8s.io).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/result.h"
#include "kube/client/access.h"
#include "kube/client/clock.h"
#include "kube/client/poller.h"

namespace berth::kube {

struct ExecCredential {
  std::string token = {};
  std::string certificate_pem = {};
  std::string key_pem = {};
  std::optional<std::int64_t> expires_us = {};  // since 1970
};

// Of what the program printed. Errors: invalid_argument, without a word of what was printed.
Result<ExecCredential> read_exec_credential(std::string_view printed, const ExecPlugin& plugin);
// The value of KUBERNETES_EXEC_INFO.
std::string exec_info(const ExecPlugin& plugin, const Access& access);

class ExecRun final : public Watcher {
 public:
  using Done = std::move_only_function<void(Result<std::string> printed)>;

  // The program's standard error is ours. `done` is called in a turn of poller or timers, also when
  // the program could not be started, and may destroy this. After `limit` it is killed.
  ExecRun(const ExecPlugin& plugin, const std::string& info, Poller& poller, Timers& timers,
          Duration limit, Done done);
  ~ExecRun() override;  // kills it
  ExecRun(const ExecRun&) = delete;
  ExecRun& operator=(const ExecRun&) = delete;

  void on_ready(int fd, bool readable, bool writable) override;

 private:
  int start(const ExecPlugin& plugin, const std::string& info);
  void look_for_end();
  void finish(Result<std::string> result);
  void stop_reading();

  std::string name_;
  Poller& poller_;
  Timers& timers_;
  Done done_;
  pid_t pid_ = -1;
  int out_ = -1;
  std::string printed_;
  Timers::Id limit_timer_ = 0;
  Timers::Id look_timer_ = 0;
};

}  // namespace berth::kube
