#include "core/ledger/change_log.h"

#include <gtest/gtest.h>

namespace berth::core {
namespace {

TEST(ChangeLog, DoesNotPretendToKnowEntriesThatWereLostBeforeItGrew) {
  ChangeLog log;
  log.add_node();
  for (int i = 0; i < 3000; ++i) {
    log.mark(NodeId(0U));
  }
  const std::uint64_t begin = log.begin();
  EXPECT_GT(begin, 0U);
  for (int i = 0; i < 2000; ++i) {
    log.add_node();
  }
  EXPECT_GE(log.begin(), begin);
  for (std::uint64_t at = log.begin(); at < log.end(); ++at) {
    EXPECT_EQ(log.at(at), NodeId(0U));
  }
}

}  // namespace
}  // namespace berth::core
