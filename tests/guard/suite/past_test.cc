// Ways round the limit: what a program really holds afterwards, by the fake driver's own books.
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

constexpr std::int64_t kLimit = 500;  // MiB on each device
constexpr std::int64_t kContext = 16;

struct Way {
  const char* name;             // of guard_client past
  std::int64_t unseen_mib = 0;  // what an open policy lets pass before the account can be opened
  const char* driver = "570";
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::string test_name(const testing::TestParamInfo<Way>& info) {
  std::string name;
  bool up = true;
  for (const char* c = info.param.name; *c != '\0'; ++c) {
    if (*c != '-') name += up ? static_cast<char>(std::toupper(*c)) : *c;
    up = *c == '-';
  }
  return name;
}

// "device N: M MiB" of the client's line.
std::vector<std::int64_t> held_mib(const std::string& text) {
  std::vector<std::int64_t> held;
  for (std::size_t at = text.find("device "); at != std::string::npos;
       at = text.find("device ", at + 1)) {
    int device = 0;
    long mib = -1;
    if (std::sscanf(text.c_str() + at, "device %d: %ld MiB", &device, &mib) == 2) {
      held.push_back(mib);
    }
  }
  return held;
}

class GuardPast : public testing::TestWithParam<Way> {};

TEST_P(GuardPast, NoWayLeadsPastTheLimit) {
  for (const bool closed : {true, false}) {
    const Machine machine({.gpus = "2x16GiB",
                           .driver = GetParam().driver,
                           .limit_mib = kLimit,
                           .closed = closed,
                           .granted_devices = 2});
    const Outcome seen = machine.run({"past", GetParam().name, std::to_string(kLimit)});
    EXPECT_NE(seen.out.find("code 2"), std::string::npos) << seen.out << seen.err;
    const std::vector<std::int64_t> held = held_mib(seen.out);
    ASSERT_EQ(held.size(), 2U) << seen.out;
    for (const std::int64_t mib : held)
      EXPECT_LE(mib, kLimit + (closed ? 0 : GetParam().unseen_mib)) << seen.out;
  }
}

TEST_P(GuardPast, NoWayLeadsToADeviceOutsideAClosedGrant) {
  const Machine machine({.gpus = "2x16GiB", .driver = GetParam().driver, .limit_mib = kLimit});
  const Outcome seen = machine.run({"past", GetParam().name, std::to_string(kLimit)});
  const std::vector<std::int64_t> held = held_mib(seen.out);
  ASSERT_EQ(held.size(), 2U) << seen.out;
  EXPECT_LE(held[0], kLimit) << seen.out;
  EXPECT_EQ(held[1], 0) << seen.out;
}

INSTANTIATE_TEST_SUITE_P(Ways, GuardPast,
                         testing::Values(Way{"linear"}, Way{"other-pool"}, Way{"two-device-graph"},
                                         Way{"jump"}, Way{"descriptors", kContext}, Way{"closing"},
                                         Way{"multicast"}, Way{"detach"}, Way{"levels"},
                                         Way{"lookup"}, Way{"exact-name", 0, "future"}),
                         test_name);

}  // namespace
}  // namespace berth::guard_test
