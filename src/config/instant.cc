#include "config/instant.h"

#include <chrono>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/assert.h"
#include "config/value.h"

namespace berth::config {

namespace {

constexpr std::int64_t kMsPerSecond = 1000;
constexpr std::int64_t kMsPerDay = std::int64_t{24} * 3600 * kMsPerSecond;

// The digits at [from, from + width), nothing else; empty otherwise.
std::optional<std::int64_t> digits(std::string_view text, std::size_t from, std::size_t width) {
  if (text.size() < from + width) return std::nullopt;
  const auto number = parse_count(text.substr(from, width), 9'999);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

// ".25" -> 250; empty text -> 0.
std::optional<std::int64_t> milliseconds(std::string_view text) {
  if (text.empty()) return 0;
  if (text.front() != '.' || text.size() < 2 || text.size() > 4) return std::nullopt;
  auto number = digits(text, 1, text.size() - 1);
  for (std::size_t i = text.size(); number && i < 4; ++i)
    *number *= 10;
  return number;
}

std::optional<std::int64_t> parse_ms(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() <= kForm.size() || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '0' && kForm[i] != text[i]) return std::nullopt;
  }
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  const auto second = digits(text, 17, 2);
  const auto ms = milliseconds(text.substr(kForm.size(), text.size() - kForm.size() - 1));
  if (!year || !month || !day || !hour || !minute || !second || !ms) return std::nullopt;
  if (*year < 1970 || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * kMsPerDay + ((*hour * 60 + *minute) * 60 + *second) * kMsPerSecond + *ms;
}

}  // namespace

Result<Time> parse_instant(std::string_view text) {
  const auto ms = parse_ms(text);
  if (!ms) return invalid_argument("a date and time in UTC is expected: 2026-01-31T10:00:00Z");
  return Time{*ms};
}

std::string instant_text(Time time) {
  ASSERT(time.ms() >= 0, time.ms());
  const std::int64_t in_day = time.ms() % kMsPerDay;
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(time.ms() / kMsPerDay))};
  const std::int64_t seconds = in_day / kMsPerSecond;
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (in_day % kMsPerSecond != 0) text += fmt::format(".{:03}", in_day % kMsPerSecond);
  return text + 'Z';
}

}  // namespace berth::config
