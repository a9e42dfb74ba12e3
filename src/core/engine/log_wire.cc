#include "core/engine/log_wire.h"

#include <bit>

#include <fmt/core.h>

#include "base/assert.h"

namespace berth::core {

namespace {

std::uint64_t low_first(std::string_view bytes) {
  std::uint64_t value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    if (bytes.size() == sizeof value) {  // the loop, in one load
      std::memcpy(&value, bytes.data(), sizeof value);
      return value;
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

void put_low_first(std::string& out, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) {
    out[at + i] = static_cast<char>(value >> (8 * i) & 0xFFU);
  }
}

}  // namespace

// Eight bytes a step: multiplying by an odd number and folding the high half in are both
// reversible, so two texts that differ in one step differ to the end.
std::uint32_t checksum(std::string_view bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  std::uint64_t state = (bytes.size() + 1) * kOdd;  // zeros are no block
  const auto step = [&state](std::uint64_t word) {
    state = (state ^ word) * kOdd;
    state ^= state >> 32U;
  };
  while (bytes.size() >= 8) {
    step(low_first(bytes.substr(0, 8)));
    bytes.remove_prefix(8);
  }
  step(low_first(bytes));
  step(0);
  return static_cast<std::uint32_t>(state ^ state >> 32U);
}

void WireBlock::close() {
  const std::size_t length = out_.size() - start_ - kHead;
  ASSERT(length <= 0xFFFFFFFFU, length);
  put_low_first(out_, start_, static_cast<std::uint32_t>(length));
  put_low_first(out_, start_ + 4, checksum(std::string_view(out_).substr(start_ + kHead)));
}

Result<BlockView> read_block(std::string_view bytes) {
  if (bytes.size() < WireBlock::kHead) {
    return invalid_argument(fmt::format("is cut off: {} bytes are left", bytes.size()));
  }
  const std::uint64_t length = low_first(bytes.substr(0, 4));
  const std::size_t left = bytes.size() - WireBlock::kHead;
  if (length > left) {
    return invalid_argument(fmt::format(
        "is cut off or damaged: it should have {} bytes and {} are left", length, left));
  }
  const BlockView block{.bytes = bytes.substr(WireBlock::kHead, length),
                        .size = WireBlock::kHead + static_cast<std::size_t>(length)};
  if (low_first(bytes.substr(4, 4)) != checksum(block.bytes)) {
    return invalid_argument("is damaged: its checksum does not match");
  }
  return block;
}

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
