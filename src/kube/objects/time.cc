#include "kube/objects/time.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace berth::kube {

namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kLastSecond = 253'402'300'799;  // 9999-12-31T23:59:59Z

// Takes `count` digits off the front.
std::optional<int> take(std::string_view& text, std::size_t count) {
  if (text.size() < count) {
    return std::nullopt;
  }
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool skip(std::string_view& text, char c) {
  if (!text.starts_with(c)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

// Milliseconds of ".123…", 0 without one.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  if (!skip(text, '.')) {
    return 0;
  }
  std::int64_t ms = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits < 3) {
      ms = ms * 10 + (text[digits] - '0');
    }
  }
  if (digits == 0) {
    return std::nullopt;
  }
  for (std::size_t place = digits; place < 3; ++place) {
    ms *= 10;
  }
  text.remove_prefix(digits);
  return ms;
}

// Seconds east of Greenwich; all of the text is taken.
std::optional<std::int64_t> take_offset(std::string_view text) {
  if (text == "Z" || text == "z") {
    return 0;
  }
  const bool west = text.starts_with('-');
  if (!skip(text, west ? '-' : '+')) {
    return std::nullopt;
  }
  const auto hours = take(text, 2);
  if (!hours || !skip(text, ':')) {
    return std::nullopt;
  }
  const auto minutes = take(text, 2);
  if (!minutes || !text.empty() || *hours > 23 || *minutes > 59) {
    return std::nullopt;
  }
  const std::int64_t seconds = std::int64_t{*hours * 60 + *minutes} * 60;
  return west ? -seconds : seconds;
}

std::optional<std::int64_t> take_day(std::string_view& text) {
  const auto year = take(text, 4);
  if (!year || !skip(text, '-')) {
    return std::nullopt;
  }
  const auto month = take(text, 2);
  if (!month || !skip(text, '-')) {
    return std::nullopt;
  }
  const auto day = take(text, 2);
  if (!day) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) {
    return std::nullopt;
  }
  return sys_days(date).time_since_epoch().count();
}

std::optional<std::int64_t> take_second_of_day(std::string_view& text) {
  const auto hour = take(text, 2);
  if (!hour || !skip(text, ':')) {
    return std::nullopt;
  }
  const auto minute = take(text, 2);
  if (!minute || !skip(text, ':')) {
    return std::nullopt;
  }
  const auto second = take(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  return (*hour * 60 + *minute) * 60 + *second;
}

std::string date_and_time(std::int64_t seconds) {
  const std::chrono::year_month_day date{sys_days(days(seconds / kDay))};
  const std::int64_t rest = seconds % kDay;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     rest / 3600, rest / 60 % 60, rest % 60);
}

}  // namespace

std::optional<std::int64_t> parse_time_ms(std::string_view text) {
  const auto day = take_day(text);
  if (!day || (!skip(text, 'T') && !skip(text, 't'))) {
    return std::nullopt;
  }
  const auto second = take_second_of_day(text);
  if (!second) {
    return std::nullopt;
  }
  const auto ms = take_fraction(text);
  if (!ms) {
    return std::nullopt;
  }
  const auto offset = take_offset(text);
  if (!offset) {
    return std::nullopt;
  }
  const std::int64_t seconds = *day * kDay + *second - *offset;
  if (seconds < 0 || seconds > kLastSecond) {
    return std::nullopt;
  }
  return seconds * 1000 + *ms;
}

std::string time_text(std::int64_t unix_ms) {
  return date_and_time(std::clamp<std::int64_t>(unix_ms / 1000, 0, kLastSecond)) + "Z";
}

std::string micro_time_text(std::int64_t unix_us) {
  const std::int64_t us = std::clamp<std::int64_t>(unix_us, 0, kLastSecond * 1'000'000);
  return fmt::format("{}.{:06}Z", date_and_time(us / 1'000'000), us % 1'000'000);
}

}  // namespace berth::kube
