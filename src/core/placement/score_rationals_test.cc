#include "core/placement/score_rationals.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace berth::core {
namespace {

// floor(100 x numerator / denominator) by trial: the largest s with s x denominator <= 100 x
// numerator.
std::int64_t floor_of_hundredths(Int128 numerator, Int128 denominator) {
  std::int64_t score = -1'000'000;
  for (std::int64_t step = std::int64_t{1} << 30; step > 0; step /= 2) {
    while (Int128{score + step} * denominator <= 100 * numerator)
      score += step;
  }
  return score;
}

RoomAndRequest random_case(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  RoomAndRequest at;
  const std::uint64_t grain = random() % 2 == 0 ? 1 : 1000;  // round numbers meet the borders
  at.free_cpu_milli = below(260'000 / grain) * static_cast<std::int64_t>(grain);
  at.free_gpu_milli = 10 * below(1601);
  at.cpu_milli = below(130'000 / grain) * static_cast<std::int64_t>(grain);
  at.gpu_milli = 10 * below(801);
  return at;
}

TEST(FgdThresholds, AreTheRoundedLogarithms) {
  for (int s = 1; s <= 99; ++s)
    EXPECT_EQ(fgd_threshold(s), std::llround(1e12L * std::log(s / (100.0L - s)))) << s;
  EXPECT_EQ(fgd_threshold(50), 0);
}

TEST(FgdThresholds, AreSymmetricAndRise) {
  for (int s = 1; s <= 99; ++s) {
    EXPECT_EQ(fgd_threshold(100 - s), -fgd_threshold(s));
    if (s > 1) {
      EXPECT_GT(fgd_threshold(s), fgd_threshold(s - 1));
    }
  }
}

TEST(FgdScore, IsFiftyWhereNothingChangesAndInAHistoryOfNothing) {
  EXPECT_EQ(fgd_score({.weighted_milli = 0, .pods = 8152}), 50);
  EXPECT_EQ(fgd_score({.weighted_milli = 0, .pods = 0}), 50);
  EXPECT_EQ(FgdScore(0).of(0), 50);
  EXPECT_EQ(FgdScore(0).of(-1), 50);
}

TEST(FgdScore, TiesDropsWithinFortyMilli) {
  // 51 needs a fall of 1000 ln(51/49) = 40.005 milli; any rise, however small, is below 50.
  EXPECT_EQ(fgd_score({.weighted_milli = 40'000, .pods = 1000}), 50);
  EXPECT_EQ(fgd_score({.weighted_milli = 40'006, .pods = 1000}), 51);
  EXPECT_EQ(fgd_score({.weighted_milli = -1, .pods = 1000}), 49);
  EXPECT_EQ(fgd_score({.weighted_milli = -40'006, .pods = 1000}), 48);
}

TEST(FgdScore, StaysWithinZeroAndNinetyNine) {
  EXPECT_EQ(fgd_score({.weighted_milli = 8000, .pods = 1}), 99);
  EXPECT_EQ(fgd_score({.weighted_milli = 4596, .pods = 1}), 99);
  EXPECT_EQ(fgd_score({.weighted_milli = 4595, .pods = 1}), 98);
  EXPECT_EQ(fgd_score({.weighted_milli = -8000, .pods = 1}), 0);
  EXPECT_EQ(fgd_score({.weighted_milli = -4596, .pods = 1}), 0);
  EXPECT_EQ(fgd_score({.weighted_milli = -4595, .pods = 1}), 1);
}

TEST(FgdScore, IsTheSigmoidRoundedDown) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const auto pods = static_cast<std::int64_t>(1 + random() % 10'000);
    const std::int64_t drop = static_cast<std::int64_t>(random() % 16'001) * pods - 8000 * pods +
                              static_cast<std::int64_t>(random() % 1000);
    const long double fall = static_cast<long double>(drop) / (1000.0L * pods);
    const long double real = 100.0L / (1.0L + std::exp(-fall));
    if (std::abs(real - std::round(real)) < 1e-9L) continue;  // on a border only integers can tell
    ASSERT_EQ(fgd_score({.weighted_milli = drop, .pods = pods}), static_cast<int>(real)) << drop;
  }
}

TEST(FgdScore, ForOneNumberOfPodsEqualsTheLetter) {
  std::mt19937_64 random(4);
  for (const std::int64_t pods : {1LL, 7LL, 1000LL, 7750LL, 1LL << 40}) {
    const FgdScore score(pods);
    for (int s = 1; s <= 99; ++s) {
      const auto border =
          static_cast<std::int64_t>(Int128{pods} * fgd_threshold(s) / 1'000'000'000);
      for (std::int64_t drop = border - 2; drop <= border + 2; ++drop)
        ASSERT_EQ(score.of(drop), fgd_score({.weighted_milli = drop, .pods = pods})) << s;
    }
    for (int i = 0; i < 10'000; ++i) {
      const std::int64_t drop =
          static_cast<std::int64_t>(random() >> (1 + random() % 60)) * (random() % 2 == 0 ? 1 : -1);
      ASSERT_EQ(score.of(drop), fgd_score({.weighted_milli = drop, .pods = pods})) << drop;
    }
  }
}

TEST(FgdScore, KnowsTheLeastDropOfEachScore) {
  const FgdScore scores(1234);
  for (int score = 1; score <= 99; ++score) {
    EXPECT_EQ(scores.of(scores.least(score)), score);
    EXPECT_EQ(scores.of(scores.least(score) - 1), score - 1);
  }
  EXPECT_EQ(scores.least(0), INT64_MIN);
}

TEST(BestFitScore, IsTheFlooredRational) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const RoomAndRequest at = random_case(random);
    const Int128 cpu = Int128{at.free_cpu_milli - at.cpu_milli} * 8000;
    const Int128 gpu = Int128{at.free_gpu_milli - at.gpu_milli} * 128'000;
    const Int128 whole = Int128{2} * 128'000 * 8000;
    ASSERT_EQ(best_fit_score(at), floor_of_hundredths(whole - cpu - gpu, whole));
  }
}

TEST(BestFitScore, IsAHundredOnANodeThatBecomesFull) {
  EXPECT_EQ(
      best_fit_score(
          {.free_cpu_milli = 8000, .free_gpu_milli = 500, .cpu_milli = 8000, .gpu_milli = 500}),
      100);
  EXPECT_EQ(
      best_fit_score(
          {.free_cpu_milli = 8001, .free_gpu_milli = 500, .cpu_milli = 8000, .gpu_milli = 500}),
      99);
  EXPECT_EQ(best_fit_score({.free_cpu_milli = 128'000, .free_gpu_milli = 8000}), 0);
}

TEST(DotProductScore, IsTheFlooredRational) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const RoomAndRequest at = random_case(random);
    const Int128 cpu = Int128{at.free_cpu_milli} * at.cpu_milli * 8000 * 8000;
    const Int128 gpu = Int128{at.free_gpu_milli} * at.gpu_milli * 128'000 * 128'000;
    const Int128 whole = Int128{2} * 128'000 * 128'000 * 8000 * 8000;
    ASSERT_EQ(dot_product_score(at), floor_of_hundredths(whole - cpu - gpu, whole));
  }
}

TEST(DotProductScore, PrefersTheNodeWithLessLeftOfWhatIsAsked) {
  EXPECT_EQ(dot_product_score({.free_cpu_milli = 128'000, .free_gpu_milli = 8000}), 100);
  EXPECT_EQ(dot_product_score({.free_cpu_milli = 128'000,
                               .free_gpu_milli = 8000,
                               .cpu_milli = 128'000,
                               .gpu_milli = 8000}),
            0);
  EXPECT_EQ(dot_product_score({.free_gpu_milli = 4000, .gpu_milli = 4000}), 87);
}

TEST(GpuClusteringScore, RanksOwnShapeThenMixedThenFreshThenOthers) {
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::only_this, 0), 100);
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::only_this, 8000), 75);
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::this_among_others, 4000), 62);
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::none, 8000), 25);
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::none, 2000), 43);
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::only_others, 320), 24);
  EXPECT_EQ(gpu_clustering_score(ShapesOnNode::only_others, 321), 23);
}

TEST(GpuClusteringScore, RisesAsTheNodeFills) {
  for (std::int64_t free = 0; free <= 8000; free += 10)
    EXPECT_EQ(gpu_clustering_score(ShapesOnNode::only_others, free),
              floor_of_hundredths(8000 - free, Int128{4} * 8000))
        << free;
}

TEST(GpuPackingScore, PrefersPartlyUsedDevicesThenUsedNodesThenFreshOnes) {
  const PackingCandidate fraction{
      .devices = 8, .idle_devices = 3, .num_gpu = 1, .gpu_milli = 100, .tightest_used = 190};
  EXPECT_EQ(gpu_packing_score(fraction), 99);
  PackingCandidate roomy = fraction;
  roomy.tightest_used = 990;
  EXPECT_EQ(gpu_packing_score(roomy), 91);
  roomy.tightest_used.reset();
  EXPECT_EQ(gpu_packing_score(roomy), 49);

  PackingCandidate whole{.devices = 8, .idle_devices = 3, .num_gpu = 2, .gpu_milli = 1000};
  EXPECT_EQ(gpu_packing_score(whole), 48);
  whole.num_gpu = 40;
  EXPECT_EQ(gpu_packing_score(whole), 33);
}

TEST(GpuPackingScore, OfAFreshNodeFallsWithItsSizeButNotBelowIt) {
  for (const auto& [devices, score] : {std::pair{1, 32}, {2, 31}, {8, 25}, {16, 17}, {20, 20}}) {
    EXPECT_EQ(gpu_packing_score(
                  {.devices = devices, .idle_devices = devices, .num_gpu = 1, .gpu_milli = 1000}),
              score);
    EXPECT_EQ(gpu_packing_score(
                  {.devices = devices, .idle_devices = devices, .num_gpu = 1, .gpu_milli = 50}),
              score);
  }
}

TEST(GpuPackingScore, IsZeroForPodsWithoutGpu) {
  EXPECT_EQ(gpu_packing_score({.devices = 8, .idle_devices = 8}), 0);
  EXPECT_EQ(gpu_packing_score({.devices = 8, .idle_devices = 2}), 0);
}

}  // namespace
}  // namespace berth::core
