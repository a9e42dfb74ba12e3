#include "net/target.h"

#include <charconv>
#include <optional>
#include <sys/un.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "net/utf8.h"

namespace berth::net {

namespace {

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

Result<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const std::optional<unsigned> high =
          i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      const std::optional<unsigned> low =
          i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
      if (!high || !low) {
        return invalid_argument(
            fmt::format("'%' in the target is not followed by two hexadecimal digits: {}; write a "
                        "percent sign as %25",
                        printable(text)));
      }
      out += static_cast<char>(*high * 16 + *low);
      i += 2;
    }
  }
  if (out.contains('\0')) return invalid_argument("the target holds %00, a NUL byte");
  if (!is_utf8(out)) {
    return invalid_argument(
        fmt::format("the target does not decode to UTF-8: {}", printable(text)));
  }
  return out;
}

Result<void> decode_query(std::string_view text, std::vector<Header>& query) {
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    TRY(std::string name, decoded(pair.substr(0, equals), true));
    std::string value;
    if (equals != std::string_view::npos) {
      TRY(value, decoded(pair.substr(equals + 1), true));
    }
    query.emplace_back(std::move(name), std::move(value));
  }
  return success();
}

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return invalid_argument(fmt::format("the port of {} is no number from 0 to 65535: {}",
                                        printable(whole), printable(text)));
  }
  return port;
}

// "host:port", "host", "[::1]:port". Without a port `port` stays as it is.
Result<void> parse_authority(std::string_view text, std::string_view whole, Address& address,
                             bool& has_port) {
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) {
      return invalid_argument(fmt::format("the bracket of {} is not closed", printable(whole)));
    }
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') {
      return invalid_argument(
          fmt::format("after ']' of {} only :PORT can follow", printable(whole)));
    }
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
    if (text.find(':', colon + 1) != std::string_view::npos) {
      return invalid_argument(
          fmt::format("{} has more than one colon; an IPv6 address stands in brackets: [::1]:8443",
                      printable(whole)));
    }
  }
  has_port = !port.empty();
  if (has_port) {
    TRY(address.port, parse_port(port.substr(1), whole));
  }
  address.host = host;
  for (const char c : host) {
    if (c <= ' ' || c == '/' || c == '@' || c == '?' || c == '#' || c == 127) {
      return invalid_argument(
          fmt::format("the host of {} holds {}; a user name or a path has no "
                      "place there",
                      printable(whole), printable(std::string_view(&c, 1))));
    }
  }
  return success();
}

Result<Address> parse_unix(std::string_view path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (!path.starts_with('/')) {
    return invalid_argument(fmt::format(
        "the path of a Unix socket is absolute, as in unix:/run/berth/berth.sock; given: {}",
        printable(path)));
  }
  if (path.size() > kLongest || path.contains('\0')) {
    return invalid_argument(fmt::format(
        "the path of a Unix socket has at most {} bytes; {} has {}: choose a shorter one", kLongest,
        printable(path), path.size()));
  }
  return Address{.scheme = Address::Scheme::unix_socket, .path = std::string(path)};
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Result<Target> parse_target(std::string_view text) {
  const std::string_view whole = text;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.starts_with(scheme)) {
      const std::size_t slash = text.find('/', scheme.size());
      text = slash == std::string_view::npos ? "/" : text.substr(slash);
    }
  }
  if (!text.starts_with('/')) {
    return invalid_argument(
        fmt::format("the target is no path that begins with '/': {}", printable(whole)));
  }
  if (text.contains('#')) {
    return invalid_argument(fmt::format("a fragment (#...) is not sent: {}", printable(whole)));
  }
  Target target;
  const std::size_t question = text.find('?');
  std::string_view path = text.substr(0, question);
  TRY(target.path, decoded(path, false));
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::size_t end = path.find('/');
    TRY(std::string segment, decoded(path.substr(0, end), false));
    target.segments.push_back(std::move(segment));
    path.remove_prefix(end == std::string_view::npos ? path.size() : end);
  }
  if (question != std::string_view::npos) {
    TRY_VOID(decode_query(text.substr(question + 1), target.query));
  }
  return target;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string Address::authority() const {
  if (host.contains(':')) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

Result<Address> parse_url(std::string_view text) {
  if (text.starts_with("unix:")) return parse_unix(text.substr(5));
  Address address;
  std::string_view rest = text;
  if (text.starts_with("https://")) {
    address = {.scheme = Address::Scheme::https, .port = 443};
    rest.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    address = {.scheme = Address::Scheme::http, .port = 80};
    rest.remove_prefix(7);
  } else {
    return invalid_argument(
        fmt::format("{} is no address; write unix:/run/berth/berth.sock, https://HOST:PORT or "
                    "http://HOST:PORT",
                    printable(text)));
  }
  const std::size_t slash = rest.find('/');
  bool has_port = false;
  TRY_VOID(parse_authority(rest.substr(0, slash), text, address, has_port));
  if (address.host.empty()) {
    return invalid_argument(fmt::format("{} names no host", printable(text)));
  }
  if (slash != std::string_view::npos) {
    TRY_VOID(parse_target(rest.substr(slash)));
    address.path = rest.substr(slash);
    if (address.path.contains('?')) {
      return invalid_argument(fmt::format("the address {} holds a query", printable(text)));
    }
    while (address.path.ends_with('/')) {
      address.path.pop_back();
    }
  }
  return address;
}

Result<Address> parse_listen(std::string_view text) {
  if (text.starts_with("unix:")) return parse_unix(text.substr(5));
  if (text.contains("//")) {
    return invalid_argument(fmt::format(
        "{} is no address to listen on; write unix:/PATH or HOST:PORT without a scheme (TCP always "
        "speaks TLS)",
        printable(text)));
  }
  Address address{.scheme = Address::Scheme::https};
  bool has_port = false;
  TRY_VOID(parse_authority(text, text, address, has_port));
  if (!has_port) {
    return invalid_argument(
        fmt::format("{} names no port; write unix:/PATH or HOST:PORT", printable(text)));
  }
  return address;
}

}  // namespace berth::net
