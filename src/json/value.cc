#include "json/value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <simdjson.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace berth::json {

const Value* Value::find(std::string_view name) const {
  if (!is_object()) {
    return nullptr;
  }
  for (const Member& member : as_object()) {
    if (member.first == name) {
      return &member.second;
    }
  }
  return nullptr;
}

Value& Value::set(std::string name, Value value) {
  for (Member& member : object()) {
    if (member.first == name) {
      member.second = std::move(value);
      return *this;
    }
  }
  object().emplace_back(std::move(name), std::move(value));
  return *this;
}

std::string_view Value::text(std::string_view name, std::string_view otherwise) const {
  const Value* found = find(name);
  return found != nullptr && found->is_string() ? std::string_view(found->as_string()) : otherwise;
}

std::int64_t Value::integer(std::string_view name, std::int64_t otherwise) const {
  const Value* found = find(name);
  return found != nullptr && found->is_integer() ? found->as_integer() : otherwise;
}

bool Value::flag(std::string_view name, bool otherwise) const {
  const Value* found = find(name);
  return found != nullptr && found->is_bool() ? found->as_bool() : otherwise;
}

bool Value::operator==(const Value& other) const { return held_ == other.held_; }

Value object(std::initializer_list<Member> members) { return Value(Object(members)); }

Value object_of(std::size_t members) {
  Object object;
  object.reserve(members);
  return object;
}

Value array(std::initializer_list<Value> items) { return Value(Array(items)); }

std::string_view kind_name(const Value& value) {
  if (value.is_null()) {
    return "null";
  }
  if (value.is_bool()) {
    return "true or false";
  }
  if (value.is_integer() || value.is_double()) {
    return "a number";
  }
  if (value.is_string()) {
    return "a string";
  }
  return value.is_array() ? "a list" : "an object";
}

namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

// Fails with the name that stands twice in one object.
std::optional<std::string> convert(const element& from, Value& into);

std::optional<std::string> convert_object(const simdjson::dom::object& from, Value& into) {
  Object members;
  members.reserve(from.size());
  std::vector<std::string_view> names;
  names.reserve(from.size());
  for (const auto& [name, value] : from) {
    names.push_back(name);
    members.emplace_back(std::string(name), Value());
    if (auto twice = convert(value, members.back().second)) {
      return twice;
    }
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    return std::string(*twice);
  }
  into = Value(std::move(members));
  return std::nullopt;
}

std::optional<std::string> convert_array(const simdjson::dom::array& from, Value& into) {
  Array items;
  items.reserve(from.size());
  for (const element& item : from) {
    items.emplace_back();
    if (auto twice = convert(item, items.back())) {
      return twice;
    }
  }
  into = Value(std::move(items));
  return std::nullopt;
}

std::optional<std::string> convert(const element& from, Value& into) {
  switch (from.type()) {
    case element_type::NULL_VALUE: into = Value(); break;
    case element_type::BOOL: into = Value(bool(from)); break;
    case element_type::INT64: into = Value(std::int64_t(from)); break;
    case element_type::UINT64: into = Value(static_cast<double>(std::uint64_t(from))); break;
    case element_type::DOUBLE: into = Value(double(from)); break;
    case element_type::STRING: into = Value(std::string_view(from)); break;
    case element_type::ARRAY: return convert_array(simdjson::dom::array(from), into);
    case element_type::OBJECT: return convert_object(simdjson::dom::object(from), into);
  }
  return std::nullopt;
}

void append_string(std::string& out, const std::string& text) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(bool pretty) : pretty_(pretty) {}

  void write(const Value& value) {
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_integer()) {
      out_ += fmt::format_int(value.as_integer()).c_str();
    } else if (value.is_double()) {
      out_ += std::isfinite(value.as_double()) ? nlohmann::json(value.as_double()).dump() : "null";
    } else if (value.is_string()) {
      append_string(out_, value.as_string());
    } else if (value.is_array()) {
      write_items('[', ']', value.as_array(), [this](const Value& item) { write(item); });
    } else {
      write_items('{', '}', value.as_object(), [this](const Member& member) {
        append_string(out_, member.first);
        out_ += pretty_ ? ": " : ":";
        write(member.second);
      });
    }
  }

  std::string take() { return std::move(out_); }

 private:
  template <typename Items, typename Each>
  void write_items(char open, char close, const Items& items, const Each& each) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) {
        out_ += ',';
      }
      first = false;
      new_line();
      each(item);
    }
    --depth_;
    if (!first) {
      new_line();
    }
    out_ += close;
  }

  void new_line() {
    if (pretty_) {
      out_ += '\n';
      out_.append(depth_ * 2, ' ');
    }
  }

  std::string out_;
  std::size_t depth_ = 0;
  bool pretty_;
};

}  // namespace

Result<Value> parse(std::string_view text) {
  // One parser per thread: its buffers grow to the largest text and stay.
  thread_local simdjson::dom::parser parser;
  if (parser.max_depth() != kMaxDepth && parser.allocate(4096, kMaxDepth) != simdjson::SUCCESS) {
    return Error(ErrorCode::exhausted, "no memory to read JSON");
  }
  element root;
  if (const auto error = parser.parse(text.data(), text.size(), true).get(root)) {
    return invalid_argument(fmt::format("not JSON: {}", simdjson::error_message(error)));
  }
  Value value;
  if (const auto twice = convert(root, value)) {
    return invalid_argument(
        fmt::format("the name \"{}\" stands twice in one object; keep one of them", *twice));
  }
  return value;
}

std::string dump(const Value& value) {
  Writer writer(false);
  writer.write(value);
  return writer.take();
}

std::string dump_pretty(const Value& value) {
  Writer writer(true);
  writer.write(value);
  return writer.take();
}

}  // namespace berth::json
