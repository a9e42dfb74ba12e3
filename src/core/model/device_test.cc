#include "core/model/device.h"

#include <gtest/gtest.h>

namespace berth::core {
namespace {

Device device_of(std::int64_t total_bytes, std::int64_t reserve_bytes) {
  Device device;
  device.uuid = "GPU-1";
  device.total = Memory::bytes(total_bytes);
  device.reserve = Memory::bytes(reserve_bytes);
  return device;
}

TEST(Device, UsableIsTotalLessReserveRoundedDownToMebibytes) {
  EXPECT_EQ(device_of(10 * Memory::kBytesPerMib, 0).usable_mib(), 10);
  EXPECT_EQ(device_of(10 * Memory::kBytesPerMib, 1).usable_mib(), 9);
  EXPECT_EQ(device_of(10 * Memory::kBytesPerMib - 1, 0).usable_mib(), 9);
  EXPECT_EQ(device_of(2000 * Memory::kBytesPerMib, 1024 * Memory::kBytesPerMib).usable_mib(), 976);
}

TEST(Device, UsableIsNothingWhenTheSizeIsUnknownOrTheReserveTakesAll) {
  EXPECT_EQ(device_of(100, 100).usable_mib(), 0);
  EXPECT_EQ(device_of(100, 200).usable_mib(), 0);
  Device unknown;
  EXPECT_EQ(unknown.usable_mib(), 0);
}

TEST(Device, AnUnmeasuredReserveIsThreePercentAndAtLeast256MiB) {
  EXPECT_EQ(default_reserve(Memory::mib(1000)), Memory::mib(256));
  EXPECT_EQ(default_reserve(Memory::mib(100'000)), Memory::mib(3000));
  EXPECT_EQ(default_reserve(Memory::bytes(Memory::mib(100'000).in_bytes() + 1)),
            Memory::bytes(Memory::mib(3000).in_bytes() + 1));  // rounded up
}

TEST(Node, NamesTheFieldThatBreaksARule) {
  const auto message = [](auto change) {
    Node node;
    node.name = "n1";
    node.devices.push_back(device_of(1 << 30, 0));
    change(node);
    const Result<void> result = check_node(node);
    return result.ok() ? std::string() : result.error().message();
  };
  EXPECT_EQ(message([](Node&) {}), "");
  EXPECT_NE(message([](Node& n) { n.name.clear(); }).find("empty name"), std::string::npos);
  EXPECT_NE(message([](Node& n) { n.cpu = Milli(-1); }).find("cpu is -1"), std::string::npos);
  EXPECT_NE(message([](Node& n) { n.ram = Memory::bytes(-1); }).find("ram is -1"),
            std::string::npos);
  EXPECT_NE(message([](Node& n) { n.pod_slots = -1; }).find("pod slots are -1"), std::string::npos);
  EXPECT_NE(message([](Node& n) { n.devices.push_back(n.devices[0]); }).find("given twice"),
            std::string::npos);
  EXPECT_NE(message([](Node& n) { n.devices[0].total = Memory(); }).find("total memory is 0"),
            std::string::npos);
  EXPECT_NE(message([](Node& n) { n.devices.resize(65); }).find("65 devices"), std::string::npos);
}

TEST(Node, LinksJoinTwoOfItsDevicesOnce) {
  const auto message = [](std::vector<PairScore> links) {
    Node node;
    node.name = "n1";
    for (const std::string uuid : {"a", "b"}) {
      node.devices.push_back(device_of(1 << 30, 0));
      node.devices.back().uuid = uuid;
    }
    node.links = std::move(links);
    const Result<void> result = check_node(node);
    return result.ok() ? std::string() : result.error().message();
  };
  EXPECT_EQ(message({{.a = 1, .b = 0, .score = 200}}), "");
  EXPECT_EQ(message({{.a = 0, .b = 2, .score = 200}}),
            "node n1: links has [0, 2, 200]; a pair names two of the node's 2 devices, counted "
            "from 0");
  EXPECT_NE(message({{.a = 1, .b = 1}}).find("names two"), std::string::npos);
  EXPECT_NE(message({{.a = -1, .b = 1}}).find("names two"), std::string::npos);
  EXPECT_NE(message({{.a = 0, .b = 1, .score = -1}}).find("lies between 0"), std::string::npos);
  EXPECT_NE(message({{.a = 0, .b = 1}, {.a = 1, .b = 0}}).find("given twice"), std::string::npos);
}

TEST(Device, LinkSetsCountFromZero) {
  Node node;
  node.name = "n1";
  node.devices.push_back(device_of(1 << 30, 0));
  node.devices[0].link_set = -2;
  EXPECT_NE(check_node(node).error().message().find("link set is -2"), std::string::npos);
}

}  // namespace
}  // namespace berth::core
