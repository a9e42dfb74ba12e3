#include "yaml/tree.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::yaml {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Node parse_one(std::string_view text) {
  const auto documents = parse(text, "t.yaml");
  EXPECT_TRUE(documents.ok()) << documents.error().message();
  EXPECT_EQ(documents->size(), 1U);
  return documents->front();
}

std::string message_of(std::string_view text, const Limits& limits = {}) {
  const auto documents = parse(text, "t.yaml", limits);
  EXPECT_FALSE(documents.ok()) << text;
  return documents.ok() ? "" : documents.error().message();
}

TEST(Yaml, GivesEveryValueItsPlace) {
  const Node root = parse_one("name: a\nsizes:\n  - 1GiB\n  - {deep: \"x y\"}\n");
  ASSERT_TRUE(root.is_map());
  EXPECT_EQ(root.entries[0].key, "name");
  EXPECT_EQ(root.entries[0].value.text, "a");
  EXPECT_EQ(root.entries[0].value.line, 1);
  EXPECT_EQ(root.entries[0].value.column, 7);
  const Node& sizes = *root.find("sizes");
  ASSERT_TRUE(sizes.is_list());
  EXPECT_EQ(sizes.items[0].line, 3);
  EXPECT_EQ(sizes.items[0].column, 5);
  const Node& deep = *sizes.items[1].find("deep");
  EXPECT_EQ(deep.text, "x y");
  EXPECT_TRUE(deep.quoted);
  EXPECT_EQ(deep.line, 4);
}

TEST(Yaml, ReadsCrlfAByteOrderMarkAndAMissingLastNewline) {
  const Node root = parse_one(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: 2");
  EXPECT_EQ(root.find("a")->text, "1");
  EXPECT_EQ(root.find("b")->text, "2");
  EXPECT_EQ(root.find("b")->line, 2);
}

TEST(Yaml, ReadsSeveralDocuments) {
  const auto documents = parse("a: 1\n---\na: 2\n", "t.yaml");
  ASSERT_TRUE(documents.ok());
  ASSERT_EQ(documents->size(), 2U);
  EXPECT_EQ((*documents)[1].find("a")->line, 3);
}

TEST(Yaml, ATextWithoutADocumentGivesNone) {
  for (const char* text : {"", "\n\n", "# only a remark\n"}) {
    const auto documents = parse(text, "t.yaml");
    ASSERT_TRUE(documents.ok()) << text;
    EXPECT_TRUE(documents->empty()) << text;
  }
}

TEST(Yaml, TellsNothingFromTheEmptyText) {
  const Node root = parse_one("a:\nb: ~\nc: ''\nd: null\n");
  EXPECT_TRUE(root.find("a")->is_null());
  EXPECT_EQ(root.find("a")->line, 1);
  EXPECT_TRUE(root.find("b")->is_null());
  EXPECT_TRUE(root.find("c")->is_scalar());
  EXPECT_TRUE(root.find("d")->is_null());
}

TEST(Yaml, RefusesWhatMakesAFileMeanMoreThanItShows) {
  EXPECT_EQ(message_of("a: &x 1\n"),
            "t.yaml:1:4: anchors (&name) are not read: write the value out where it is used");
  EXPECT_THAT(message_of("a: &x [1]\nb: *x\n"), StartsWith("t.yaml:1:4: anchors"));
  EXPECT_THAT(message_of("b: *x\n"), StartsWith("t.yaml:1:"));
  EXPECT_THAT(message_of("a: !!int 3\n"), HasSubstr("tag"));
  EXPECT_THAT(message_of("a: {<<: {b: 1}}\n"), HasSubstr("merge keys"));
  EXPECT_THAT(message_of("? [a, b]\n: c\n"), HasSubstr("a key must be one word"));
  EXPECT_THAT(message_of("'': c\n"), HasSubstr("a key must be one word"));
}

TEST(Yaml, RefusesAKeyGivenTwiceAndNamesBothLines) {
  EXPECT_EQ(message_of("a: 1\nb: 2\na: 3\n"),
            "t.yaml:3:1: the key 'a' is given twice (first in line 1): keep one");
}

TEST(Yaml, RefusesBytesThatAreNotText) {
  EXPECT_EQ(message_of(std::string_view("a: 1\nb: \0x\n", 11)),
            "t.yaml:2:4: the byte 0x00 is not text: remove it (is this a text file?)");
  EXPECT_THAT(message_of("a: \xFFz\n"), StartsWith("t.yaml:1:4: the byte 0xFF is not UTF-8"));
  EXPECT_THAT(message_of("a: \xC0\x80\n"), HasSubstr("not UTF-8"));      // overlong
  EXPECT_THAT(message_of("a: \xED\xA0\x80\n"), HasSubstr("not UTF-8"));  // surrogate
  EXPECT_THAT(message_of("a: \xF5\x80\x80\x80\n"), HasSubstr("not UTF-8"));
  EXPECT_THAT(message_of("a: \xE2\x82"), HasSubstr("not UTF-8"));  // cut off
  EXPECT_THAT(message_of("\xFE\xFF\0a", Limits{}), HasSubstr("t.yaml:1:1"));
  EXPECT_EQ(parse_one("a: \xE2\x82\xAC\n").find("a")->text, "\xE2\x82\xAC");
}

TEST(Yaml, RefusesALineOfTwentyMegabytesAtOnce) {
  std::string text = "about: x\nfleet: ";
  text.append(20'000'000, 'x');
  EXPECT_THAT(message_of(text), StartsWith("t.yaml:1:1: the file has"));
  text.resize(1'000'000);
  EXPECT_EQ(message_of(text), "t.yaml:2:65537: the line is longer than 65536 bytes: break it");
}

TEST(Yaml, RefusesDepthWithoutUsingTheStack) {
  EXPECT_THAT(message_of("a: " + std::string(30'000, '[') + std::string(30'000, ']')),
              HasSubstr("deep"));
  EXPECT_THAT(message_of(std::string(60'000, '[')), HasSubstr("t.yaml:1:"));
  EXPECT_THAT(message_of(std::string(30'000, '{')), HasSubstr("t.yaml:1:"));
  std::string dashes;
  for (int i = 0; i < 10'000; ++i)
    dashes += "- ";
  EXPECT_THAT(message_of(dashes), HasSubstr("deep"));
  std::string keys;
  for (int i = 0; i < 10'000; ++i)
    keys += "? ";
  EXPECT_THAT(message_of(keys), HasSubstr("t.yaml:1:"));
}

TEST(Yaml, RefusesTooManyValues) {
  EXPECT_THAT(message_of("[1, 2, 3, 4, 5, 6]", {.max_nodes = 5}), HasSubstr("more than 5 values"));
}

TEST(Yaml, SaysWhereTheSyntaxBreaks) {
  EXPECT_THAT(message_of("a: [1, 2\nb: 3\n"), HasSubstr("this is not YAML"));
  EXPECT_THAT(message_of("a: 1\n\tb: 2\n"), StartsWith("t.yaml:2:"));
  EXPECT_THAT(message_of("a: \"open\n"), HasSubstr("this is not YAML"));
  EXPECT_THAT(message_of("%YAML 9.9 x y z\n---\na: 1\n"), StartsWith("t.yaml:"));
}

}  // namespace
}  // namespace berth::yaml
