#include "base/error.h"

namespace berth {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid-argument";
    case ErrorCode::not_found: return "not-found";
    case ErrorCode::already_exists: return "already-exists";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::exhausted: return "exhausted";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string text = message_;
  for (const Error* next = cause(); next != nullptr; next = next->cause()) {
    text += ": ";
    text += next->message();
  }
  return text;
}

}  // namespace berth
