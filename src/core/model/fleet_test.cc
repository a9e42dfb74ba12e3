#include "core/model/fleet.h"

#include <gtest/gtest.h>

namespace berth::core {
namespace {

Node node_of(std::string name, std::initializer_list<const char*> uuids) {
  Node node;
  node.name = std::move(name);
  for (const char* uuid : uuids) {
    Device device;
    device.uuid = uuid;
    device.total = Memory::mib(1000);
    node.devices.push_back(device);
  }
  return node;
}

TEST(Fleet, GivesAReturningNodeAndDeviceTheIdsTheyHad) {
  Fleet fleet;
  const NodeId node = fleet.upsert(node_of("n1", {"a", "b"})).value().node;
  const DeviceId b = fleet.find_device("b");
  const Fleet::Change gone = fleet.remove("n1").value();
  EXPECT_EQ(gone.removed.size(), 2u);
  EXPECT_FALSE(fleet.present(node));
  EXPECT_FALSE(fleet.present(b));
  EXPECT_EQ(fleet.find_device("b"), b);

  const Fleet::Change back = fleet.upsert(node_of("n1", {"b", "c"})).value();
  EXPECT_TRUE(back.created);
  EXPECT_EQ(back.node, node);
  EXPECT_EQ(fleet.devices_of(node), (std::vector<DeviceId>{b, fleet.find_device("c")}));
  EXPECT_EQ(fleet.place_of(b), 0u);
  EXPECT_FALSE(fleet.present(fleet.find_device("a")));
}

TEST(Fleet, SaysWhichDevicesCameAndWent) {
  Fleet fleet;
  ASSERT_TRUE(fleet.upsert(node_of("n1", {"a", "b"})).ok());
  const Fleet::Change change = fleet.upsert(node_of("n1", {"c", "b"})).value();
  EXPECT_FALSE(change.created);
  EXPECT_EQ(change.added, std::vector<DeviceId>{fleet.find_device("c")});
  EXPECT_EQ(change.removed, std::vector<DeviceId>{fleet.find_device("a")});
}

TEST(Fleet, ADeviceIsOnOneNodeAtATime) {
  Fleet fleet;
  ASSERT_TRUE(fleet.upsert(node_of("n1", {"a"})).ok());
  const Result<Fleet::Change> twice = fleet.upsert(node_of("n2", {"a"}));
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code(), ErrorCode::already_exists);
  EXPECT_EQ(fleet.node_slots(), 1u);  // a refusal changes nothing
  const DeviceId a = fleet.find_device("a");
  ASSERT_TRUE(fleet.upsert(node_of("n1", {})).ok());
  ASSERT_TRUE(fleet.upsert(node_of("n2", {"a"})).ok());  // it moved
  EXPECT_EQ(fleet.find_device("a"), a);
  EXPECT_EQ(fleet.node_of(a), fleet.find_node("n2"));
}

TEST(Fleet, DoesNotRemoveWhatIsNotThere) {
  Fleet fleet;
  EXPECT_EQ(fleet.remove("n1").error().code(), ErrorCode::not_found);
  ASSERT_TRUE(fleet.upsert(node_of("n1", {})).ok());
  ASSERT_TRUE(fleet.remove("n1").ok());
  EXPECT_FALSE(fleet.remove("n1").ok());
  EXPECT_EQ(fleet.present_nodes(), 0u);
}

}  // namespace
}  // namespace berth::core
