// Bytes -> an HTTP/1.1 response, whose body can be taken while it comes. Boost.Beast's parser
// behind a face of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/message.h"

namespace berth::net {

class ResponseParser {
 public:
  enum class State : std::uint8_t { head, body, complete, too_large, malformed };

  // `head_only`: of a HEAD request, whose answer has no body whatever its headers say.
  ResponseParser(std::size_t body_limit, bool head_only);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  // Takes in all of `bytes` that belongs to this response.
  State feed(std::string_view bytes);
  // The server has finished sending.
  State end();

  // Valid once the state is body or complete.
  Response take_head();
  bool keep_alive() const;
  // What has come of the body and was not taken yet.
  std::string take_body();
  std::string why() const;

 private:
  struct Impl;
  State state() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::net
