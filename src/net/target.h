// Request targets and addresses: text from outside -> values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/message.h"

namespace berth::net {

struct Target {
  std::string path = {};
  std::vector<std::string> segments = {};
  std::vector<Header> query = {};
};

// "/v1/leases?state=waiting&key_prefix=a%2Fb" or the same as an absolute URL (RFC 9112, 3.2).
// Errors (invalid_argument): neither of these, a '%' without two hexadecimal digits, bytes that
// decode to NUL or to other than UTF-8, a fragment. Dots in a path mean nothing special.
Result<Target> parse_target(std::string_view text);

// RFC 3986: everything but letters, digits and "-._~" as %XX. For one segment or one value.
std::string percent_encoded(std::string_view text);

bool is_utf8(std::string_view text);

struct Address {
  enum class Scheme : std::uint8_t { unix_socket, https, http };
  Scheme scheme = Scheme::unix_socket;
  std::string path = {};  // of the socket, or the prefix of every target, without a '/' at its end
  std::string host = {};  // without brackets; empty: every address (listening only)
  std::uint16_t port = 0;

  // Host and port as they stand in a URL or in --listen: "[::1]:8443".
  std::string authority() const;
};

// "unix:/run/berth/berth.sock", "https://host:port/prefix", "http://host". Errors say what it
// could have been.
Result<Address> parse_url(std::string_view text);

// "unix:/path" or "host:port", "[::1]:8443", ":8443": where to listen (scheme https for TCP).
Result<Address> parse_listen(std::string_view text);

}  // namespace berth::net
