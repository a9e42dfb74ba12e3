#include "base/printable.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Printable, LeavesWhatCanBeShownAsItIs) {
  EXPECT_EQ(printable("job-7 of Zoë: 4 GiB \\ \"x\""), "job-7 of Zoë: 4 GiB \\ \"x\"");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ShowsControlCharactersAndBrokenBytesAsNumbers) {
  EXPECT_EQ(printable("a\x1b[31mb\x7f"), "a\\x1b[31mb\\x7f");
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");  // a C1 control
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("a\u202Etxt"), "a\\xe2\\x80\\xaetxt");  // what follows would run backwards
  EXPECT_EQ(printable("a\u2028b\u2069"), "a\\xe2\\x80\\xa8b\\xe2\\x81\\xa9");
  EXPECT_EQ(printable("…–“"), "…–“");
}

TEST(Printable, KeepsTheLinesOfALongerText) {
  EXPECT_EQ(printable_lines("a\r\nb\x07\n"), "a\\x0d\nb\\x07\n");
}

TEST(Printable, ShortensWithoutCuttingACharacter) {
  EXPECT_EQ(shortened("node", 4), "node");
  EXPECT_EQ(shortened("nodes", 4), "n...");
  EXPECT_EQ(shortened("aëbcd", 5), "a...");
}

}  // namespace
}  // namespace berth
