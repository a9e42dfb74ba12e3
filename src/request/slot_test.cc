#include "request/slot.h"

#include <string>

#include <gtest/gtest.h>

namespace berth::request {
namespace {

TEST(Slot, IsTheNameOfTheContainerWhereItFits) {
  EXPECT_EQ(slot_of("main"), "main");
  EXPECT_EQ(slot_of(std::string(40, 'a')), std::string(40, 'a'));
  EXPECT_EQ(slot_key("main", kMemoryLimitField), "berth.dev/main.memory-limit-mib");
  EXPECT_EQ(slot_reference("main", kDevicesField),
            "metadata.annotations['berth.dev/main.devices']");
}

TEST(Slot, OfALongNameIsItsBeginAndAHash) {
  const std::string name = std::string(41, 'a');
  // echo -n aaa… | sha256sum
  EXPECT_EQ(slot_of(name), std::string(31, 'a') + "-c0f8bd4d");
  EXPECT_NE(slot_of(std::string(41, 'a')), slot_of(std::string(42, 'a')));
  EXPECT_LE(slot_key(std::string(63, 'x'), kMemoryRequestField).size(),
            std::string("berth.dev/").size() + 63);
}

}  // namespace
}  // namespace berth::request
