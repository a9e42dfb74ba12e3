#include "core/ledger/change_log.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace berth::core {
namespace {

TEST(ChangeLog, GivesEachChangedNodeOnceToAReaderThatSkipsStaleEntries) {
  ChangeLog log;
  for (int i = 0; i < 3; ++i) {
    log.add_node();
  }
  const std::uint64_t read = log.end();
  for (const std::uint32_t node : {0U, 2U, 0U, 0U, 2U}) {
    log.mark(NodeId(node));
  }
  std::vector<std::uint32_t> latest;
  for (std::uint64_t at = read; at < log.end(); ++at) {
    if (log.is_latest(at)) {
      latest.push_back(log.at(at).value());
    }
  }
  EXPECT_EQ(latest, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_TRUE(log.changed_since(NodeId(0U), read));
  EXPECT_FALSE(log.changed_since(NodeId(1U), read));
  EXPECT_EQ(log.last_change(NodeId(1U)), 0u);
}

TEST(ChangeLog, AReaderThatFellBehindTheRingStillFindsEveryChange) {
  ChangeLog log;
  log.add_node();
  log.add_node();
  log.mark(NodeId(1U));
  const std::uint64_t read = log.end();
  log.mark(NodeId(1U));
  for (int i = 0; i < 5000; ++i) {
    log.mark(NodeId(0U));
  }
  EXPECT_GT(log.begin(), read);                      // the entry itself is gone …
  EXPECT_TRUE(log.changed_since(NodeId(1U), read));  // … what it said is not
  EXPECT_EQ(log.at(log.end() - 1), NodeId(0U));
  EXPECT_TRUE(log.is_latest(log.end() - 1));
}

// The bigger ring could hold older entries than the smaller one had kept.
TEST(ChangeLog, GrowingDoesNotBringBackWhatWasOverwritten) {
  ChangeLog log;
  log.add_node();
  for (int i = 0; i < 5000; ++i) {
    log.mark(NodeId(0U));
  }
  const std::uint64_t oldest = log.begin();
  for (int i = 0; i < 1000; ++i) {
    log.add_node();
  }
  EXPECT_EQ(log.begin(), oldest);
  for (std::uint64_t at = log.begin(); at < log.end(); ++at) {
    ASSERT_EQ(log.at(at), NodeId(0U)) << at;
  }
}

TEST(ChangeLog, KeepsWhatIsUnreadWhileItGrows) {
  ChangeLog log;
  log.add_node();
  const std::uint64_t read = log.end();
  for (std::uint32_t node = 1; node < 3000; ++node) {
    log.add_node();
    log.mark(NodeId(node));
  }
  std::set<std::uint32_t> seen;
  for (std::uint64_t at = std::max(read, log.begin()); at < log.end(); ++at) {
    EXPECT_EQ(log.at(at).value(), at + 1 - read);
    seen.insert(log.at(at).value());
  }
  for (std::uint32_t node = 1; node < 3000; ++node) {
    EXPECT_TRUE(seen.contains(node) || log.begin() > read) << node;
  }
}

}  // namespace
}  // namespace berth::core
