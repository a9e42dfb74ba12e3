// Every *.yaml below this folder is a test of its own: leases/B08.yaml is ScenarioFiles/leases_B08.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenario/run.h"

namespace berth::scenario {
namespace {

namespace fs = std::filesystem;

fs::path scenario_root() { return fs::path(BERTH_SOURCE_DIR) / "tests" / "scenario"; }

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(scenario_root())) {
    if (entry.path().extension() == ".yaml") {
      files.push_back(fs::relative(entry.path(), scenario_root()).generic_string());
    }
  }
  std::ranges::sort(files);
  return files;
}

class ScenarioFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioFiles, MeetItsExpectations) {
  const fs::path path = scenario_root() / GetParam();
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  const auto report = run_scenario(text.str(), "tests/scenario/" + GetParam());
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_TRUE(report->passed()) << failures_text(*report);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - std::string(".yaml").size());
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Scenario, ScenarioFiles, ::testing::ValuesIn(scenario_files()), test_name);

TEST(ScenarioFolder, HasTheScenariosOfEveryContract) { EXPECT_GE(scenario_files().size(), 80U); }

}  // namespace
}  // namespace berth::scenario
