// Result<T>: a T, or the Error that says why there is none.
//
//   Result<Memory> parse_memory(std::string_view text);
//   Result<Plan> plan(std::string_view text) {
//     TRY(Memory memory, parse_memory(text));   // returns the Error to our caller
//     return Plan{memory};
//   }
//
// A thin [[nodiscard]] class over std::expected: ignoring a Result does not compile cleanly. The
// libstdc++ of g++ 12 has neither the monadic members nor the nodiscard of std::expected.
// Requires: value() only when ok(), error() only when not.
#pragma once

#include <expected>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace berth {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : inner_(std::move(value)) {}  // NOLINT: implicit on purpose

  Result(Error error) : inner_(std::unexpected(std::move(error))) {}  // NOLINT: implicit on purpose

  bool ok() const { return inner_.has_value(); }

  explicit operator bool() const { return ok(); }

  const T& value() const& {
    ASSERT(ok());
    return *inner_;
  }

  T& value() & {
    ASSERT(ok());
    return *inner_;
  }

  T&& value() && {
    ASSERT(ok());
    return *std::move(inner_);
  }

  const T& operator*() const& { return value(); }

  T& operator*() & { return value(); }

  T&& operator*() && { return std::move(*this).value(); }

  const T* operator->() const { return &value(); }

  T* operator->() { return &value(); }

  const Error& error() const& {
    ASSERT(!ok());
    return inner_.error();
  }

  Error&& error() && {
    ASSERT(!ok());
    return std::move(inner_).error();
  }

 private:
  std::expected<T, Error> inner_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;

  Result(Error error) : inner_(std::unexpected(std::move(error))) {}  // NOLINT: implicit on purpose

  bool ok() const { return inner_.has_value(); }

  explicit operator bool() const { return ok(); }

  const Error& error() const& {
    ASSERT(!ok());
    return inner_.error();
  }

  Error&& error() && {
    ASSERT(!ok());
    return std::move(inner_).error();
  }

 private:
  std::expected<void, Error> inner_;
};

inline Result<void> success() { return {}; }

}  // namespace berth

#define BERTH_CONCAT_INNER(a, b) a##b
#define BERTH_CONCAT(a, b) BERTH_CONCAT_INNER(a, b)

// TRY(declaration, expression): evaluates a Result; on error returns it from the enclosing
// function, else initialises the declaration with the value.
#define TRY(declaration, expression) \
  TRY_NAMED(BERTH_CONCAT(try_result_, __LINE__), declaration, expression)
#define TRY_NAMED(name, declaration, expression) \
  auto name = (expression);                      \
  if (!name.ok()) {                              \
    return std::move(name).error();              \
  }                                              \
  declaration = std::move(name).value()

// TRY_VOID(expression): the same for a Result whose value is not needed.
#define TRY_VOID(expression)                                          \
  do {                                                                \
    if (auto try_void_result = (expression); !try_void_result.ok()) { \
      return std::move(try_void_result).error();                      \
    }                                                                 \
  } while (false)
