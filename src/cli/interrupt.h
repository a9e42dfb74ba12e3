// Interrupt: while one lives, Ctrl-C, SIGTERM and SIGHUP ask for a tidy end instead of killing the
// process.
//
// The work looks at `flag()` now and then. A second signal kills as usual. One at a time per
// process. Thread-safety: the flag may be read from any thread.
#pragma once

#include <atomic>
#include <csignal>

namespace berth::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static const std::atomic<bool>* flag();

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
  struct sigaction old_hup_ = {};
};

}  // namespace berth::cli
