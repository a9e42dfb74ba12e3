#include "gpu/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::gpu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr DevicePlace kGpu{.gpu = "GPU-a"};
constexpr DevicePlace kOne{.gpu = "GPU-a", .gpu_instance = 1, .compute_instance = 0};
constexpr DevicePlace kTwo{.gpu = "GPU-a", .gpu_instance = 2, .compute_instance = 0};
constexpr GpuProbe kFine{.answers = true};

class HealthBookTest : public testing::Test {
 protected:
  HealthBook book_{Duration(1000)};
};

TEST_F(HealthBookTest, AnErrorOfTheGpuIsOneOfAllItsInstances) {
  book_.note({.uuid = "GPU-a", .xid = 79}, Time(0));
  for (const DevicePlace& place : {kGpu, kOne, kTwo}) {
    EXPECT_TRUE(book_.of(place).lost);
    EXPECT_EQ(book_.of(place).cause, 79);
    EXPECT_THAT(book_.of(place).xids, ElementsAre(79));
  }
  EXPECT_FALSE(book_.of({.gpu = "GPU-b"}).lost);
}

TEST_F(HealthBookTest, AnErrorOfAnInstanceIsItsOwn) {
  book_.note({.uuid = "GPU-a", .gpu_instance = 1, .compute_instance = 0, .xid = 95}, Time(0));
  EXPECT_TRUE(book_.of(kOne).lost);
  EXPECT_FALSE(book_.of(kTwo).lost);
  EXPECT_FALSE(book_.of(kGpu).lost);
  book_.note({.uuid = "GPU-a", .gpu_instance = 2, .compute_instance = kWholeGpu, .xid = 31},
             Time(0));
  EXPECT_THAT(book_.of(kTwo).app_xids, ElementsAre(31));
  EXPECT_FALSE(book_.of(kTwo).lost) << "the application's own fault";
  EXPECT_THAT(book_.of(kOne).app_xids, IsEmpty());
  EXPECT_FALSE(book_.of({.gpu = "GPU-a", .gpu_instance = 1, .compute_instance = 3}).lost)
      << "another compute instance of the same GPU instance";
}

TEST_F(HealthBookTest, EventsAreToldOnceAndFaultsStay) {
  book_.note({.uuid = "GPU-a", .xid = 119}, Time(0));
  book_.begin();
  EXPECT_THAT(book_.of(kGpu).xids, IsEmpty());
  EXPECT_TRUE(book_.of(kGpu).lost);
}

TEST_F(HealthBookTest, TheWayBackIsAQuietPeriodInWhichTheGpuAnswers) {
  book_.note({.uuid = "GPU-a", .xid = 119}, Time(0));
  book_.settle("GPU-b", kFine, Time(5000));
  EXPECT_TRUE(book_.of(kGpu).lost) << "another GPU's answer";
  book_.settle("GPU-a", kFine, Time(999));
  EXPECT_TRUE(book_.of(kGpu).lost);
  book_.settle("GPU-a", {.answers = false}, Time(1500));
  book_.settle("GPU-a", kFine, Time(2499));
  EXPECT_TRUE(book_.of(kGpu).lost);
  book_.note({.uuid = "GPU-a", .xid = 62}, Time(2499));
  book_.settle("GPU-a", kFine, Time(3498));
  EXPECT_TRUE(book_.of(kGpu).lost);
  EXPECT_EQ(book_.of(kGpu).cause, 62);
  book_.settle("GPU-a", kFine, Time(3499));
  EXPECT_FALSE(book_.of(kGpu).lost);
}

TEST_F(HealthBookTest, AnErrorCounterThatRisesIsNotQuiet) {
  book_.note({.uuid = "GPU-a", .xid = 48}, Time(0));
  book_.settle("GPU-a", {.answers = true, .errors = 1}, Time(10));
  book_.settle("GPU-a", {.answers = true, .errors = 2}, Time(900));
  book_.settle("GPU-a", {.answers = true, .errors = 2}, Time(1899));
  EXPECT_TRUE(book_.of(kGpu).lost);
  book_.settle("GPU-a", {.answers = true, .errors = 2}, Time(1900));
  EXPECT_FALSE(book_.of(kGpu).lost);
}

TEST_F(HealthBookTest, ALoadedDriverStartsWithACleanSlate) {
  book_.note({.uuid = "GPU-a", .xid = 79}, Time(0));
  book_.clear();
  EXPECT_FALSE(book_.of(kGpu).lost);
}

}  // namespace
}  // namespace berth::gpu
