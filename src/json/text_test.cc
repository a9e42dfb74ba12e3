#include "json/text.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "json/value.h"

namespace berth::json {
namespace {

TEST(Text, WritesNestedObjectsAndListsWithCommasBetween) {
  Text text;
  text.open_object();
  text.key("a").put(1).key("b").open_list().put("x").put(true).put_null().open_object();
  text.close_object().close_list();
  text.key("c").put_raw(R"({"d":[]})").key("e").open_list().close_list();
  EXPECT_EQ(text.close_object().take(), R"({"a":1,"b":["x",true,null,{}],"c":{"d":[]},"e":[]})");
}

TEST(Text, WritesNumbersToTheirEnds) {
  Text text;
  text.open_list().put(INT64_MAX).put(INT64_MIN).put(0).close_list();
  EXPECT_EQ(text.take(), "[9223372036854775807,-9223372036854775808,0]");
}

TEST(Text, EscapesWhatJsonForbids) {
  std::string out;
  append_quoted(out, std::string("q\"b\\n\nt\tr\rz\0u\x1f\x7f", 15));
  EXPECT_EQ(out, "\"q\\\"b\\\\n\\nt\\tr\\rz\\u0000u\\u001f\\u007f\"");
}

TEST(Text, ReplacesWhatIsNoUtf8) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    append_quoted(out, text);
    return out;
  };
  EXPECT_EQ(quoted("é€😀"), "\"é€😀\"");
  EXPECT_EQ(quoted("\xff"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(quoted("\xc3"), "\"\xEF\xBF\xBD\"") << "cut short";
  EXPECT_EQ(quoted("\xc0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"") << "longer than need be";
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"") << "a surrogate";
}

RC_GTEST_PROP(Text, AnyBytesGiveJsonThatReadsBack, (const std::string& bytes)) {
  std::string out;
  append_quoted(out, bytes);
  const auto value = parse(out);
  RC_ASSERT(value.ok());
  RC_ASSERT(value->is_string());
  if (std::ranges::all_of(bytes, [](char c) { return c >= 0; })) {
    RC_ASSERT(value->as_string() == bytes);
  }
}

}  // namespace
}  // namespace berth::json
