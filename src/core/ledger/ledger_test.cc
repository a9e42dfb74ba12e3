#include "core/ledger/ledger.h"

#include <gtest/gtest.h>

#include "core/ledger/ledger_world_test.h"

namespace berth::core {
namespace {

const WorkloadId kA(1U);
const WorkloadId kB(2U);
const WorkloadId kC(3U);

LedgerRules seen_within(Duration age) {
  LedgerRules rules;
  rules.max_sample_age = age;
  return rules;
}

LedgerRules burst_of(std::int64_t percent) {
  LedgerRules rules;
  rules.limit_overcommit_percent = percent;
  return rules;
}

LedgerRules no_foreign_use() {
  LedgerRules rules;
  rules.whole_foreign_max = Memory();
  return rules;
}

// --- L1: a device is free, whole or shared

TEST(Ledger, L1_ADeviceIsSharedFromTheFirstShareToTheLast) {
  LedgerWorld world({16384});
  EXPECT_EQ(world.face("d0").use, DeviceUse::free);
  const Grant a = world.share("d0", 4096);
  const Grant b = world.share("d0", 4096);
  world.ledger.book(kA, a);
  world.ledger.book(kB, b);
  EXPECT_EQ(world.face("d0").use, DeviceUse::shared);
  EXPECT_FALSE(world.face("d0").idle);
  world.ledger.unbook(kA, a);
  EXPECT_EQ(world.face("d0").use, DeviceUse::shared);
  world.ledger.unbook(kB, b);
  EXPECT_EQ(world.face("d0").use, DeviceUse::free);
  EXPECT_TRUE(world.face("d0").idle);
}

TEST(Ledger, L1_AWholeDeviceHasNoRoomBesideItsOwner) {
  LedgerWorld world({16384});
  const Grant a = world.whole("d0");
  world.ledger.book(kA, a);
  EXPECT_EQ(world.face("d0").use, DeviceUse::whole);
  EXPECT_EQ(world.face("d0").headroom, 0);
  EXPECT_EQ(world.face("d0").free_milli, 0);
}

// A share that was found running beside a whole grant does not make the device a shared one.
TEST(Ledger, L1_AWholeDeviceStaysWholeBesideAnAdoptedShare) {
  LedgerWorld world({16384});
  Grant a = world.whole("d0");
  a.charges[0].running_mib = a.charges[0].starting_mib = 1024;
  world.ledger.book(kA, a);
  world.ledger.book(kB, world.share("d0", 1024));
  EXPECT_EQ(world.face("d0").use, DeviceUse::whole);
}

// --- L2, B30: what may be promised now

TEST(Ledger, B30_DriverReserveAndMarginAreNeverGivenOut) {
  LedgerWorld world({16384});
  EXPECT_EQ(world.face("d0").usable, Memory::mib(16384).in_bytes());
  EXPECT_EQ(world.headroom_mib("d0"), 16384);
}

TEST(Ledger, B11_AGrantCountsBeforeAnySampleShowsIt) {
  LedgerWorld world({16384});
  world.see_total("d0", 0);
  world.ledger.book(kA, world.share("d0", 4096));
  EXPECT_EQ(world.headroom_mib("d0"), 12288);
}

TEST(Ledger, B12_WhileAGrantIsInvisibleOthersSeeItsFullClaim) {
  for (const bool attributed : {false, true}) {
    LedgerWorld world({16384});
    world.ledger.book(kA, world.share("d0", 4096));
    attributed ? world.see("d0", 0, {}) : world.see_total("d0", 0);
    EXPECT_EQ(world.headroom_mib("d0"), 12288);
  }
}

TEST(Ledger, B13_AGrantThatBecomesVisibleIsNotCountedTwice) {
  for (const bool attributed : {false, true}) {
    LedgerWorld world({16384});
    world.see_total("d0", 0);
    world.ledger.book(kA, world.share("d0", 4096));
    for (const std::int64_t mib : {0, 1000, 3000, 4096}) {
      attributed ? world.see("d0", mib, {{kA, mib}}) : world.see_total("d0", mib);
      EXPECT_EQ(world.headroom_mib("d0"), 12288) << mib;
    }
    // One sample that crosses the claim moves headroom by the surplus alone.
    attributed ? world.see("d0", 4100, {{kA, 4100}}) : world.see_total("d0", 4100);
    EXPECT_EQ(world.headroom_mib("d0"), 12288 - 4);
  }
}

TEST(Ledger, B14_AGrantAtAThirdOfItsClaimHoldsAllOfIt) {
  LedgerWorld world({16384});
  world.ledger.book(kA, world.share("d0", 10000));
  world.see("d0", 3000, {{kA, 3000}});
  EXPECT_EQ(world.headroom_mib("d0"), 6384);
}

TEST(Ledger, B16_ThreeSharesOfFourGibibytesRunTogetherOnSixteen) {
  LedgerWorld world({16384});
  world.ledger.book(kA, world.share("d0", 4096));
  world.ledger.book(kB, world.share("d0", 4096));
  world.ledger.book(kC, world.share("d0", 4096));
  EXPECT_EQ(world.headroom_mib("d0"), 4096);
  EXPECT_EQ(world.face("d0").grants, 3);
}

TEST(Ledger, L2_FractionsOfADeviceSumToOne) {
  LedgerWorld world({16384});
  Grant a = world.share("d0", 5461);
  a.charges[0].running_nano = 333'333'333;
  world.ledger.book(kA, a);
  EXPECT_EQ(world.face("d0").nano_left, 666'666'667);
  world.ledger.unbook(kA, a);
  EXPECT_EQ(world.face("d0").nano_left, 1'000'000'000);
}

// --- measurements

TEST(Ledger, B27_ForeignUseLowersHeadroomByItself) {
  for (const bool attributed : {false, true}) {
    LedgerWorld world({16384});
    world.see_total("d0", 0);
    world.ledger.book(kA, world.share("d0", 4096));
    const SampleEffect effect = attributed ? world.see("d0", 4096 + 6144, {{kA, 4096}})
                                           : world.see_total("d0", 4096 + 6144);
    EXPECT_EQ(effect.foreign_before, 0);
    EXPECT_EQ(effect.foreign_after, Memory::mib(6144).in_bytes());
    EXPECT_EQ(world.headroom_mib("d0"), 12288 - 6144);
    EXPECT_EQ(world.face("d0").grants, 1);
  }
}

TEST(Ledger, B28_HeadroomReturnsWhenForeignUseEnds) {
  LedgerWorld world({16384});
  world.see_total("d0", 6144);
  EXPECT_EQ(world.headroom_mib("d0"), 10240);
  world.see_total("d0", 0);
  EXPECT_EQ(world.headroom_mib("d0"), 16384);
}

TEST(Ledger, B29_UseBeyondTheClaimCountsAsMeasuredAndIsReported) {
  LedgerWorld world({16384});
  world.ledger.book(kA, world.share("d0", 4096));
  world.ledger.book(kB, world.share("d0", 4096));
  const SampleEffect effect = world.see("d0", 6000, {{kA, 6000}});
  ASSERT_EQ(effect.overuse.size(), 1u);
  EXPECT_EQ(effect.overuse[0].workload, kA);
  EXPECT_EQ(effect.overuse[0].bytes, Memory::mib(1904).in_bytes());
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 6000 - 4096);  // B keeps its claim
  EXPECT_EQ(world.book("d0").foreign, 0);
}

TEST(Ledger, B44_WhatAReleasedGrantStillHoldsIsForeignUntilItIsGone) {
  for (const bool attributed : {false, true}) {
    LedgerWorld world({16384});
    world.see_total("d0", 0);
    const Grant a = world.share("d0", 8192);
    world.ledger.book(kA, a);
    world.ledger.book(kB, world.share("d0", 2048));
    attributed ? world.see("d0", 10240, {{kA, 8192}, {kB, 2048}}) : world.see_total("d0", 10240);
    world.ledger.unbook(kA, a);
    EXPECT_EQ(world.book("d0").foreign, Memory::mib(8192).in_bytes());
    EXPECT_EQ(world.headroom_mib("d0"), 16384 - 10240);
    attributed ? world.see("d0", 2048, {{kB, 2048}}) : world.see_total("d0", 2048);
    EXPECT_EQ(world.headroom_mib("d0"), 16384 - 2048);
  }
}

TEST(Ledger, TheFloorIsWhatWasInUseWhileNothingWasGranted) {
  LedgerWorld world({16384});
  world.see_total("d0", 1000);
  world.ledger.book(kA, world.share("d0", 4096));
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 1000 - 4096);
  world.see_total("d0", 1000 + 4000);  // the claim becomes visible
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 1000 - 4096);
  world.see_total("d0", 700);  // foreign use fell below its floor
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 700 - 4096);
  world.see_total("d0", 5000);  // growth hides under the claim, as the contract says
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 5000);
}

// Samples by process know the foreign use exactly; when attribution fails, that is the floor.
TEST(Ledger, TheFloorComesFromAttributedSamplesToo) {
  LedgerWorld world({16384});
  world.see("d0", 3000, {});
  world.ledger.book(kA, world.share("d0", 4096));
  world.see_total("d0", 3000);
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 3000 - 4096);
  world.see("d0", 9000, {{kA, 4000}});
  world.see_total("d0", 9000);
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 5000 - 4096);
}

TEST(Ledger, L13_B21_ADeviceOfUnknownSizeOrUseTakesNothing) {
  LedgerWorld world({16384});
  Node node = world.fleet.node(world.node());
  node.devices[0].total.reset();
  world.upsert(node);
  EXPECT_EQ(world.face("d0").blocked, Cause::no_usable_memory);
  EXPECT_EQ(world.face("d0").headroom, 0);

  node.devices[0].total = node.devices[0].reserve;  // reserve >= total
  world.upsert(node);
  EXPECT_EQ(world.face("d0").blocked, Cause::no_usable_memory);

  LedgerWorld other({16384});
  other.ledger.observe(other.id("d0"), Sample{.sampled_at = Time(), .used = {}, .uses = {}},
                       Time());
  EXPECT_EQ(other.face("d0").blocked, Cause::no_usable_memory);
  other.see_total("d0", 0);
  EXPECT_EQ(other.face("d0").blocked, Cause::none);
}

TEST(Ledger, B22_AStaleSampleBlocksUntilTheNextOne) {
  LedgerWorld world({16384, 16384}, seen_within(Duration(1000)));
  EXPECT_EQ(world.face("d0").blocked, Cause::stale_observation);  // never seen
  world.see_total("d0", 0);
  EXPECT_EQ(world.face("d0").blocked, Cause::none);
  EXPECT_EQ(world.ledger.age_samples(Time(999)), Time(1001));
  EXPECT_EQ(world.ledger.age_samples(Time(1000)), Time(1001));
  EXPECT_EQ(world.face("d0").blocked, Cause::none);
  EXPECT_EQ(world.ledger.age_samples(Time(1001)), std::nullopt);
  EXPECT_EQ(world.face("d0").blocked, Cause::stale_observation);
  world.now = Time(5000);
  world.see_total("d0", 0);
  EXPECT_EQ(world.face("d0").blocked, Cause::none);
  EXPECT_EQ(world.face("d1").blocked, Cause::stale_observation);
}

TEST(Ledger, B34_AVanishedDeviceLeavesItsNodesOtherBooksAlone) {
  LedgerWorld world({16384, 8192});
  world.ledger.book(kA, world.share("d1", 1024));
  Node node = world.fleet.node(world.node());
  node.devices.erase(node.devices.begin());
  world.upsert(node);
  EXPECT_EQ(world.headroom_mib("d1"), 7168);
  EXPECT_TRUE(world.ledger.check().ok());
  node.devices.push_back(LedgerWorld::device("d0", 16384));  // back, in another place
  world.upsert(node);
  EXPECT_EQ(world.headroom_mib("d0"), 16384);
  EXPECT_EQ(world.headroom_mib("d1"), 7168);
  EXPECT_TRUE(world.ledger.check().ok());
}

TEST(Ledger, B36_ADeviceThatComesBackIsJudgedByNewSamples) {
  LedgerWorld world({16384}, seen_within(Duration(1000)));
  world.see_total("d0", 9000);
  const Node node = world.fleet.node(world.node());
  ASSERT_TRUE(world.fleet.remove("n0").ok());
  world.ledger.sync_node(world.node(), world.now);
  world.ledger.forget_samples(world.id("d0"));
  world.upsert(node);
  EXPECT_EQ(world.face("d0").blocked, Cause::stale_observation);
  EXPECT_EQ(world.book("d0").foreign, 0);
  EXPECT_TRUE(world.ledger.check().ok());
}

// --- L3: room that is being freed

TEST(Ledger, L3_WhatIsBeingReleasedCountsNowAndNotLater) {
  LedgerWorld world({16384});
  Grant a = world.share("d0", 10000);
  a.cpu = Milli(1000);
  a.ram = Memory::mib(10);
  world.ledger.book(kA, a);
  world.ledger.book(kB, world.share("d0", 1000));
  world.ledger.set_releasing(kA, a, true);
  a.state = GrantState::releasing;
  EXPECT_EQ(world.headroom_mib("d0"), 5384);
  EXPECT_EQ(world.ledger.future_face(world.id("d0")).headroom, Memory::mib(15384).in_bytes());
  EXPECT_TRUE(world.ledger.has_releasing(world.node()));
  EXPECT_EQ(world.ledger.future(world.node()).cpu, 64'000);
  EXPECT_EQ(world.ledger.node(world.node()).cpu_free, 63'000);

  world.ledger.set_releasing(kA, a, false);  // it was believed for too long
  a.state = GrantState::active;
  EXPECT_EQ(world.ledger.future_face(world.id("d0")).headroom, Memory::mib(5384).in_bytes());
  EXPECT_FALSE(world.ledger.has_releasing(world.node()));
  EXPECT_EQ(world.ledger.future(world.node()).cpu, 63'000);
}

TEST(Ledger, L3_APromiseIsRespectedByWhatComesLater) {
  LedgerWorld world({16384});
  Grant a = world.share("d0", 16384);
  world.ledger.book(kA, a);
  world.ledger.set_releasing(kA, a, true);
  a.state = GrantState::releasing;
  Grant b = world.share("d0", 12000);
  b.state = GrantState::promised;
  world.ledger.book(kB, b);
  EXPECT_EQ(world.headroom_mib("d0"), 0);
  EXPECT_EQ(world.ledger.future_face(world.id("d0")).headroom, Memory::mib(4384).in_bytes());
  world.ledger.unbook(kA, a);
  EXPECT_EQ(world.headroom_mib("d0"), 4384);
  EXPECT_TRUE(world.book("d0").holdings[0].promised);
  world.ledger.keep_promise(kB, b);
  EXPECT_FALSE(world.book("d0").holdings[0].promised);
}

// Without attribution, what a released grant leaves behind must not hide under a claim that does
// not run yet.
TEST(Ledger, L3_B44_APromiseExplainsNoMemory) {
  LedgerWorld world({16384});
  world.see_total("d0", 0);
  Grant a = world.share("d0", 16384);
  world.ledger.book(kA, a);
  world.see_total("d0", 3000);
  world.ledger.set_releasing(kA, a, true);
  a.state = GrantState::releasing;
  Grant b = world.share("d0", 12000);
  b.state = GrantState::promised;
  world.ledger.book(kB, b);
  world.ledger.unbook(kA, a);
  EXPECT_EQ(world.book("d0").foreign, Memory::mib(3000).in_bytes());
  world.see_total("d0", 0);
  world.ledger.keep_promise(kB, b);
  EXPECT_EQ(world.headroom_mib("d0"), 4384);
  world.see_total("d0", 9000);
  EXPECT_EQ(world.headroom_mib("d0"), 4384);
}

// --- L4-L6

TEST(Ledger, L4_LimitsMaySumToTheBurstRatioOfUsable) {
  LedgerWorld world({10000}, burst_of(150));
  EXPECT_EQ(world.face("d0").limit_room, Memory::mib(15000).in_bytes());
  Grant a = world.share("d0", 1000);
  a.charges[0].running_limit_mib = 9000;
  world.ledger.book(kA, a);
  EXPECT_EQ(world.face("d0").limit_room, Memory::mib(6000).in_bytes());
  EXPECT_EQ(world.headroom_mib("d0"), 9000);  // a limit is not a claim
}

TEST(Ledger, L5_TheModeIsSetByTheFirstShareAndFreedWithTheLast) {
  LedgerWorld world({16384});
  Grant a = world.share("d0", 1024);
  a.charges[0].mode = SharingMode::sm_sharing;
  world.ledger.book(kA, a);
  EXPECT_EQ(world.face("d0").mode, SharingMode::sm_sharing);
  world.ledger.unbook(kA, a);
  EXPECT_EQ(world.face("d0").use, DeviceUse::free);
  EXPECT_EQ(world.face("d0").mode, SharingMode::time_slicing);
}

TEST(Ledger, L6_ComputeSharesSumToOneDevice) {
  LedgerWorld world({16384});
  Grant a = world.share("d0", 1024);
  a.charges[0].compute_milli = 300;
  world.ledger.book(kA, a);
  EXPECT_EQ(world.face("d0").compute_left, 700);
  Grant b = a;
  b.charges[0].compute_milli = 900;  // adopted: booked as it is
  world.ledger.book(kB, b);
  EXPECT_EQ(world.face("d0").compute_left, 0);
}

TEST(Ledger, L7_AGrantOfSeveralDevicesIsChargedOnEach) {
  LedgerWorld world({16384, 16384, 16384});
  Grant a = world.share("d0", 4096);
  a.charges.push_back(world.share("d2", 4096).charges[0]);
  world.ledger.book(kA, a);
  EXPECT_EQ(world.headroom_mib("d0"), 12288);
  EXPECT_EQ(world.headroom_mib("d1"), 16384);
  EXPECT_EQ(world.headroom_mib("d2"), 12288);
}

TEST(Ledger, L8_OneMebibyteIsAShareLikeAnyOther) {
  LedgerWorld world({2});
  world.ledger.book(kA, world.share("d0", 1));
  EXPECT_EQ(world.headroom_mib("d0"), 1);
}

TEST(Ledger, L15_UnhealthyAndCordonedDevicesTakeNothingNewAndKeepWhatTheyHave) {
  LedgerWorld world({16384});
  world.ledger.book(kA, world.share("d0", 4096));
  world.fleet.set_health(world.id("d0"), DeviceHealth::unhealthy);
  world.ledger.sync_device(world.id("d0"), world.now);
  EXPECT_EQ(world.face("d0").blocked, Cause::device_unhealthy);
  EXPECT_EQ(world.headroom_mib("d0"), 12288);
  world.fleet.set_health(world.id("d0"), DeviceHealth::ok);
  world.fleet.set_cordoned(world.id("d0"), true);
  world.ledger.sync_device(world.id("d0"), world.now);
  EXPECT_EQ(world.face("d0").blocked, Cause::device_cordoned);
  EXPECT_EQ(world.face("d0").free_milli, 0);
}

// --- pod phases, whole devices

TEST(Ledger, TheChargeShrinksWhenTheInitContainersAreDone) {
  LedgerWorld world({16384});
  Grant a = world.share("d0", 8192);
  a.starting = true;
  a.charges[0].running_mib = 2048;
  a.charges[0].running_limit_mib = 2048;
  a.charges[0].starting_nano = 500;
  a.charges[0].running_nano = 100;
  world.ledger.book(kA, a);
  EXPECT_EQ(world.headroom_mib("d0"), 8192);
  world.ledger.shrink(kA, a);
  a.starting = false;
  EXPECT_EQ(world.headroom_mib("d0"), 14336);
  EXPECT_EQ(world.face("d0").nano_left, 1'000'000'000 - 100);
  world.ledger.unbook(kA, a);
  EXPECT_EQ(world.headroom_mib("d0"), 16384);
}

TEST(Ledger, AWholeDeviceToleratesLittleForeignUse) {
  LedgerWorld world({16384});
  world.see_total("d0", 512);
  EXPECT_TRUE(world.face("d0").idle);  // gets usable - foreign
  EXPECT_EQ(world.headroom_mib("d0"), 15872);
  world.see_total("d0", 513);
  EXPECT_FALSE(world.face("d0").idle);

  LedgerWorld large({98976});  // 100,000 MiB in all: 2 % is more than 512 MiB
  large.see_total("d0", 2000);
  EXPECT_TRUE(large.face("d0").idle);
  large.see_total("d0", 2001);
  EXPECT_FALSE(large.face("d0").idle);

  LedgerWorld strict({16384}, no_foreign_use());
  strict.see_total("d0", 1);
  EXPECT_FALSE(strict.face("d0").idle);
}

TEST(Ledger, WhenCapacityShrinksBelowWhatIsPromisedHeadroomIsZeroAndNothingIsTakenAway) {
  LedgerWorld world({16384});
  world.ledger.book(kA, world.share("d0", 12000));
  Node node = world.fleet.node(world.node());
  node.devices[0] = LedgerWorld::device("d0", 8000);
  world.upsert(node);
  EXPECT_EQ(world.headroom_mib("d0"), 0);
  EXPECT_EQ(world.book("d0").requests, Memory::mib(12000).in_bytes());
  EXPECT_TRUE(world.ledger.check().ok());
}

// --- transactions

TEST(Transaction, LeavesNothingUnlessCommitted) {
  LedgerWorld world({16384, 16384});
  world.see_total("d0", 300);
  const Grant a = world.share("d0", 4096);
  Grant b = world.share("d0", 1024);
  b.cpu = Milli(5);
  b.charges.push_back(world.share("d1", 1024).charges[0]);
  {
    Transaction transaction(world.ledger);
    transaction.book(kA, a);
    transaction.book(kB, b);
    EXPECT_EQ(world.headroom_mib("d0"), 16384 - 300 - 4096 - 1024);
  }
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 300);
  EXPECT_EQ(world.headroom_mib("d1"), 16384);
  EXPECT_EQ(world.ledger.node(world.node()).cpu_free, 64'000);
  EXPECT_EQ(world.ledger.node(world.node()).slots_free, 110);
  EXPECT_TRUE(world.ledger.check().ok());
  {
    Transaction transaction(world.ledger);
    transaction.book(kA, a);
    transaction.commit();
  }
  EXPECT_EQ(world.headroom_mib("d0"), 16384 - 300 - 4096);
}

}  // namespace
}  // namespace berth::core
