// Value: one JSON value, as a plain tree.
//
//   TRY(json::Value body, json::parse(text));
//   if (const json::Value* key = body.find("key")) …
//   json::Value answer = json::object({{"id", "l-1"}, {"memory_mib", 4096}});
//   std::string text = json::dump(answer);
//
// Whole numbers within 63 bits are integers; all other numbers are doubles, so that a reader can
// tell 4096 from 4096.5. Thread-safety: a value type.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace berth::json {

class Value;
using Member = std::pair<std::string, Value>;
using Array = std::vector<Value>;
using Object = std::vector<Member>;

class Value {
 public:
  Value() = default;
  Value(std::nullptr_t) {}     // NOLINT: JSON's own words
  Value(bool v) : held_(v) {}  // NOLINT
  template <std::integral T>
  Value(T v) : held_(static_cast<std::int64_t>(v)) {}   // NOLINT
  Value(double v) : held_(v) {}                         // NOLINT
  Value(std::string v) : held_(std::move(v)) {}         // NOLINT
  Value(std::string_view v) : held_(std::string(v)) {}  // NOLINT
  Value(const char* v) : held_(std::string(v)) {}       // NOLINT
  Value(Array v) : held_(std::move(v)) {}               // NOLINT
  Value(Object v) : held_(std::move(v)) {}              // NOLINT

  bool is_null() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_bool() const { return std::holds_alternative<bool>(held_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(held_); }
  bool is_double() const { return std::holds_alternative<double>(held_); }
  bool is_string() const { return std::holds_alternative<std::string>(held_); }
  bool is_array() const { return std::holds_alternative<Array>(held_); }
  bool is_object() const { return std::holds_alternative<Object>(held_); }

  // Each requires its kind.
  bool as_bool() const { return std::get<bool>(held_); }
  std::int64_t as_integer() const { return std::get<std::int64_t>(held_); }
  double as_double() const { return std::get<double>(held_); }
  const std::string& as_string() const { return std::get<std::string>(held_); }
  const Array& as_array() const { return std::get<Array>(held_); }
  const Object& as_object() const { return std::get<Object>(held_); }
  Array& array() { return std::get<Array>(held_); }
  Object& object() { return std::get<Object>(held_); }

  // The member of an object; null when there is none or this is no object.
  const Value* find(std::string_view name) const;
  // Adds or replaces a member. Requires an object.
  Value& set(std::string name, Value value);
  // Adds a member whose name is new. Requires an object. For builders: nothing is looked for.
  Value& add(std::string_view name, Value value) & {
    object().emplace_back(name, std::move(value));
    return *this;
  }

  Value&& add(std::string_view name, Value value) && {
    return std::move(add(name, std::move(value)));
  }

  // For readers that are content with a default when the member is absent or of another kind.
  std::string_view text(std::string_view name, std::string_view otherwise = {}) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  bool flag(std::string_view name, bool otherwise = false) const;

  bool operator==(const Value&) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> held_;
};

Value object(std::initializer_list<Member> members = {});
// An empty object with room for so many members.
Value object_of(std::size_t members);
Value array(std::initializer_list<Value> items = {});

// The kind in people's words: "a string", "an object".
std::string_view kind_name(const Value& value);

// Errors: invalid_argument with the place and what is wrong: syntax, text that is not UTF-8, a name
// twice in one object, or more than `kMaxDepth` levels.
inline constexpr int kMaxDepth = 64;
Result<Value> parse(std::string_view text);

// Compact, one line. Bytes that are not UTF-8 are replaced, never an error.
std::string dump(const Value& value);
// Two spaces per level, for people.
std::string dump_pretty(const Value& value);

}  // namespace berth::json
