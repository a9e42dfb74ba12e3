// Bytes -> an HTTP/1.1 request. Boost.Beast's parser behind a face of our own.
//
// One object reads one request. It keeps no bytes of the header that are not complete: give them
// again together with what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace berth::net {

struct ParserLimits {
  std::size_t header = std::size_t{16} * 1024;  // bytes
  std::size_t body = std::size_t{64} * 1024;
};

// What the server looks at before it takes the body.
struct RequestHead {
  std::string method = {};
  std::string target = {};  // as sent
  bool http11 = true;
  bool keep_alive = true;
  bool has_host = false;
  bool expects_continue = false;
  bool unknown_expectation = false;
  bool unknown_transfer_encoding = false;  // other than "chunked" alone
  bool unknown_content_encoding = false;   // other than "identity"
  bool repeats_authorization = false;
  std::optional<std::uint64_t> content_length = {};  // empty: chunked, or no body
  std::string authorization = {};
  std::string content_type = {};
  std::string accept = {};
  std::string last_event_id = {};
};

class RequestParser {
 public:
  enum class State : std::uint8_t {
    head,       // more bytes of the header are needed
    head_done,  // told once: the head may be looked at, go on feeding
    body,       // more bytes of the body are needed
    complete,
    header_too_large,
    body_too_large,
    malformed,
  };
  struct Step {
    State state = State::malformed;
    std::size_t consumed = 0;  // bytes of the input; the rest is to be given again
  };

  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  Step feed(std::string_view bytes);
  // A lower limit for this body, once its head is known. False: what was announced exceeds it.
  bool limit_body(std::size_t bytes);
  // Valid from head_done on.
  const RequestHead& head() const;
  std::string take_body();
  // What is wrong with a malformed request.
  std::string why() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::net
