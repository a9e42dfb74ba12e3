#include "net/message.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "net/utf8.h"

namespace berth::net {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

struct Reason {
  int status;
  std::string_view phrase;
};

constexpr std::array kReasons{
    Reason{100, "Continue"},
    Reason{200, "OK"},
    Reason{201, "Created"},
    Reason{202, "Accepted"},
    Reason{204, "No Content"},
    Reason{301, "Moved Permanently"},
    Reason{302, "Found"},
    Reason{304, "Not Modified"},
    Reason{307, "Temporary Redirect"},
    Reason{308, "Permanent Redirect"},
    Reason{400, "Bad Request"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "Not Found"},
    Reason{405, "Method Not Allowed"},
    Reason{406, "Not Acceptable"},
    Reason{408, "Request Timeout"},
    Reason{409, "Conflict"},
    Reason{410, "Gone"},
    Reason{411, "Length Required"},
    Reason{412, "Precondition Failed"},
    Reason{413, "Content Too Large"},
    Reason{415, "Unsupported Media Type"},
    Reason{417, "Expectation Failed"},
    Reason{422, "Unprocessable Content"},
    Reason{429, "Too Many Requests"},
    Reason{431, "Request Header Fields Too Large"},
    Reason{500, "Internal Server Error"},
    Reason{501, "Not Implemented"},
    Reason{503, "Service Unavailable"},
};

}  // namespace

bool same_header(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

const std::string* Request::query_value(std::string_view name) const {
  const auto found = std::ranges::find(query, name, &Header::first);
  return found == query.end() ? nullptr : &found->second;
}

const std::string* Response::header(std::string_view name) const {
  if (same_header(name, "Content-Type")) return content_type.empty() ? nullptr : &content_type;
  const auto found =
      std::ranges::find_if(headers, [name](const Header& h) { return same_header(h.first, name); });
  return found == headers.end() ? nullptr : &found->second;
}

std::string_view reason_phrase(int status) {
  const auto* const found = std::ranges::find(kReasons, status, &Reason::status);
  return found == kReasons.end() ? "Status" : found->phrase;
}

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char first = text[0];
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      quoted += {'\\', first};
    } else if (static_cast<unsigned char>(first) < 0x20) {
      quoted += fmt::format("\\u{:04x}", first);
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted + '"';
}

Response error_response(const ErrorText& text) {
  return {.status = text.status,
          .body = fmt::format(
              R"({{"error":{{"code":{},"field":null,"value":null,"message":{},"hint":{}}}}})"
              "\n",
              json_quoted(text.code), json_quoted(text.message), json_quoted(text.hint))};
}

}  // namespace berth::net
