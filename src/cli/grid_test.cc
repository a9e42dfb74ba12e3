// Tables as terminals of any width show them, and text that is coloured, cut and wrapped.
#include "cli/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Grid jobs() {
  Grid grid({{.title = "ID"},
             {.title = "FREE", .right = true, .rank = 1},
             {.title = "WHY", .elastic = true},
             {.title = "OWNER", .rank = 2}});
  grid.add({"l-0001", {"4GiB", Tone::good}, "waits for the end of the one before it", "ada"});
  grid.add({"l-0002", "", "", "grace"});
  return grid;
}

TEST(Grid, AlignsItsColumnsAndLeavesNoBlanksAtLineEnds) {
  EXPECT_EQ(jobs().text({}),
            "ID      FREE  WHY                                     OWNER\n"
            "l-0001  4GiB  waits for the end of the one before it  ada\n"
            "l-0002                                                grace\n");
}

TEST(Grid, CutsTheElasticColumnFirst) {
  const std::string text = jobs().text({.columns = 50, .utf8 = true});
  EXPECT_THAT(text, HasSubstr("l-0001  4GiB  waits for the end of the one…  ada\n"));
}

TEST(Grid, ColumnsGoByTheirRankAndTheLastOnesStay) {
  const std::string narrow = jobs().text({.columns = 38});
  EXPECT_THAT(narrow, Not(HasSubstr("OWNER")));
  EXPECT_THAT(narrow, HasSubstr("FREE"));
  const std::string narrower = jobs().text({.columns = 30});
  EXPECT_THAT(narrower, Not(HasSubstr("FREE")));
  EXPECT_THAT(narrower, HasSubstr("l-0001  waits for the end of ."));
  EXPECT_THAT(jobs().text({.columns = 3}), HasSubstr("l-0001"));
}

TEST(Grid, NoLineIsWiderThanTheTerminalWhereTheFixedColumnsFit) {
  for (std::size_t columns = 28; columns < 90; ++columns) {
    const std::string text = jobs().text({.columns = columns});
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = text.find('\n', at);
      EXPECT_LE(text_width(text.substr(at, end - at)), columns) << text;
      at = end + 1;
    }
  }
}

TEST(Grid, ColoursWordsAndNotTheBlanksAroundThem) {
  EXPECT_THAT(jobs().text({.colour = true}), HasSubstr("  \x1b[32m4GiB\x1b[0m  "));
}

TEST(Grid, WhatSomebodyCalledAJobIsNoCommandToTheTerminal) {
  Grid grid({{.title = "NAME"}});
  grid.add({"a\x1b[2Jb"});
  EXPECT_THAT(grid.text({}), Not(HasSubstr("\x1b")));
}

TEST(Look, CountsAndCutsCharactersNotBytes) {
  EXPECT_EQ(text_width("größe…"), 6U);
  EXPECT_EQ(cut_to("größe", 5, true), "größe");
  EXPECT_EQ(cut_to("größe", 4, true), "grö…");
  EXPECT_EQ(cut_to("größe", 4, false), "grö.");
  EXPECT_EQ(cut_to("größe", 0, true), "");
}

TEST(Look, ColoursOnlyWhereThereIsColour) {
  EXPECT_EQ(toned("x", Tone::bad, {}), "x");
  EXPECT_EQ(toned("x", Tone::bad, {.colour = true}), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(toned("", Tone::bad, {.colour = true}), "");
  EXPECT_EQ(toned("x", Tone::plain, {.colour = true}), "x");
}

TEST(Look, WrapsAtBlanksAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("one two three", {}), "one two three");
  EXPECT_EQ(wrapped("one two three", {.width = 7, .indent = 2}), "one two\n  three");
  EXPECT_EQ(wrapped("one two", {.width = 10, .indent = 4, .used = 6}), "one\n    two");
  EXPECT_EQ(wrapped("incomprehensibilities", {.width = 5}), "incomprehensibilities");
}

}  // namespace
}  // namespace berth::cli
