#include "net/sse.h"

#include <utility>

namespace berth::net {

namespace {

void add_line(std::string& text, std::string_view name, std::string_view value) {
  text += name;
  text += ": ";
  for (const char c : value) {
    text += c == '\n' || c == '\r' ? ' ' : c;
  }
  text += '\n';
}

}  // namespace

std::string sse_text(const SseEvent& event) {
  std::string text;
  if (!event.id.empty()) add_line(text, "id", event.id);
  if (!event.event.empty()) add_line(text, "event", event.event);
  std::string_view rest = event.data;
  while (true) {
    const std::size_t end = rest.find('\n');
    add_line(text, "data", rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return text + '\n';
}

bool SseReader::feed(std::string_view chunk, const std::function<bool(const SseEvent&)>& each) {
  while (!chunk.empty()) {
    if (std::exchange(after_cr_, false) && chunk.front() == '\n') {
      chunk.remove_prefix(1);
      continue;
    }
    const std::size_t end = chunk.find_first_of("\r\n");
    line_ += chunk.substr(0, end);
    if (end == std::string_view::npos) return true;
    after_cr_ = chunk[end] == '\r';
    chunk.remove_prefix(end + 1);
    if (!take_line(std::exchange(line_, {}), each)) return false;
  }
  return true;
}

bool SseReader::take_line(std::string_view line, const std::function<bool(const SseEvent&)>& each) {
  if (line.empty()) {
    SseEvent whole = std::exchange(event_, {.id = event_.id});
    if (!std::exchange(has_data_, false)) return true;
    whole.data.pop_back();  // the line end after the last data line is none of the data
    return each(whole);
  }
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    event_.data += value;
    event_.data += '\n';
    has_data_ = true;
  } else if (name == "event") {
    event_.event = value;
  } else if (name == "id" && !value.contains('\0')) {
    event_.id = value;
  }
  return true;  // comments have an empty name; other names are to be ignored
}

}  // namespace berth::net
