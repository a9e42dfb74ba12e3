// Wire: the bytes of the decision log, below any meaning: varints, zigzag and length-prefixed
// texts.
//
// Integers are LEB128 varints of at most ten bytes, signed ones zigzag first, texts a length and
// their bytes. WireWriter collects small fields in a local block, so that writing costs no
// allocation but the growth of the buffer. WireReader never reads past its input; its first failure
// sticks, names its offset, and every later read gives zero, so that callers check once.
//
// What belongs together is a block: the length of its bytes and their checksum, each of four bytes,
// the lowest first, then the bytes. A damaged bit is seen before a field is read.
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::core {

class WireWriter {
 public:
  explicit WireWriter(std::string& out) : out_(out) {}

  ~WireWriter() { flush(); }

  WireWriter(const WireWriter&) = delete;
  WireWriter& operator=(const WireWriter&) = delete;

  void number(std::uint64_t value) {
    if (used_ + kMaxVarint > kBlock) {
      flush();
    }
    while (value >= 0x80) {
      block_[used_++] = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    block_[used_++] = static_cast<char>(value);
  }

  void signed_number(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }

  void text(std::string_view value) {
    number(value.size());
    if (used_ + value.size() > kBlock) {
      flush();
    }
    if (value.size() > kBlock) {
      out_.append(value);
      return;
    }
    if (!value.empty()) {
      std::memcpy(block_.data() + used_, value.data(), value.size());
    }
    used_ += value.size();
  }

 private:
  static constexpr std::size_t kBlock = 512;
  static constexpr std::size_t kMaxVarint = 10;

  void flush() {
    out_.append(block_.data(), used_);
    used_ = 0;
  }

  std::string& out_;
  std::array<char, kBlock> block_;  // NOLINT: uninitialised on purpose, only [0, used_) is read
  std::size_t used_ = 0;
};

// Any damage inside eight neighbouring bytes changes it before it is folded to 32 bits; for the
// rest the chance of not seeing it is one in four thousand million. The same on every machine.
std::uint32_t checksum(std::string_view bytes);

// A block at the end of `out`, from its construction to close().
class WireBlock {
 public:
  static constexpr std::size_t kHead = 8;

  explicit WireBlock(std::string& out) : out_(out), start_(out.size()) { out_.append(kHead, '\0'); }

  void close();

 private:
  std::string& out_;
  std::size_t start_;
};

// The block that `bytes` begins with. Errors say what is wrong with it, without a place.
struct BlockView {
  std::string_view bytes;  // without the head
  std::size_t size = 0;    // with it
};

Result<BlockView> read_block(std::string_view bytes);

class WireReader {
 public:
  // `base` is the offset of bytes[0] in the whole log, for messages.
  explicit WireReader(std::string_view bytes, std::size_t base = 0) : bytes_(bytes), base_(base) {}

  bool failed() const { return failed_; }

  bool at_end() const { return next_ == bytes_.size(); }

  std::size_t offset() const { return base_ + next_; }

  std::size_t remaining() const { return bytes_.size() - next_; }

  std::uint64_t number();
  std::int64_t signed_number();
  // A number of at most `most`. `what` names the field in messages.
  std::uint64_t bounded(std::uint64_t most, std::string_view what);
  // A count of things of at least one byte each: never more than the bytes that are left.
  std::size_t count();
  std::string_view text();

  // Stops reading here. The first failure is the one that counts.
  void fail(std::string_view what);
  // Requires failed().
  Error error() const;

 private:
  std::string_view bytes_;
  std::size_t base_ = 0;
  std::size_t next_ = 0;
  bool failed_ = false;
  std::size_t failed_at_ = 0;
  std::string message_;
};

}  // namespace berth::core
