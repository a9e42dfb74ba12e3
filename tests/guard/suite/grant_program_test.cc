// berth-guard-grant as people use it: words, outcomes, and what it says about mistakes.
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

const std::string kUuid = "GPU-8f6d0b9e-0a6f-4b52-9f0e-3a1f9c1d2e4b";

Outcome program(std::vector<std::string> words) {
  words.insert(words.begin(), std::string(BERTH_BIN_DIR) + "/berth-guard-grant");
  return run_to_end(words, {});
}

struct Mistake {
  const char* name;
  std::vector<std::string> words;
  int exit_code;
  const char* says;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class GrantMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(GrantMistakes, AreNamedWithTheRule) {
  const Outcome seen = program(GetParam().words);
  EXPECT_EQ(seen.exit_code, GetParam().exit_code);
  EXPECT_EQ(seen.out, "");
  EXPECT_NE(seen.err.find(GetParam().says), std::string::npos) << seen.err;
}

INSTANTIATE_TEST_SUITE_P(
    Words, GrantMistakes,
    testing::Values(
        Mistake{"NoVerb", {}, 2, "usage: berth-guard-grant VERB DIR"},
        Mistake{"UnknownVerb", {"mend", "/tmp/g"}, 2, "'mend' is no verb; --help lists them"},
        Mistake{"MistypedVerb", {"creat", "/tmp/g"}, 2, "did you mean 'create'?"},
        Mistake{"NoDirectory", {"read"}, 2, "DIR is wanted here, and nothing is given"},
        Mistake{"TooManyWords", {"read", "a", "b"}, 2, "DIR is wanted here, and 'a b' are given"},
        Mistake{"NoGrant", {"create", "/tmp/g"}, 2, "--grant ID is missing"},
        Mistake{"NoDevice", {"create", "/tmp/g", "--grant", "a"}, 2, "a grant has at least one"},
        Mistake{"Typo", {"create", "/tmp/g", "--colsed"}, 2, "--colsed is unknown here"},
        Mistake{"WrongUnit",
                {"create", "/tmp/g", "--grant", "a", "--device", kUuid + ":1GiB:2GiBB"},
                2,
                "size '2GiBB'"},
        Mistake{"DecimalPoint",
                {"create", "/tmp/g", "--grant", "a", "--device", kUuid + ":1GiB:1.5GiB"},
                2,
                "write 1536MiB for 1.5GiB"},
        Mistake{"RequestAboveLimit",
                {"create", "/tmp/g", "--grant", "a", "--device", kUuid + ":2GiB:1GiB"},
                2,
                "request <= cap <= limit"},
        Mistake{"NoUuid",
                {"create", "/tmp/g", "--grant", "a", "--device", "0:1GiB:1GiB"},
                2,
                "device '0' is no UUID"},
        Mistake{"Slots",
                {"create", "/tmp/g", "--grant", "a", "--device", kUuid + ":1GiB:1GiB", "--slots",
                 "2000"},
                2,
                "--slots '2000': a whole number from 1 to 1023 is wanted"},
        Mistake{"NoSuchGrant", {"read", "/nowhere/g"}, 1, "cannot open /nowhere/g/account"},
        Mistake{"NotAGrant", {"remove", "/etc"}, 1, "nothing was deleted"},
        Mistake{"Reported", {"audit", "/nowhere", "--reported", "x"}, 2, "write UUID:PID:SIZE"}),
    [](const auto& mistake) { return std::string(mistake.param.name); });

TEST(GrantProgram, LivesThroughAGrant) {
  const Machine machine({.limit_mib = 1024, .cap_mib = 512});
  ASSERT_EQ(machine.run({"hold", "300"}).out, "held\n");  // and dies with it
  const std::string directory = machine.grant_directory();
  const std::string uuid = grant::uuid_text(machine.uuids()[0]);
  EXPECT_NE(program({"create", directory, "--grant", "b", "--device", uuid + ":1:1"})
                .err.find("exists already"),
            std::string::npos);
  const Outcome table = program({"read", directory});
  EXPECT_NE(table.out.find(uuid + "  charged 316.0 MiB of 512.0 MiB (limit 1024.0 MiB)"),
            std::string::npos)
      << table.out;
  const auto json = nlohmann::json::parse(program({"read", directory, "-o", "json"}).out);
  const auto& process = json["devices"][0]["processes"][0];
  EXPECT_EQ(process["held_bytes"], 316 << 20);
  EXPECT_EQ(process["alive"], false);
  const std::string pid = std::to_string(process["pid"].get<int>());
  EXPECT_NE(program({"audit", directory, "--reported", uuid + ":" + pid + ":350MiB"})
                .out.find("35651584 B are used that no call was charged for"),
            std::string::npos);
  EXPECT_EQ(program({"set-cap", directory, uuid, "1GiB"}).exit_code, 0);
  EXPECT_EQ(program({"set-cap", directory, uuid, "1025"}).exit_code, 2);
  EXPECT_EQ(program({"reclaim", directory}).out, "slots reclaimed: 1\n");
  EXPECT_EQ(program({"remove", directory}).exit_code, 0);
  EXPECT_EQ(program({"remove", directory}).exit_code, 1);
}

}  // namespace
}  // namespace berth::guard_test
