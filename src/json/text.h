// Text: JSON written straight into a string, without a tree.
//
//   json::Text text;
//   text.open_object().key("id").put("l-1").key("sizes").open_list().put(4096).close_list();
//   std::string body = text.close_object().take();
//
// Commas come by themselves. Who wants members sorted writes them sorted. Requires: keys only in
// objects, each followed by one value; every open is closed before take(). Bytes that are not UTF-8
// become U+FFFD, never an error. Thread-safety: a value type.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace berth::json {

// The text in quotes, escaped.
void append_quoted(std::string& out, std::string_view text);

class Text {
 public:
  Text() = default;

  explicit Text(std::size_t bytes) { out_.reserve(bytes); }

  Text& open_object() { return open('{'); }
  Text& close_object() { return close('}'); }
  Text& open_list() { return open('['); }
  Text& close_list() { return close(']'); }

  Text& key(std::string_view name) {
    comma();
    append_quoted(out_, name);
    out_ += ':';
    first_ = true;  // the value comes without a comma
    return *this;
  }

  Text& put(std::string_view text) {
    comma();
    append_quoted(out_, text);
    return *this;
  }

  Text& put(const char* text) { return put(std::string_view(text)); }
  Text& put(const std::string& text) { return put(std::string_view(text)); }

  template <std::integral T>
  Text& put(T value) {
    comma();
    if constexpr (std::same_as<T, bool>) {
      out_ += value ? "true" : "false";
    } else {
      append_number(static_cast<std::int64_t>(value));
    }
    return *this;
  }

  Text& put_null() { return put_raw("null"); }

  // What is JSON already.
  Text& put_raw(std::string_view json) {
    comma();
    out_ += json;
    return *this;
  }

  std::string take() { return std::move(out_); }

 private:
  void comma() {
    if (!first_) {
      out_ += ',';
    }
    first_ = false;
  }

  Text& open(char bracket) {
    comma();
    out_ += bracket;
    first_ = true;
    return *this;
  }

  Text& close(char bracket) {
    out_ += bracket;
    first_ = false;
    return *this;
  }

  void append_number(std::int64_t value);

  std::string out_;
  bool first_ = true;  // nothing stands before in this place
};

}  // namespace berth::json
