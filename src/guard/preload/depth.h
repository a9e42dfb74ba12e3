// Nesting: what the driver calls from inside one of our calls is not ours to count.
// Also keeps errno. Thread-safety: per thread.
#pragma once

#include <cerrno>
#include <cstdint>

namespace berth::guard {

// What a thread knows of itself; all of it in one place, so that a hook looks that place up once.
struct ThreadState {
  std::uintptr_t inside;  // where on its stack the thread is inside a hook; 0: it is not
  // GPU time that the thread may still spend (launch.h): on the grant's only device, and, where a
  // grant has several, on the one that it last spent time on.
  std::int64_t only_ns;
  std::int64_t left_ns;
  std::int32_t target_plus_one;
};
// `constinit` here tells every user that nothing has to be called before the first access.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern constinit thread_local ThreadState t_own __attribute__((tls_model("initial-exec")));

// A call from inside a hook lies below it on the stack. A hook that was left by a jump (out of a
// signal handler, say) leaves its mark behind; the thread's next call from there finds the mark no
// longer above it and begins anew.
inline bool is_inside_above(std::uintptr_t place) { return t_own.inside > place; }

// Scope of one hook.
class Depth {
 public:
  [[gnu::always_inline]] Depth()
      : nested_(is_inside_above(reinterpret_cast<std::uintptr_t>(this))) {
    if (!nested_) t_own.inside = reinterpret_cast<std::uintptr_t>(this);
  }

  [[gnu::always_inline]] ~Depth() {
    if (!nested_) t_own.inside = 0;
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
