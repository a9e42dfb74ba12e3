// Progress: one line on a terminal about a run that takes longer than a second, with the time left.
//
// Writes nothing where standard error is no terminal, and takes its line away when it ends, so that
// what follows stands alone.
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace berth::cli {

class Progress {
 public:
  // `what` is the unit: "decisions".
  Progress(const Console& console, std::string_view what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Call it as often as you like; it writes a few times per second.
  void update(std::int64_t done, std::int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  const Console& console_;
  std::string what_;
  Clock::time_point begin_;
  Clock::time_point written_;
  bool shown_ = false;
};

// "simulating: 42 %, 1,200 of 2,880 decisions, 12 s left"
std::string progress_line(std::string_view what, std::int64_t done, std::int64_t total,
                          double seconds);

}  // namespace berth::cli
