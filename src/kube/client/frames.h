// Frames: the pieces that watches and lists consist of, out of bytes that are cut anywhere
// (kubernetes-api.md 2.3).
//
// Thread-safety: none. A view given to a callback is valid during it and kPadding bytes follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::kube {

// No object is larger: etcd keeps 1.5 MiB, and JSON is not three times as long.
inline constexpr std::size_t kMostFrame = std::size_t{8} << 20U;

// Lines of a watch.
class FrameSplitter {
 public:
  // Calls `each` for every line that the bytes complete; stops for good when it says false. False
  // too: a line is longer than kMostFrame.
  bool feed(std::string_view bytes, const std::function<bool(std::string_view)>& each);
  // Bytes of a line that has not ended.
  std::size_t unfinished() const { return held_.size(); }
  void clear() { held_.clear(); }

 private:
  std::string held_;
};

// The items of a list, one after another, and its resourceVersion.
class ListSplitter {
 public:
  // Errors: invalid_argument when it is no list. `each` as above, for every item.
  Result<void> feed(std::string_view bytes, const std::function<void(std::string_view)>& each);
  // Whether the whole list has come.
  bool complete() const { return state_ == State::over; }
  // Empty until its metadata came.
  const std::string& resource_version() const { return version_; }

 private:
  enum class State : std::uint8_t { start, name, colon, value, next, items, over };

  Result<void> step(char c, const std::function<void(std::string_view)>& each);
  Result<void> in_value(char c, const std::function<void(std::string_view)>& each);
  void close_value(const std::function<void(std::string_view)>& each);

  State state_ = State::start;
  bool in_string_ = false;
  bool escaped_ = false;
  bool begun_ = false;  // a byte of the value being read has come
  bool keep_ = false;   // the value being read is wanted
  bool item_ = false;   // it is one of the items
  int depth_ = 0;       // of the value being read
  std::string name_;    // of the member being read
  std::string held_;    // the name or the value so far
  std::string version_;
};

// What stands in `metadata`, without a full parse, as far as it takes to find all of it. Views into
// the text; empty: not there.
struct MetaHead {
  std::string_view namespace_name{};
  std::string_view name{};
  std::string_view uid{};
  std::string_view version{};
};

struct FrameHead {
  std::string_view type{};    // "ADDED"
  std::string_view object{};  // as text
};

// Errors: invalid_argument where the text is no such JSON. What is skipped is not checked.
Result<FrameHead> read_frame_head(std::string_view frame);
Result<MetaHead> read_meta_head(std::string_view object);
// The text of a member of an object, e.g. for "metadata"; empty: none, or no JSON.
std::string_view member_text(std::string_view object, std::string_view name);

}  // namespace berth::kube
