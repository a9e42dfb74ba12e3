#include "gpu/xid.h"

#include <gtest/gtest.h>

namespace berth::gpu {
namespace {

TEST(Xid, LeasesB35TheSixOfApplicationsLeaveTheDeviceHealthy) {
  for (const int xid : {13, 31, 43, 45, 68, 109}) {
    EXPECT_EQ(classify_xid(xid), XidClass::application) << xid;
    EXPECT_FALSE(is_critical_xid(xid)) << xid;
  }
}

TEST(Xid, LeasesB34WhatEndsADeviceIsCritical) {
  EXPECT_EQ(classify_xid(79), XidClass::gone);
  for (const int xid : {46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 140, 149, 151, 158})
    EXPECT_TRUE(is_critical_xid(xid)) << xid;
}

TEST(Xid, ANoteDoesNotTakeADeviceAway) {
  for (const int xid : {37, 63, 92, 106, 157}) {
    EXPECT_EQ(classify_xid(xid), XidClass::note) << xid;
    EXPECT_FALSE(is_critical_xid(xid)) << xid;
  }
}

TEST(Xid, ANumberThatNobodyKnowsIsCritical) {
  for (const int xid : {1, 78, 142, 159, 170, 999, 123'456}) {
    EXPECT_EQ(classify_xid(xid), XidClass::probe) << xid;
    EXPECT_TRUE(is_critical_xid(xid)) << xid;
  }
}

TEST(Xid, TheTableIsInOrderAndNothingIsTwice) {
  int last = 0;
  for (const XidRule& rule : xid_rules()) {
    EXPECT_GT(rule.first, last);
    EXPECT_LE(rule.first, rule.last);
    EXPECT_FALSE(xid_class_name(rule.kind).empty());
    last = rule.last;
  }
}

}  // namespace
}  // namespace berth::gpu
