// Finds the daemon of this machine or user, or starts one.
//
//   TRY(DaemonFound daemon, ensure_daemon({}));
//   if (daemon.started) … "started one; its log is …"
//
// Looked for are $BERTH_SOCKET, the machine's /run/berth/berth.sock, then the user's own. If nobody
// listens at either of the latter, `berth serve` is started for the user: in a session of its own,
// with its log beside its state. Who starts one at the same time waits for the same one.
// Thread-safety: one thread, before others exist (it forks).
#pragma once

#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::cli {

struct DaemonPlan {
  std::vector<std::string> options = {};  // further words for `berth serve`
  Duration most{15'000};                  // until it is ready
};

struct DaemonFound {
  std::string address;  // "unix:/…"
  bool started = false;
  std::string log = {};  // of one that was started
};

// Errors: unavailable: nobody listens where $BERTH_SOCKET says, or the new daemon does not come up
// (with the last lines of its log).
Result<DaemonFound> ensure_daemon(const DaemonPlan& plan);

}  // namespace berth::cli
