#include "request/mig_profile.h"

#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace berth::request {
namespace {

TEST(MigProfile, ApiExample) {
  const auto profile = parse_mig_resource("mig-1g.24gb.me.all");
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->text(), "1g.24gb+me.all");
  EXPECT_EQ(profile->resource_name(), "mig-1g.24gb.me.all");
}

TEST(MigProfile, ReadsItsParts) {
  const auto profile = parse_mig_profile("1c.3g.40gb+me,gfx");
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->compute_slices, 1);
  EXPECT_EQ(profile->gpu_slices, 3);
  EXPECT_EQ(profile->gigabytes, 40);
  EXPECT_EQ(profile->sign, '+');
  EXPECT_EQ(profile->attributes, "me,gfx");
}

TEST(MigProfile, LeavesOutAComputePartThatSaysNothing) {
  EXPECT_EQ(parse_mig_profile("3c.3g.40gb")->text(), "3g.40gb");
  EXPECT_EQ(parse_mig_profile("3c.3g.40gb"), parse_mig_profile("3g.40gb"));
  EXPECT_EQ(parse_mig_profile("2c.3g.40gb")->text(), "2c.3g.40gb");
}

TEST(MigProfile, KeepsTheMinusInResourceNames) {
  EXPECT_EQ(parse_mig_resource("mig-1g.24gb-me")->text(), "1g.24gb-me");
  EXPECT_EQ(parse_mig_profile("1g.24gb-me")->resource_name(), "mig-1g.24gb-me");
}

TEST(MigProfile, RefusesWhatIsNoProfile) {
  for (const char* text : {"",
                           "foo",
                           "1g",
                           "1g.",
                           "1g.5",
                           "g.5gb",
                           "1g.gb",
                           "0g.5gb",
                           "01g.5gb",
                           "1g.05gb",
                           "1G.5GB",
                           "1g.5gb+",
                           "1g.5gb-",
                           "1g.5gb+ME",
                           "1g.5gb+.me",
                           "1g.5gb+me.",
                           "1g.5gb+me,,gfx",
                           "1g.5gb me",
                           "1g.5gb+me-gfx",
                           "4c.3g.40gb",
                           "1g.5gb.me",
                           "99999g.5gb",
                           "mig-1g.5gb",
                           "1g.5gb\n"}) {
    const auto parsed = parse_mig_profile(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ReasonCode::bad_mig_profile) << text;
  }
  for (const char* text : {"mig-", "mig-foo", "1g.5gb", "mig-1g.5gb+me", "mig-1g.5gb."}) {
    EXPECT_FALSE(parse_mig_resource(text).has_value()) << text;
  }
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::string number(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

std::string confidence(Confidence value) {
  return value == Confidence::listed ? "listed" : "inferred";
}

std::vector<std::string> cells_of(const MigTableRow& row) {
  return {std::string(row.model),
          std::string(row.profile),
          std::to_string(row.profile_id),
          std::to_string(row.compute_slices),
          std::to_string(row.memory_slices),
          number(row.memory_mib),
          std::to_string(row.max_instances),
          std::string(row.placements),
          std::string(row.attributes),
          confidence(row.confidence),
          confidence(row.memory_confidence),
          confidence(row.placement_confidence),
          std::to_string(row.gi_enum),
          row.sm_count ? std::to_string(*row.sm_count) : "",
          number(row.total_mib),
          std::string(row.pci_device_ids)};
}

TEST(MigTable, IsTheFile) {
  std::ifstream file(std::string(BERTH_SOURCE_DIR) + "/data/mig_profiles.csv");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  std::size_t row = 0;
  for (; std::getline(file, line); ++row) {
    ASSERT_LT(row, mig_table().size());
    EXPECT_EQ(cells_of(mig_table()[row]), cells_of(line));
  }
  EXPECT_EQ(row, mig_table().size());
  EXPECT_EQ(row, 93U);
}

TEST(MigTable, NamesReadBackAndAgreeWithTheirColumns) {
  for (const MigTableRow& row : mig_table()) {
    const auto profile = parse_mig_profile(row.profile);
    ASSERT_TRUE(profile.has_value()) << row.profile;
    EXPECT_EQ(profile->text(), row.profile);
    EXPECT_EQ(parse_mig_resource(profile->resource_name()), profile);
    EXPECT_EQ(profile->gpu_slices, row.compute_slices);
    EXPECT_EQ((profile->sign == '-' ? "-" : "") + profile->attributes, row.attributes);
    EXPECT_EQ(find_mig_row(row.model, row.profile), &row);
  }
  EXPECT_EQ(find_mig_row("A100-40GB", "1g.6gb"), nullptr);
}

// nvidia-node.md 10.1: how the driver computes the gigabytes of a name.
TEST(MigTable, SizesReproduceTheNames) {
  int checked = 0;
  for (const MigTableRow& row : mig_table()) {
    if (!row.memory_mib || !row.total_mib) continue;
    const std::int64_t eighths = (8 * *row.memory_mib + *row.total_mib - 1) / *row.total_mib;
    const std::int64_t total_gib = (*row.total_mib + 1023) / 1024;
    EXPECT_EQ((eighths * total_gib + 4) / 8, parse_mig_profile(row.profile)->gigabytes)
        << row.model << " " << row.profile;
    ++checked;
  }
  EXPECT_EQ(checked, 77);
}

RC_GTEST_PROP(MigProfile, NamesReadBack, ()) {
  MigProfile profile;
  profile.gpu_slices = *rc::gen::inRange(1, 9);
  profile.compute_slices = *rc::gen::inRange(1, profile.gpu_slices + 1);
  profile.gigabytes = *rc::gen::inRange(1, 1000);
  profile.attributes = *rc::gen::element<std::string>("", "me", "me.all", "gfx", "me,gfx");
  if (!profile.attributes.empty()) profile.sign = *rc::gen::element('+', '-');
  RC_ASSERT((parse_mig_profile(profile.text()) == profile));
  RC_ASSERT((parse_mig_resource(profile.resource_name()) == profile));
}

RC_GTEST_PROP(MigProfile, AnyBytesGiveAnAnswer, (const std::string& noise)) {
  for (const auto& parsed : {parse_mig_profile(noise), parse_mig_profile("1g.5gb" + noise),
                             parse_mig_resource("mig-1g.5gb" + noise)}) {
    if (parsed) RC_ASSERT((parse_mig_profile(parsed->text()) == parsed));
  }
}

}  // namespace
}  // namespace berth::request
