// Bytes from the network in pieces of any size: the parsers of requests and responses agree with
// themselves however the bytes are cut; targets, addresses, token files and event streams are
// refused or read, and what is read can be written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "net/request_parser.h"
#include "net/response_parser.h"
#include "net/sse.h"
#include "net/target.h"
#include "net/token.h"

namespace {

using namespace berth::net;  // NOLINT(google-build-using-namespace): a program of one file

std::string request_of(std::string_view bytes, std::size_t piece) {
  RequestParser parser({.header = 512, .body = 256});
  std::string held;
  std::size_t used = 0;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    held += part;
    RequestParser::Step step;
    do {
      step = parser.feed(held);
      ASSERT(step.consumed <= held.size());
      held.erase(0, step.consumed);
      used += step.consumed;
    } while (step.state == RequestParser::State::head_done);
    if (step.state == RequestParser::State::complete) {
      const std::string body = parser.take_body();
      ASSERT(body.size() <= 256);
      return parser.head().method + " " + parser.head().target + " " + std::to_string(used) + body;
    }
    if (step.state != RequestParser::State::head && step.state != RequestParser::State::body) break;
  }
  return {};
}

std::string response_of(std::string_view bytes, std::size_t piece) {
  ResponseParser parser(256, false);
  auto state = ResponseParser::State::head;
  std::string body;
  bool had_head = false;
  while (!bytes.empty() &&
         (state == ResponseParser::State::head || state == ResponseParser::State::body)) {
    state = parser.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    if (state == ResponseParser::State::body || state == ResponseParser::State::complete) {
      if (!had_head) parser.take_head();
      had_head = true;
      body += parser.take_body();
    }
  }
  if (state == ResponseParser::State::body) state = parser.end();
  return state == ResponseParser::State::complete ? "complete " + body : "";
}

void check_target(std::string_view text) {
  const berth::Result<Target> target = parse_target(text);
  if (!target.ok()) return;
  ASSERT(is_utf8(target->path) && target->path.starts_with('/'));
  std::string again;
  for (const std::string& segment : target->segments) {
    again += "/" + percent_encoded(segment);
  }
  again += "?";
  for (const Header& pair : target->query) {
    again += percent_encoded(pair.first) + "=" + percent_encoded(pair.second) + "&";
  }
  const berth::Result<Target> same = parse_target(again);
  ASSERT(same.ok(), again);
  ASSERT(same->path == target->path && same->query == target->query, again);
}

void check_events(std::string_view text, std::size_t piece) {
  SseReader whole;
  SseReader cut;
  std::string one;
  std::string other;
  const auto into = [](std::string& to) {
    return [&to](const SseEvent& event) {
      to += sse_text(event);
      return true;
    };
  };
  whole.feed(text, into(one));
  for (std::string_view rest = text; !rest.empty();
       rest.remove_prefix(std::min(piece, rest.size()))) {
    cut.feed(rest.substr(0, piece), into(other));
  }
  ASSERT(one == other);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 32U + 1U;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = request_of(text, text.size() + 1);
  ASSERT(whole == request_of(text, piece), piece);
  ASSERT(response_of(text, text.size() + 1) == response_of(text, piece), piece);
  check_target(text);
  check_events(text, piece);
  for (const berth::Result<Address>& address : {parse_url(text), parse_listen(text)}) {
    ASSERT(address.ok() || !address.error().message().empty());
  }
  const berth::Result<TokenSet> tokens = TokenSet::parse(text, "tokens");
  ASSERT(tokens.ok() || tokens.error().message().starts_with("tokens:"));
  ASSERT(bearer_token(text).size() <= text.size());
  return 0;
}
