#include "json/value.h"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace berth::json {
namespace {

std::string back(std::string_view text) {
  const Result<Value> value = parse(text);
  return value ? dump(*value) : value.error().message();
}

TEST(JsonValue, KeepsWholeNumbersApartFromOthers) {
  const Result<Value> value = parse(R"({"a":4096,"b":4096.5,"c":-0.0,"d":18446744073709551615})");
  ASSERT_TRUE(value);
  EXPECT_TRUE(value->find("a")->is_integer());
  EXPECT_TRUE(value->find("b")->is_double());
  EXPECT_TRUE(value->find("c")->is_double());
  EXPECT_TRUE(value->find("d")->is_double());
}

TEST(JsonValue, WritesWhatItRead) {
  const std::string text = R"({"z":1,"a":[true,false,null,"\"\\\n€"],"o":{"x":[]},"e":{},"f":1.5})";
  EXPECT_EQ(back(text), text);
}

TEST(JsonValue, RefusesANameThatStandsTwice) {
  EXPECT_EQ(back(R"({"a":1,"b":{"k":1,"k":2}})"),
            "the name \"k\" stands twice in one object; keep one of them");
}

TEST(JsonValue, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "{a:1}", "[1,]", "nul", "{}x", "\"\xff\"", "\"\\ud800\"", "01",
                           "NaN", "Infinity", "'a'", "{\"a\":1,}"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(JsonValue, RefusesMoreLevelsThanItReads) {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  EXPECT_TRUE(parse(nested(kMaxDepth - 1)));
  EXPECT_FALSE(parse(nested(kMaxDepth + 1)));
  EXPECT_FALSE(parse(nested(30'000)));
}

TEST(JsonValue, ReplacesBytesThatAreNotUtf8WhenItWrites) {
  EXPECT_EQ(dump(Value("a\xff"
                       "b")),
            "\"a\xef\xbf\xbd"
            "b\"");
}

TEST(JsonValue, EveryStringComesBack) {
  rc::check("strings of ASCII survive", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
    const Result<Value> value = parse(dump(object({{text, Value(text)}})));
    RC_ASSERT(static_cast<bool>(value));
    RC_ASSERT(*value == object({{text, Value(text)}}));
  });
}

TEST(JsonValue, PrettyTextReadsTheSame) {
  const Value value = object({{"a", array({1, "b"})}, {"c", object()}});
  EXPECT_EQ(dump_pretty(value), "{\n  \"a\": [\n    1,\n    \"b\"\n  ],\n  \"c\": {}\n}");
  EXPECT_EQ(*parse(dump_pretty(value)), value);
}

}  // namespace
}  // namespace berth::json
