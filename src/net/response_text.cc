#include "net/response_text.h"

#include <array>
#include <ctime>
#include <utility>

#include <fmt/format.h>

namespace berth::net {

namespace {

void put_header(std::string& out, std::string_view name, std::string_view value) {
  for (const auto& [text, end] : {std::pair{name, ": "}, std::pair{value, "\r\n"}}) {
    for (const char c : text) {
      out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    }
    out += end;
  }
}

}  // namespace

std::string http_date() {
  static constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t now = ::time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                     kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

bool has_no_body(int status) { return status == 204 || status == 304; }

void put_response_head(std::string& out, const Response& response, const ResponseFraming& framing) {
  out += fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                     reason_phrase(response.status), http_date());
  if (!response.content_type.empty()) put_header(out, "Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) {
    put_header(out, name, value);
  }
  out += framing.length;
  if (!framing.keep_alive) {
    out += "Connection: close\r\n";
  } else if (framing.http10) {
    out += "Connection: keep-alive\r\n";  // HTTP/1.0 has to be told
  }
  out += "\r\n";
}

}  // namespace berth::net
