// Nesting: what the driver calls from inside one of our calls is not ours to count.
// Also keeps errno. Thread-safety: per thread.
#pragma once

#include <cerrno>
#include <cstdint>

namespace berth::guard {

// Where on its stack the thread is inside a hook; 0: it is not.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern thread_local std::uintptr_t t_inside __attribute__((tls_model("initial-exec")));

// A call from inside a hook lies below it on the stack. A hook that was left by a jump (out of a
// signal handler, say) leaves its mark behind; the thread's next call from there finds the mark no
// longer above it and begins anew.
inline bool is_inside_above(std::uintptr_t place) { return t_inside > place; }

// Scope of one hook.
class Depth {
 public:
  [[gnu::always_inline]] Depth()
      : nested_(is_inside_above(reinterpret_cast<std::uintptr_t>(this))) {
    if (!nested_) t_inside = reinterpret_cast<std::uintptr_t>(this);
  }

  [[gnu::always_inline]] ~Depth() {
    if (!nested_) t_inside = 0;
  }

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
