#include "sim/csv.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Rows = std::vector<std::vector<std::string>>;

Result<Rows> read_all(std::string_view text, CsvLimits limits = {}) {
  CsvReader reader(text, "f.csv", limits);
  Rows rows;
  std::vector<CsvField> row;
  while (true) {
    TRY(const bool more, reader.next(row));
    if (!more) return rows;
    rows.emplace_back();
    for (const CsvField& field : row)
      rows.back().emplace_back(field.text);
  }
}

std::string message_of(std::string_view text, CsvLimits limits = {}) {
  const Result<Rows> rows = read_all(text, limits);
  return rows.ok() ? "no error" : rows.error().message();
}

const Rows kTwoRows = {{"a", "b"}, {"1", "2"}};

TEST(Csv, ReadsLinesWithAndWithoutCarriageReturns) {
  EXPECT_EQ(read_all("a,b\n1,2\n").value(), kTwoRows);
  EXPECT_EQ(read_all("a,b\r\n1,2\r\n").value(), kTwoRows);
}

TEST(Csv, ReadsAFileWithoutALineBreakAtTheEnd) {
  EXPECT_EQ(read_all("a,b\n1,2").value(), kTwoRows);
  EXPECT_EQ(read_all("a,b\r\n1,2\r").value(), kTwoRows);
}

TEST(Csv, SkipsAByteOrderMark) {
  EXPECT_EQ(read_all("\xEF\xBB\xBF"
                     "a,b\n1,2")
                .value(),
            kTwoRows);
}

TEST(Csv, ReadsQuotedFieldsWithCommasQuotesAndLineBreaks) {
  EXPECT_EQ(read_all("\"a,\"\"x\"\"\",b\n\"1\n2\",\"\"\n").value(),
            (Rows{{"a,\"x\"", "b"}, {"1\n2", ""}}));
}

TEST(Csv, KeepsEmptyFieldsAndReadsNothingFromAnEmptyFile) {
  EXPECT_EQ(read_all(",\n,,x\n").value(), (Rows{{"", ""}, {"", "", "x"}}));
  EXPECT_EQ(read_all("").value(), Rows{});
  EXPECT_EQ(read_all("\xEF\xBB\xBF").value(), Rows{});
}

TEST(Csv, NamesLineAndColumnOfANulByte) {
  EXPECT_THAT(message_of(std::string_view("a,b\n1,\0\n", 8)),
              StartsWith("f.csv:2:3: a NUL byte: this is not a text file"));
}

TEST(Csv, NamesLineAndColumnOfInvalidUtf8CountingCharacters) {
  EXPECT_THAT(message_of("\xC3\xA4\xC3\xA4,\xFF\n"),
              StartsWith("f.csv:1:4: byte 0xff is not valid UTF-8"));
}

TEST(Csv, RefusesOverlongSurrogateAndTruncatedSequences) {
  for (const char* bad : {"\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xF8\x88", "\xE2\x82", "\x80"}) {
    EXPECT_EQ(first_invalid_utf8(bad), 0U) << bad;
  }
  EXPECT_EQ(first_invalid_utf8("12345678\xF0\x9F\x9A\xA2 12345678"), std::string_view::npos);
}

TEST(Csv, RefusesAQuoteInsideAPlainField) {
  EXPECT_THAT(message_of("a,b\n1,2\"3\n"), StartsWith("f.csv:2:4: a quote inside a field"));
}

TEST(Csv, RefusesTextBehindAClosingQuote) {
  EXPECT_THAT(message_of("\"a\"b,c\n"), StartsWith("f.csv:1:4: text behind a closing quote"));
}

TEST(Csv, PointsAtTheQuoteThatIsNeverClosed) {
  EXPECT_THAT(message_of("a,b\n1,\"2\n3,4\n"), StartsWith("f.csv:2:3: this quote is never closed"));
}

TEST(Csv, RefusesACarriageReturnAlone) {
  EXPECT_THAT(message_of("a,b\r1,2\r"), StartsWith("f.csv:1:4: a carriage return without"));
}

TEST(Csv, RefusesARowOfTwentyMegabytes) {
  const std::string text = "a,b\n" + std::string(20'000'000, 'x') + "\n";
  EXPECT_THAT(message_of(text), StartsWith("f.csv:2:1: this row is longer than 1048576 bytes"));
  EXPECT_THAT(message_of("a\n\"" + std::string(20'000'000, 'x') + "\"\n"),
              StartsWith("f.csv:2:1: this row is longer"));
}

TEST(Csv, RefusesMoreFieldsThanTheLimit) {
  EXPECT_THAT(message_of("a,b,c\n", {.row_bytes = 100, .columns = 2}),
              StartsWith("f.csv:1:5: more than 2 fields"));
}

TEST(Csv, ShowsValuesCutAndSpelledOut) {
  EXPECT_EQ(quoted_for_message("T4"), "\"T4\"");
  EXPECT_EQ(quoted_for_message("a\nb"), "\"a\\x0ab\"");
  EXPECT_EQ(quoted_for_message(std::string(50, 'x')),
            "\"" + std::string(40, 'x') + "\" (and 10 bytes more)");
}

}  // namespace
}  // namespace berth::sim
