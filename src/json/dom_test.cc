#include "json/dom.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace berth::json {
namespace {

TEST(Dom, ReadsMembersInChains) {
  DomParser parser;
  const auto root = parser.parse(R"({"a":{"b":[{"c":"deep"}]},"n":7,"t":true,"z":null})");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ((*root)["n"].integer(), 7);
  EXPECT_TRUE((*root)["t"].flag());
  for (const Element item : (*root)["a"]["b"].items()) {
    EXPECT_EQ(item["c"].text(), "deep");
  }
  EXPECT_FALSE((*root)["z"].exists());
  EXPECT_EQ((*root)["z"].kind(), Kind::null);
}

TEST(Dom, AbsenceGoesOnThroughAChain) {
  DomParser parser;
  const auto root = parser.parse(R"({"a":1})");
  ASSERT_TRUE(root.ok());
  const Element nothing = (*root)["a"]["b"]["c"];
  EXPECT_EQ(nothing.kind(), Kind::absent);
  EXPECT_EQ(nothing.text("-"), "-");
  EXPECT_EQ(nothing.integer(3), 3);
  EXPECT_TRUE(nothing.flag(true));
  EXPECT_EQ(nothing.size(), 0U);
  EXPECT_EQ(nothing.raw(), "");
  for ([[maybe_unused]] const Element item : nothing.items()) {
    ADD_FAILURE();
  }
  for ([[maybe_unused]] const DomMember member : nothing.members()) {
    ADD_FAILURE();
  }
}

TEST(Dom, GivesMembersAndItemsInTheOrderOfTheText) {
  DomParser parser;
  const auto root = parser.parse(R"({"z":[1,[2,3],{"x":4}],"a":{"k":"v"},"":5})");
  ASSERT_TRUE(root.ok());
  std::string names;
  for (const auto [name, value] : root->members()) {
    names += std::string(name) + "=" + value.raw() + ";";
  }
  EXPECT_EQ(names, R"(z=[1,[2,3],{"x":4}];a={"k":"v"};=5;)");
  std::vector<std::string> items;
  for (const Element item : (*root)["z"].items()) {
    items.push_back(item.raw());
  }
  EXPECT_EQ(items, (std::vector<std::string>{"1", "[2,3]", R"({"x":4})"}));
  EXPECT_EQ((*root)["z"].size(), 3U);
  EXPECT_EQ(root->size(), 3U);
}

TEST(Dom, TellsIntegersFromOtherNumbers) {
  DomParser parser;
  const auto root =
      parser.parse(R"([9223372036854775807,-9223372036854775808,9223372036854775808,1.5,1e3,"7"])");
  ASSERT_TRUE(root.ok());
  std::vector<Kind> kinds;
  std::vector<std::int64_t> integers;
  for (const Element item : root->items()) {
    kinds.push_back(item.kind());
    integers.push_back(item.integer(-1));
  }
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::integer, Kind::integer, Kind::number, Kind::number,
                                      Kind::number, Kind::text}));
  EXPECT_EQ(integers, (std::vector<std::int64_t>{INT64_MAX, INT64_MIN, -1, -1, -1, -1}));
}

TEST(Dom, ReadsTextsWithEscapesAndNulBytes) {
  DomParser parser;
  const auto root = parser.parse(R"({"a\"b":"x\u0000y\n\u00e9"})");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ((*root)["a\"b"].text(), std::string_view("x\0y\n\xc3\xa9", 6));
}

TEST(Dom, SaysWhatIsNoJson) {
  DomParser parser;
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nul", "{}{}", "\"\xff\""}) {
    const auto root = parser.parse(text);
    ASSERT_FALSE(root.ok()) << text;
    EXPECT_TRUE(root.error().message().starts_with("not JSON: ")) << root.error().message();
  }
  EXPECT_FALSE(parser.parse(std::string(5000, '[')).ok());
  EXPECT_TRUE(parser.parse("[]").ok()) << "a fault does not stick to the parser";
}

TEST(Dom, ReadsATextWithPaddingWhereItLies) {
  std::string buffer = R"({"a":"b"} and what follows)";
  buffer.append(kDomPadding, 'x');
  DomParser parser;
  const auto root = parser.parse_padded(std::string_view(buffer).substr(0, 9));
  ASSERT_TRUE(root.ok());
  EXPECT_EQ((*root)["a"].text(), "b");
}

TEST(Dom, GoesOnAfterGivingItsBuffersBack) {
  DomParser parser;
  ASSERT_TRUE(parser.parse("[" + std::string(100'000, ' ') + "]").ok());
  parser.trim(1000);
  DomParser moved = std::move(parser);
  const auto root = moved.parse("[3]");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->size(), 1U);
}

TEST(Dom, ReadsScalarRoots) {
  DomParser parser;
  EXPECT_EQ(parser.parse("12")->integer(), 12);
  EXPECT_EQ(parser.parse(" \"x\" ")->text(), "x");
  EXPECT_EQ(parser.parse("null")->kind(), Kind::null);
}

}  // namespace
}  // namespace berth::json
