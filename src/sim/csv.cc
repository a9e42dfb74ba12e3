#include "sim/csv.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace berth::sim {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Length of the UTF-8 sequence that begins at `at`; 0 if it is not a valid one.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at once: trace files hardly contain anything else.
    while (at + 8 <= text.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080U) != 0) break;
      at += 8;
    }
    if (at >= text.size()) break;
    const std::size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string quoted_for_message(std::string_view value) {
  constexpr std::size_t kShown = 40;
  std::string shown = "\"";
  std::size_t at = 0;
  for (std::size_t count = 0; at < value.size() && count < kShown; ++count) {
    const std::size_t length = sequence_length(value, at);
    const auto byte = static_cast<unsigned char>(value[at]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
      ++at;
    } else {
      shown += value.substr(at, length);
      at += length;
    }
  }
  shown += '"';
  if (at < value.size()) shown += fmt::format(" (and {} bytes more)", value.size() - at);
  return shown;
}

CsvReader::CsvReader(std::string_view text, std::string file, CsvLimits limits)
    : text_(text), file_(std::move(file)), limits_(limits) {}

std::string CsvReader::position(std::size_t offset) const {
  const std::string_view before = text_.substr(0, std::min(offset, text_.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t line_break = before.rfind('\n');
  std::string_view in_line =
      line_break == std::string_view::npos ? before : before.substr(line_break + 1);
  if (line == 1 && in_line.starts_with(kByteOrderMark)) in_line.remove_prefix(3);
  const auto column =
      1 + std::ranges::count_if(in_line, [](char byte) { return !is_continuation(byte); });
  return fmt::format("{}:{}:{}", file_, line, column);
}

Error CsvReader::error_at(std::size_t offset, std::string_view problem) const {
  return invalid_argument(fmt::format("{}: {}", position(offset), problem));
}

Result<void> CsvReader::check_text() {
  checked_ = true;
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  if (const std::size_t nul = text_.find('\0'); nul != std::string_view::npos) {
    return error_at(nul,
                    "a NUL byte: this is not a text file, or it was damaged; save it as CSV in "
                    "UTF-8 (UTF-16 is not read)");
  }
  if (const std::size_t bad = first_invalid_utf8(text_); bad != std::string_view::npos) {
    return error_at(bad, fmt::format("byte 0x{:02x} is not valid UTF-8; save the file in UTF-8",
                                     static_cast<unsigned char>(text_[bad])));
  }
  return success();
}

Result<void> CsvReader::check_row_length() const {
  if (at_ - row_begin_ <= limits_.row_bytes) return success();
  return error_at(row_begin_,
                  fmt::format("this row is longer than {} bytes; is a line break or a closing "
                              "quote missing?",
                              limits_.row_bytes));
}

Result<bool> CsvReader::next(std::vector<CsvField>& row) {
  if (!checked_) TRY_VOID(check_text());
  row.clear();
  unquoted_.clear();
  row_begin_ = at_;
  if (at_ >= text_.size()) return false;
  while (true) {
    if (row.size() == limits_.columns) {
      return error_at(at_, fmt::format("more than {} fields in one row; commas inside a value need "
                                       "quotes around it",
                                       limits_.columns));
    }
    const bool quoted = at_ < text_.size() && text_[at_] == '"';
    TRY(const CsvField field, quoted ? read_quoted() : read_plain());
    row.push_back(field);
    TRY(const bool more, step_over_separator());
    if (!more) return true;
  }
}

Result<CsvField> CsvReader::read_plain() {
  const std::size_t begin = at_;
  // The limit bounds the search, so that a file without line breaks is refused at once.
  const std::size_t stop = std::min(text_.size(), row_begin_ + limits_.row_bytes + 1);
  while (at_ < stop && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
    if (text_[at_] == '"') {
      return error_at(at_,
                      "a quote inside a field that does not begin with one; put the whole value in "
                      "quotes and double the quotes inside it");
    }
    ++at_;
  }
  TRY_VOID(check_row_length());
  return CsvField{.text = text_.substr(begin, at_ - begin), .offset = begin};
}

Result<CsvField> CsvReader::read_quoted() {
  const std::size_t begin = at_++;
  std::string value;
  bool doubled = false;
  std::size_t piece = at_;
  while (true) {
    const std::size_t quote = text_.find('"', at_);
    if (quote == std::string_view::npos) {
      return error_at(begin, "this quote is never closed; add the closing quote");
    }
    at_ = quote + 1;
    TRY_VOID(check_row_length());
    if (at_ >= text_.size() || text_[at_] != '"') {
      const std::string_view last = text_.substr(piece, quote - piece);
      if (!doubled) return CsvField{.text = last, .offset = begin};
      value += last;
      unquoted_.push_back(std::move(value));
      return CsvField{.text = unquoted_.back(), .offset = begin};
    }
    value += text_.substr(piece, at_ - piece);  // with one of the two quotes
    doubled = true;
    piece = ++at_;
  }
}

Result<bool> CsvReader::step_over_separator() {
  if (at_ >= text_.size()) return false;
  switch (text_[at_]) {
    case ',': ++at_; return true;
    case '\n': ++at_; return false;
    case '\r':
      if (at_ + 1 == text_.size() || text_[at_ + 1] == '\n') {
        at_ = std::min(at_ + 2, text_.size());
        return false;
      }
      return error_at(at_,
                      "a carriage return without a line feed; lines end with LF or CR LF here");
    default:
      return error_at(at_,
                      "text behind a closing quote; only a comma or the end of the line may "
                      "follow it");
  }
}

}  // namespace berth::sim
