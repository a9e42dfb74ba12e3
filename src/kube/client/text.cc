#include "kube/client/text.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace berth::kube {

namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// `count` digits at `at`; moves it.
std::optional<int> digits(std::string_view text, std::size_t& at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const char c = text[at + i];
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  at += count;
  return value;
}

bool skip(std::string_view text, std::size_t& at, char wanted) {
  if (at >= text.size() || text[at] != wanted) return false;
  ++at;
  return true;
}

// ".123456789" -> microseconds; nothing there: 0.
std::optional<std::int64_t> fraction(std::string_view text, std::size_t& at) {
  if (!skip(text, at, '.')) return 0;
  std::int64_t us = 0;
  std::size_t count = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++count) {
    if (count < 6) us = us * 10 + (text[at] - '0');
  }
  if (count == 0) return std::nullopt;
  for (; count < 6; ++count)
    us *= 10;
  return us;
}

// "Z" or "+01:00" -> seconds east of Greenwich.
std::optional<std::int64_t> offset(std::string_view text, std::size_t& at) {
  if (skip(text, at, 'Z') || skip(text, at, 'z')) return 0;
  const bool west = skip(text, at, '-');
  if (!west && !skip(text, at, '+')) return std::nullopt;
  const std::optional<int> hours = digits(text, at, 2);
  if (!hours.has_value() || !skip(text, at, ':')) return std::nullopt;
  const std::optional<int> minutes = digits(text, at, 2);
  if (!minutes.has_value()) return std::nullopt;
  const std::int64_t seconds = (std::int64_t{*hours} * 60 + *minutes) * 60;
  return west ? -seconds : seconds;
}

}  // namespace

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  std::size_t letters = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (is_space(c)) continue;
    ++letters;
    if (c == '=') {
      ++padding;
      continue;
    }
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos || padding != 0) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push_back(static_cast<char>((bits >> static_cast<unsigned>(held)) & 0xFFU));
    }
  }
  if (letters % 4 != 0 || padding > 2) return std::nullopt;
  return bytes;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto byte = at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U;
      bits = (bits << 8U) | byte;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool given = at + i < bytes.size() + 1;
      text.push_back(given ? kAlphabet[(bits >> (18U - 6U * static_cast<unsigned>(i))) & 63U]
                           : '=');
    }
  }
  return text;
}

std::optional<std::int64_t> parse_instant(std::string_view text) {
  std::size_t at = 0;
  std::tm parts{};
  const auto field = [&](std::size_t count, char before, int& into) {
    if (before != '\0' && !skip(text, at, before)) return false;
    const std::optional<int> value = digits(text, at, count);
    if (value.has_value()) into = *value;
    return value.has_value();
  };
  if (!field(4, '\0', parts.tm_year) || !field(2, '-', parts.tm_mon) ||
      !field(2, '-', parts.tm_mday)) {
    return std::nullopt;
  }
  if (!skip(text, at, 'T') && !skip(text, at, 't')) return std::nullopt;
  if (!field(2, '\0', parts.tm_hour) || !field(2, ':', parts.tm_min) ||
      !field(2, ':', parts.tm_sec)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> us = fraction(text, at);
  const std::optional<std::int64_t> east = us.has_value() ? offset(text, at) : std::nullopt;
  if (!east.has_value() || at != text.size()) return std::nullopt;
  if (parts.tm_mon < 1 || parts.tm_mon > 12 || parts.tm_mday < 1 || parts.tm_mday > 31 ||
      parts.tm_hour > 23 || parts.tm_min > 59 || parts.tm_sec > 60) {
    return std::nullopt;
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const std::int64_t seconds = static_cast<std::int64_t>(timegm(&parts)) - *east;
  return seconds * 1'000'000 + *us;
}

std::string micro_time(std::int64_t us) {
  const std::int64_t within = ((us % 1'000'000) + 1'000'000) % 1'000'000;
  const std::time_t seconds = (us - within) / 1'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     within);
}

std::string day_and_minute(std::int64_t us) {
  const std::string full = micro_time(us);
  return full.substr(0, 10) + " " + full.substr(11, 5) + " UTC";
}

Result<std::string> read_small_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int why = errno;
    return Error(why == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable,
                 fmt::format("{} cannot be read: {}", path, strerror(why)));
  }
  std::string text;
  std::array<char, 16'384> piece{};
  ssize_t got = 0;
  do {
    got = read(fd, piece.data(), piece.size());
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
  } while ((got > 0 || (got < 0 && errno == EINTR)) && text.size() <= kMostBytes);
  const int why = errno;
  close(fd);
  if (got < 0) {
    return Error(ErrorCode::unavailable, fmt::format("{} cannot be read: {}", path, strerror(why)));
  }
  if (text.size() > kMostBytes) {
    return Error(ErrorCode::invalid_argument,
                 fmt::format("{} is larger than {} MiB", path, kMostBytes >> 20U));
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  return text;
}

std::string url_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded.push_back(c);
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace berth::kube
