// Server-sent events: their text and its reader (WHATWG HTML, section 9.2.6).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace berth::net {

struct SseEvent {
  std::string id = {};
  std::string event = {};  // empty: "message"
  std::string data = {};   // may hold line ends
};

// id, event, data lines and the empty line that ends them. Line ends within id and event become
// spaces.
std::string sse_text(const SseEvent& event);

// Puts events together from pieces of text that may be cut anywhere. Comments are skipped. An event
// without data is none. An id stands until another comes, as the standard says.
class SseReader {
 public:
  // Calls `each` for every event that `chunk` completes; stops at the first false and returns it.
  bool feed(std::string_view chunk, const std::function<bool(const SseEvent&)>& each);

 private:
  bool take_line(std::string_view line, const std::function<bool(const SseEvent&)>& each);

  std::string line_;  // an unfinished one
  SseEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;  // the next LF belongs to the CR before it
};

}  // namespace berth::net
