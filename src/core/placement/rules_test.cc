#include "core/placement/rules.h"

#include <gtest/gtest.h>

namespace berth::core {
namespace {

// Of several devices and nodes the later cause is told, so "later" must mean "got further".
TEST(Rules, AreAskedInTheOrderInWhichTheirCausesAreTold) {
  Cause last = Cause::no_devices;
  for (const StaticRule& rule : static_rules()) {
    EXPECT_GE(rule.cause, last) << cause_name(rule.cause);
    last = rule.cause;
  }
  for (const Cause blocked : {Cause::no_usable_memory, Cause::device_unhealthy,
                              Cause::device_cordoned, Cause::stale_observation}) {
    EXPECT_GT(blocked, last) << cause_name(blocked);
    last = blocked;
  }
  for (const DeviceRule& rule : kDeviceRules) {
    EXPECT_GE(rule.cause, last) << cause_name(rule.cause);
    last = rule.cause;
  }
  EXPECT_GT(Cause::insufficient_devices, last);
  EXPECT_GT(Cause::numa_unfit, last);
}

TEST(Rules, EveryCauseOfANodeIsToldBeforeEveryCauseOfADevice) {
  for (const Cause of_node :
       {Cause::no_node_matches, Cause::untolerated_taint, Cause::node_not_ready,
        Cause::node_cordoned, Cause::insufficient_node_resource, Cause::no_pod_slot}) {
    EXPECT_EQ(cause_stage(of_node), Stage::node);
    EXPECT_EQ(more_advanced(of_node, Cause::no_devices), Cause::no_devices);
  }
}

TEST(Rules, ATaintThatSaysCordonedIsTold) {
  Node node;
  node.taints = {{"node.kubernetes.io/unschedulable", "", "NoSchedule"}};
  EXPECT_EQ(constraint_refusal({}, node), Cause::node_cordoned);
  node.taints = {{"dedicated", "", "NoSchedule"}};
  EXPECT_EQ(constraint_refusal({}, node), Cause::untolerated_taint);
  node.taints.clear();
  EXPECT_EQ(constraint_refusal({}, node), Cause::none);
}

}  // namespace
}  // namespace berth::core
