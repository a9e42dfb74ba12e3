#include "kube/client/frames.h"

#include <algorithm>

#include "base/error.h"
#include "kube/client/call.h"

namespace berth::kube {

namespace {

constexpr std::size_t kKept = std::size_t{1} << 20U;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Walks over JSON text without building anything. Any wrong step makes it fail for good.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  bool failed() const { return failed_; }

  // What has not been walked over, from the next value on.
  std::string_view rest() {
    skip_space();
    return text_.substr(at_);
  }

  bool take(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  // The bytes between the quotes, escapes as they are.
  std::string_view string() {
    if (!take('"')) return fail();
    const std::size_t begin = at_;
    while (true) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) return fail();
      std::size_t slashes = 0;
      while (quote - slashes > begin && text_[quote - slashes - 1] == '\\')
        ++slashes;
      at_ = quote + 1;
      if (slashes % 2 == 0) return text_.substr(begin, quote - begin);
    }
  }

  // Any value; returns its text.
  std::string_view value() {
    skip_space();
    const std::size_t begin = at_;
    if (at_ >= text_.size()) return fail();
    const char first = text_[at_];
    if (first == '"') {
      string();
    } else if (first == '{' || first == '[') {
      container();
    } else {
      while (at_ < text_.size() && !is_end(text_[at_]))
        ++at_;
      if (at_ == begin) return fail();
    }
    return failed_ ? std::string_view() : text_.substr(begin, at_ - begin);
  }

  // Calls `each(name)` for every member, which reads its value and says whether to go on.
  template <typename Each>
  void members(const Each& each) {
    if (!take('{')) {
      fail();
      return;
    }
    if (take('}')) return;
    do {
      const std::string_view name = string();
      if (failed_ || !take(':')) {
        fail();
        return;
      }
      if (!each(name) || failed_) return;
    } while (take(','));
    if (!take('}')) fail();
  }

 private:
  static bool is_end(char c) { return c == ',' || c == '}' || c == ']' || is_space(c); }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_]))
      ++at_;
  }

  std::string_view fail() {
    failed_ = true;
    return {};
  }

  void container() {
    std::size_t depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        string();
        if (failed_) return;
        --at_;  // the loop goes on behind the quote
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        ++at_;
        return;
      }
    }
    fail();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

// A string's content when it needs no unescaping.
std::string_view plain_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.find('\\') != std::string_view::npos) {
    return {};
  }
  return value.substr(1, value.size() - 2);
}

}  // namespace

bool FrameSplitter::feed(std::string_view bytes,
                         const std::function<bool(std::string_view)>& each) {
  std::size_t scanned = held_.size();
  held_.append(bytes);
  // Whoever parses a line may read so far beyond its end.
  held_.reserve(held_.size() + kPadding);
  std::size_t begin = 0;
  bool go_on = true;
  while (go_on) {
    const std::size_t end = held_.find('\n', scanned);
    if (end == std::string::npos) break;
    const std::string_view line(held_.data() + begin, end - begin);
    begin = scanned = end + 1;
    if (!line.empty() && line != "\r") go_on = each(line);
  }
  held_.erase(0, begin);
  if (held_.capacity() > kKept && held_.size() < kKept / 2) held_.shrink_to_fit();
  return go_on && held_.size() <= kMostFrame;
}

Result<void> ListSplitter::feed(std::string_view bytes,
                                const std::function<void(std::string_view)>& each) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    // Inside strings, where most bytes are, whole stretches at once.
    if (in_string_ && !escaped_) {
      const std::size_t end = std::min(bytes.find_first_of("\"\\", at), bytes.size());
      if (keep_ || state_ == State::name) held_.append(bytes, at, end - at);
      at = end;
      if (at == bytes.size()) break;
    }
    TRY_VOID(step(bytes[at], each));
    if (held_.size() > kMostFrame) return invalid_argument("an item of the list is too large");
  }
  return success();
}

Result<void> ListSplitter::step(char c, const std::function<void(std::string_view)>& each) {
  const auto wrong = [] { return invalid_argument("the answer is no list in JSON"); };
  if (in_string_ || state_ == State::value) return in_value(c, each);
  if (is_space(c)) return success();
  switch (state_) {
    case State::start:
      if (c != '{') return wrong();
      state_ = State::next;
      return success();
    case State::next:
      if (c == '}') {
        state_ = State::over;
      } else if (c == '"') {
        state_ = State::name;
        in_string_ = true;
        held_.clear();
      } else if (c != ',') {
        return wrong();
      }
      return success();
    case State::colon:
      if (c != ':') return wrong();
      state_ = State::value;
      item_ = false;
      keep_ = name_ == "metadata";
      depth_ = 0;
      begun_ = false;
      held_.clear();
      return success();
    case State::items:
      if (c == ',') return success();
      if (c == ']') {
        state_ = State::next;
        return success();
      }
      state_ = State::value;
      item_ = keep_ = true;
      depth_ = 0;
      begun_ = false;
      held_.clear();
      return in_value(c, each);
    case State::over:
    case State::name:
    case State::value: break;
  }
  return wrong();
}

// One byte of a name or of a value.
Result<void> ListSplitter::in_value(char c, const std::function<void(std::string_view)>& each) {
  if (in_string_) {
    if (state_ == State::name && c == '"' && !escaped_) {
      in_string_ = false;
      name_ = held_;
      state_ = State::colon;
      return success();
    }
    if (keep_ || state_ == State::name) held_.push_back(c);
    if (c == '"' && !escaped_) {
      in_string_ = false;
      if (depth_ == 0) close_value(each);
    }
    escaped_ = c == '\\' && !escaped_;
    return success();
  }
  if (!begun_ && !item_ && name_ == "items" && c == '[') {
    state_ = State::items;
    return success();
  }
  if (depth_ == 0 && is_space(c) && !begun_) return success();
  const bool ends_scalar = depth_ == 0 && (c == ',' || c == '}' || c == ']' || is_space(c));
  if (ends_scalar && !begun_) return invalid_argument("the answer is no list in JSON");
  if (ends_scalar) {
    close_value(each);
    return step(c, each);
  }
  begun_ = true;
  if (keep_) held_.push_back(c);
  if (c == '"') {
    in_string_ = true;
    escaped_ = false;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    if (--depth_ == 0) close_value(each);
  }
  return success();
}

void ListSplitter::close_value(const std::function<void(std::string_view)>& each) {
  if (item_) {
    held_.reserve(held_.size() + kPadding);
    each(held_);
    state_ = State::items;
  } else {
    if (keep_) version_ = plain_string(member_text(held_, "resourceVersion"));
    state_ = State::next;
  }
  keep_ = item_ = false;
  held_.clear();
}

Result<FrameHead> read_frame_head(std::string_view frame) {
  FrameHead head;
  Walker walker(frame);
  walker.members([&](std::string_view name) {
    if (name == "object" && !head.type.empty() && frame.ends_with("}}")) {
      // As every server writes it: the last member. Whoever parses the object sees its end anyway.
      head.object = walker.rest().substr(0, walker.rest().size() - 1);
      return false;
    }
    const std::string_view value = walker.value();
    if (name == "type") head.type = plain_string(value);
    if (name == "object") head.object = value;
    return true;
  });
  if (walker.failed() || head.type.empty() || !head.object.starts_with('{')) {
    return invalid_argument("a frame of the watch is no event in JSON");
  }
  return head;
}

Result<MetaHead> read_meta_head(std::string_view object) {
  MetaHead head;
  bool there = false;
  Walker walker(object);
  const auto in_metadata = [&](std::string_view name) {
    const std::string_view value = walker.value();
    if (name == "name") head.name = plain_string(value);
    if (name == "namespace") head.namespace_name = plain_string(value);
    if (name == "uid") head.uid = plain_string(value);
    if (name == "resourceVersion") head.version = plain_string(value);
    return head.name.empty() || head.namespace_name.empty() || head.uid.empty() ||
           head.version.empty();
  };
  walker.members([&](std::string_view name) {
    if (name != "metadata") {
      walker.value();
      return true;
    }
    there = true;
    walker.members(in_metadata);
    return false;
  });
  if (walker.failed() || !there) return invalid_argument("an object has no metadata in JSON");
  return head;
}

std::string_view member_text(std::string_view object, std::string_view name) {
  std::string_view found;
  Walker walker(object);
  walker.members([&](std::string_view member) {
    const std::string_view value = walker.value();
    if (member != name) return true;
    found = value;
    return false;
  });
  return walker.failed() ? std::string_view() : found;
}

}  // namespace berth::kube
