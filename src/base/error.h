// Error: why something that was expected to be able to fail did fail.
//
// An Error is a value: a closed code that programs act on, a message that people act on (it names
// the thing, the value, the rule it broke and the next step), and optionally the error beneath it.
// Thread-safety: a value type; const access from several threads is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace berth {

enum class ErrorCode : std::uint8_t {
  invalid_argument,  // the caller's words or values break a rule; repeating will not help
  not_found,         // the named thing does not exist
  already_exists,    // the named thing exists and may not be given twice
  conflict,          // the state does not allow it now
  exhausted,         // a stated budget or limit ended
  unavailable,       // an outside resource (file, network, device) does not answer
  internal,          // a defect of ours, reported instead of hidden
};

// The lower-case name of a code, e.g. "invalid-argument".
std::string_view error_code_name(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  Error(ErrorCode code, std::string message, Error cause)
      : code_(code),
        message_(std::move(message)),
        cause_(std::make_shared<const Error>(std::move(cause))) {}

  ErrorCode code() const { return code_; }

  const std::string& message() const { return message_; }

  const Error* cause() const { return cause_.get(); }

  // The message, then every cause, joined by ": ".
  std::string to_string() const;

 private:
  ErrorCode code_;
  std::string message_;
  std::shared_ptr<const Error> cause_;
};

inline Error invalid_argument(std::string message) {
  return {ErrorCode::invalid_argument, std::move(message)};
}

}  // namespace berth
