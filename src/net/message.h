// What goes over the wire, as values: who asks, what is asked, what is answered.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::net {

using Header = std::pair<std::string, std::string>;

// Who sent a request. On a Unix socket the kernel says so (SO_PEERCRED, taken once per connection,
// so a process that hands its connection on lends its name); over TCP the bearer token does.
struct Caller {
  bool local = false;     // came over a Unix socket: uid, gid and pid are known
  std::uint32_t uid = 0;  // meaningless unless local
  std::uint32_t gid = 0;
  std::int64_t pid = 0;   // 0: unknown, for instance in another PID namespace
  std::string name = {};  // the user's name ("uid:1000" if the machine knows none), or the token's
  bool admin = false;
};

struct Request {
  // As sent, except that HEAD is delivered as GET: the server leaves the body out of the answer.
  std::string method = {};
  std::string path = {};                   // percent-decoded, without the query; begins with '/'
  std::vector<std::string> segments = {};  // the path split at '/' before decoding: may hold '/'
  std::vector<Header> query = {};          // decoded, in order; '+' is a space; no '=': empty value
  std::string body = {};                   // at most ServerOptions::body_limit bytes
  std::string content_type = {};
  std::string accept = {};
  std::string last_event_id = {};  // of a stream that is resumed
  Caller caller = {};

  // The first value under `name`; null if it is not there.
  const std::string* query_value(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";  // empty: no such header
  std::vector<Header> headers = {};               // further ones; line ends in them become spaces
  std::string body = {};

  // The first header of that name, whatever its case; null if it is not there. Content-Type is
  // `content_type`.
  const std::string* header(std::string_view name) const;
};

// "Not Found" for 404; "Status" for a code that HTTP does not know.
std::string_view reason_phrase(int status);

// An answer whose body is the error object of contract leases 3.5 with code, message and hint.
struct ErrorText {
  int status = 500;
  std::string_view code = {};
  std::string_view message = {};
  std::string_view hint = {};
};
Response error_response(const ErrorText& text);

// A JSON string literal with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

// True if the names of two headers are the same, that is, whatever their case.
bool same_header(std::string_view a, std::string_view b);

}  // namespace berth::net
