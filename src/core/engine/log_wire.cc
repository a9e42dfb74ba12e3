#include "core/engine/log_wire.h"

#include <fmt/core.h>

namespace berth::core {

std::uint64_t WireReader::number() {
  if (failed_) {
    return 0;
  }
  const std::size_t start = next_;
  std::uint64_t value = 0;
  for (int shift = 0; next_ < bytes_.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes_[next_++]);
    if (shift == 63 && byte > 1) {
      next_ = start;
      fail("a number exceeds 64 bits");
      return 0;
    }
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) {
      return value;
    }
  }
  fail("the log ends inside a number");
  return 0;
}

std::int64_t WireReader::signed_number() {
  const std::uint64_t zigzag = number();
  return static_cast<std::int64_t>((zigzag >> 1) ^ (~(zigzag & 1) + 1));
}

std::uint64_t WireReader::bounded(std::uint64_t most, std::string_view what) {
  const std::size_t start = next_;
  const std::uint64_t value = number();
  if (value > most && !failed_) {
    next_ = start;
    fail(fmt::format("{} is {}; the largest known is {}", what, value, most));
    return 0;
  }
  return value;
}

std::size_t WireReader::count() {
  const std::size_t start = next_;
  const std::uint64_t value = number();
  if (value > remaining() && !failed_) {
    const std::size_t left = remaining();
    next_ = start;
    fail(fmt::format("a length of {} where {} bytes are left", value, left));
    return 0;
  }
  return static_cast<std::size_t>(value);
}

std::string_view WireReader::text() {
  const std::size_t length = count();
  const std::string_view value = bytes_.substr(next_, length);
  next_ += length;
  return value;
}

void WireReader::fail(std::string_view what) {
  if (failed_) {
    return;
  }
  failed_ = true;
  failed_at_ = offset();
  message_ = what;
}

Error WireReader::error() const {
  ASSERT(failed_);
  return invalid_argument(fmt::format("decision log, byte {}: {}", failed_at_, message_));
}

}  // namespace berth::core
