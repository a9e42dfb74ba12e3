// ASSERT: an invariant that stays on in release builds and prints the values it was given.
//
//   ASSERT(committed <= usable, committed, usable);
//
// For our own mistakes only: nothing a user can write reaches an assertion. A broken invariant ends
// the process at once, since books that are wrong must not be acted on.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace berth {

// One value in an assertion's report: an integer or a text.
class AssertValue {
 public:
  template <std::integral T>
  AssertValue(T number) : number_(static_cast<std::int64_t>(number)) {}  // NOLINT: implicit

  AssertValue(std::string_view text) : text_(text), is_text_(true) {}  // NOLINT: implicit

  AssertValue(const char* text) : text_(text), is_text_(true) {}  // NOLINT: implicit

  AssertValue(const std::string& text) : text_(text), is_text_(true) {}  // NOLINT: implicit

  bool is_text() const { return is_text_; }

  std::int64_t number() const { return number_; }

  std::string_view text() const { return text_; }

 private:
  std::int64_t number_ = 0;
  std::string_view text_;
  bool is_text_ = false;
};

struct AssertSite {
  const char* condition;
  const char* file;
  int line;
  const char* names;  // the further arguments as written, comma separated
};

// Prints the site and the values to standard error and aborts.
[[noreturn]] void assert_failed(const AssertSite& site, std::initializer_list<AssertValue> values);

}  // namespace berth

#define ASSERT(condition, ...)                       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::berth::assert_failed(                     \
             ::berth::AssertSite{#condition, __FILE__, __LINE__, "" #__VA_ARGS__}, {__VA_ARGS__}))
