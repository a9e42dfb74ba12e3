#include "cli/progress.h"

#include <ostream>

namespace berth::cli {

namespace {

constexpr std::chrono::milliseconds kQuiet{1000};
constexpr std::chrono::milliseconds kPeriod{200};

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string time_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 90) return std::to_string(whole) + " s left";
  if (whole < 5400) return std::to_string((whole + 30) / 60) + " min left";
  return std::to_string((whole + 1800) / 3600) + " h left";
}

}  // namespace

std::string progress_line(std::string_view what, std::int64_t done, std::int64_t total,
                          double seconds) {
  const std::int64_t percent = total > 0 ? 100 * done / total : 0;
  std::string line = "simulating: " + std::to_string(percent) + " %, " + grouped(done) + " of " +
                     grouped(total) + " " + std::string(what);
  if (done > 0 && done < total) {
    const double rest = static_cast<double>(total - done);
    line += ", " + time_left(seconds * rest / static_cast<double>(done));
  }
  return line;
}

Progress::Progress(const Console& console, std::string_view what)
    : console_(console), what_(what), begin_(Clock::now()), written_(begin_) {}

void Progress::update(std::int64_t done, std::int64_t total) {
  if (!console_.err_is_terminal) return;
  const Clock::time_point now = Clock::now();
  if (now - begin_ < kQuiet || now - written_ < kPeriod) return;
  written_ = now;
  shown_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  console_.err << "\r\x1b[K" << progress_line(what_, done, total, seconds) << std::flush;
}

Progress::~Progress() {
  if (shown_) console_.err << "\r\x1b[K" << std::flush;
}

}  // namespace berth::cli
