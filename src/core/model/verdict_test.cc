#include "core/model/verdict.h"

#include <gtest/gtest.h>

namespace berth::core {
namespace {

std::int64_t& count(Verdict::Nodes& nodes, Cause cause) {
  return nodes.by_reason[static_cast<std::size_t>(cause)];
}

TEST(Verdict, CountsReasonsLargestFirstAndByNameWhenEqual) {
  Verdict::Nodes nodes;
  EXPECT_EQ(reason_histogram(nodes), "");
  nodes.total = 24;
  count(nodes, Cause::untolerated_taint) = 2;
  count(nodes, Cause::insufficient_memory) = 20;
  count(nodes, Cause::device_exclusive) = 2;
  EXPECT_EQ(reason_histogram(nodes),
            "0/24 nodes: 20 InsufficientMemory, 2 DeviceExclusive, 2 UntoleratedTaint.");
}

TEST(Verdict, AConditionMessageFitsItsBound) {
  Verdict verdict;
  verdict.summary = std::string(2000, 'x');
  EXPECT_EQ(pod_message(verdict).size(), 1024u);
  EXPECT_TRUE(pod_message(verdict).ends_with("..."));
  verdict.summary = "No device has 4096 MiB free";
  verdict.nodes.total = 1;
  EXPECT_EQ(pod_message(verdict), "No device has 4096 MiB free.");
}

TEST(Verdict, EveryCauseHasANameOfItsOwn) {
  for (std::size_t i = 1; i < kCauseCount; ++i) {
    const auto cause = static_cast<Cause>(i);
    EXPECT_FALSE(cause_name(cause).empty()) << i;
    EXPECT_EQ(cause_from_name(cause_name(cause)), cause);
  }
  EXPECT_EQ(cause_from_name("no such reason"), std::nullopt);
}

TEST(Verdict, QuotaIsAskedBeforeNodesAndTopologyAfterDevices) {
  EXPECT_EQ(cause_stage(Cause::over_limit), Stage::quota);
  EXPECT_EQ(cause_stage(Cause::gang_incomplete), Stage::gang);
  EXPECT_LT(cause_stage(Cause::gang_incomplete), cause_stage(Cause::queue_held));
  EXPECT_LT(cause_stage(Cause::queue_held), cause_stage(Cause::no_node_matches));
  EXPECT_LT(cause_stage(Cause::insufficient_memory), cause_stage(Cause::no_topology_domain));
}

}  // namespace
}  // namespace berth::core
