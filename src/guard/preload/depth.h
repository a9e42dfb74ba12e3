// Nesting: what the driver calls from inside one of our calls is not ours to count.
// Also keeps errno. Thread-safety: per thread.
#pragma once

#include <cerrno>

namespace berth::guard {

// One small word of thread-local storage, reached without a call.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern thread_local unsigned t_depth __attribute__((tls_model("initial-exec")));

// Scope of one hook.
class Depth {
 public:
  Depth() : nested_(t_depth++ != 0) {}

  ~Depth() { --t_depth; }

  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

  bool nested() const { return nested_; }

 private:
  bool nested_;
};

class ErrorKeeper {
 public:
  ErrorKeeper() : saved_(errno) {}

  ~ErrorKeeper() { errno = saved_; }

  ErrorKeeper(const ErrorKeeper&) = delete;
  ErrorKeeper& operator=(const ErrorKeeper&) = delete;

 private:
  int saved_;
};

}  // namespace berth::guard
