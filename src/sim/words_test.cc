#include "sim/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string seeds_error(std::string_view text) {
  const auto seeds = parse_seeds(text);
  return seeds.ok() ? "no error" : seeds.error().message();
}

TEST(Seeds, AreReadAsNumbersListsAndRanges) {
  EXPECT_THAT(parse_seeds("42").value(), ElementsAre(42));
  EXPECT_THAT(parse_seeds("42,43").value(), ElementsAre(42, 43));
  EXPECT_THAT(parse_seeds("42-45").value(), ElementsAre(42, 43, 44, 45));
  EXPECT_THAT(parse_seeds("44-45,42,0").value(), ElementsAre(44, 45, 42, 0));
  EXPECT_THAT(parse_seeds("7-7").value(), ElementsAre(7));
}

TEST(Seeds, AreRefusedBackwards) {
  EXPECT_EQ(seeds_error("50-42"),
            "--seeds \"50-42\": the range 50-42 runs backwards; write 42-50; write seeds from 0 to "
            "4294967295, for instance 42-51 or 42,43");
}

TEST(Seeds, AreRefusedEmptyTwiceTooLargeOrTooMany) {
  EXPECT_THAT(seeds_error(""), HasSubstr("a seed is missing"));
  EXPECT_THAT(seeds_error("42,"), HasSubstr("a seed is missing"));
  EXPECT_THAT(seeds_error("-5"), HasSubstr("a seed is missing"));
  EXPECT_THAT(seeds_error("42-43-44"), HasSubstr("\"43-44\" is not a seed"));
  EXPECT_THAT(seeds_error("x"), HasSubstr("\"x\" is not a seed"));
  EXPECT_THAT(seeds_error("1.5"), HasSubstr("is not a seed"));
  EXPECT_THAT(seeds_error("42-44,43"), HasSubstr("seed 43 is named twice"));
  EXPECT_THAT(seeds_error("4294967296"), HasSubstr("is too large"));
  EXPECT_THAT(seeds_error("99999999999999999999999"), HasSubstr("is too large"));
  EXPECT_THAT(seeds_error("0-4294967295"), HasSubstr("more than 10000 seeds"));
}

TEST(Policies, KeepThePerLevelFormTogether) {
  EXPECT_THAT(parse_policies("pack").value(), ElementsAre("pack"));
  EXPECT_THAT(parse_policies("pack,fgd").value(), ElementsAre("pack", "fgd"));
  EXPECT_THAT(parse_policies("pack,nodes=pack,devices=spread,fgd").value(),
              ElementsAre("pack", "nodes=pack,devices=spread", "fgd"));
}

TEST(Policies, AreRefusedEmptyOrTwice) {
  EXPECT_THAT(parse_policies("pack,,fgd").error().message(), HasSubstr("a name is missing"));
  EXPECT_THAT(parse_policies("").error().message(), HasSubstr("a name is missing"));
  EXPECT_THAT(parse_policies("pack,pack").error().message(), HasSubstr("pack is named twice"));
}

TEST(Numbers, AreRefusedOutsideOfTheirRange) {
  const NumberRule jobs{.name = "--jobs", .min = 1, .max = 64};
  EXPECT_EQ(parse_number("2", jobs).value(), 2);
  EXPECT_EQ(parse_number("0", jobs).error().message(),
            "--jobs is \"0\": must be a whole number from 1 to 64");
  EXPECT_FALSE(parse_number("65", jobs).ok());
  EXPECT_FALSE(parse_number("-1", jobs).ok());
  EXPECT_FALSE(parse_number("2x", jobs).ok());
  EXPECT_FALSE(parse_number("", jobs).ok());
  EXPECT_FALSE(parse_number("9223372036854775808", jobs).ok());
}

}  // namespace
}  // namespace berth::sim
