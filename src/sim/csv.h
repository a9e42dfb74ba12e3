// CsvReader: rows of a comma-separated file, strictly.
//
//   CsvReader reader(text, "pods.csv");
//   std::vector<CsvField> row;
//   while (true) {
//     TRY(const bool more, reader.next(row));
//     if (!more) break;
//     use(row[0].text);
//   }
//
// Reads what RFC 4180 describes (commas, double quotes, "" inside quotes, line breaks inside
// quotes), with LF or CRLF, with or without a byte order mark, with or without a line break at the
// end. Refuses everything else with file:line:column: NUL bytes, text that is not UTF-8, quotes in
// the middle of a field, a carriage return alone, lines beyond the limits.
//
// Fields are views into the text or, where quotes had to be removed, into the reader: they are
// valid until the next call. Columns in messages count characters from 1, not bytes. Thread-safety:
// none. The text must outlive the reader.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::sim {

struct CsvLimits {
  std::size_t row_bytes = std::size_t{1} << 20;
  std::size_t columns = 256;
};

struct CsvField {
  std::string_view text;
  std::size_t offset = 0;  // of its first byte (the quote, if it has one) in the text
};

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string file, CsvLimits limits = {});

  // Reads the next row into `row`; false at the end. A file without any row has no first row.
  Result<bool> next(std::vector<CsvField>& row);

  // "pods.csv:7:12" of a byte of the text. Cost: the text up to there; for messages only.
  std::string position(std::size_t offset) const;

  std::size_t row_offset() const { return row_begin_; }  // where the last row began

 private:
  Result<void> check_text();
  Result<CsvField> read_plain();
  Result<CsvField> read_quoted();
  // Steps over the comma or line break behind a field; tells whether the row goes on.
  Result<bool> step_over_separator();
  Result<void> check_row_length() const;
  Error error_at(std::size_t offset, std::string_view problem) const;

  std::string_view text_;
  std::string file_;
  CsvLimits limits_;
  bool checked_ = false;
  std::size_t at_ = 0;
  std::size_t row_begin_ = 0;
  std::deque<std::string> unquoted_;  // of this row; a deque keeps views valid
};

// A value for a message: in quotes, cut after some characters, control characters spelled out.
std::string quoted_for_message(std::string_view value);

// The offset of the first byte that is not part of valid UTF-8; npos if there is none.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace berth::sim
