// A response as the bytes that stand before its body.
#pragma once

#include <string>
#include <string_view>

#include "net/message.h"

namespace berth::net {

struct ResponseFraming {
  std::string_view length;  // "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", or nothing
  bool keep_alive = true;
  bool http10 = false;
};

// Appends status line and headers with the empty line after them. Line ends in the names and values
// of headers become spaces: no handler can write a header of its own making into another one.
void put_response_head(std::string& out, const Response& response, const ResponseFraming& framing);

// "Mon, 30 Nov 2026 17:37:11 GMT"
std::string http_date();

// Whether a response of this status has no body and no length (RFC 9110, 6.4.1).
bool has_no_body(int status);

}  // namespace berth::net
