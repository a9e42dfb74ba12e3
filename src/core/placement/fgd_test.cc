#include "core/placement/fgd.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

// The node as the formula of placement.md 3 sees it.
struct Plain {
  std::int64_t cpu = 0;
  std::vector<int> left;
  std::string model;
};

// N times F_n, word for word: every class, every device.
std::int64_t fragmentation(const Plain& node, const std::vector<WorkClass>& typical) {
  std::int64_t free = 0;
  for (const int g : node.left) {
    free += g;
  }
  std::int64_t sum = 0;
  for (const WorkClass& m : typical) {
    std::int64_t small = 0;
    int able = 0;
    for (const int g : node.left) {
      able += g >= m.gpu_milli ? 1 : 0;
      small += g < m.gpu_milli ? g : 0;
    }
    const bool served = !m.is_cpu_only() && able >= m.num_gpu && node.cpu >= m.cpu_milli &&
                        (m.models.empty() || std::ranges::count(m.models, node.model) > 0);
    sum += m.count * (served ? small : free);
  }
  return sum;
}

struct Expected {
  int score = -1;
  int device = -1;
};

// What the formula says about a part of a device (0 < milli < 1000), whole devices or CPU alone.
Expected by_formula(const Plain& node, const std::vector<WorkClass>& typical,
                    const WorkClass& pod) {
  std::int64_t pods = 0;
  for (const WorkClass& m : typical) {
    pods += m.count;
  }
  const std::int64_t before = fragmentation(node, typical);
  const auto score = [&](Plain after) {
    after.cpu -= pod.cpu_milli;
    return fgd_score({.weighted_milli = before - fragmentation(after, typical), .pods = pods});
  };
  if (pod.is_cpu_only()) {
    return {.score = score(node)};
  }
  if (!pod.is_fraction()) {
    Plain after = node;
    int missing = pod.num_gpu;
    for (int& g : after.left) {
      if (g == 1000 && missing > 0) {
        g = 0;
        --missing;
      }
    }
    return missing == 0 ? Expected{.score = score(after)} : Expected{};
  }
  Expected best;
  for (std::size_t d = 0; d < node.left.size(); ++d) {
    if (node.left[d] < pod.gpu_milli) {
      continue;
    }
    Plain after = node;
    after.left[d] -= pod.gpu_milli;
    if (const int now = score(after); now > best.score) {
      best = {.score = now, .device = static_cast<int>(d)};
    }
  }
  return best;
}

Request request_like(const WorkClass& pod) {
  return pod.is_cpu_only()   ? cpu_only(pod.cpu_milli)
         : pod.is_fraction() ? share(pod.gpu_milli, pod.cpu_milli)
                             : whole(pod.num_gpu, pod.cpu_milli);
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}

  int to(int most) { return std::uniform_int_distribution(0, most)(generator_); }

  WorkClass work() {
    WorkClass work{.cpu_milli = std::int64_t{1000} * to(16)};
    const int kind = to(5);
    work.num_gpu = kind == 0 ? 0 : kind < 4 ? 1 : 1 << to(3);
    work.gpu_milli = kind == 0 ? 0 : kind < 4 ? 10 + 10 * to(98) : 1000;
    if (to(3) == 0) {
      work.models = {to(1) == 0 ? "A" : "B"};
    }
    return work;
  }

 private:
  std::mt19937_64 generator_;
};

TEST(FragmentationPolicy, ScoresAndChoosesAsTheFormulaSays) {
  Dice dice(7);
  for (int round = 0; round < 300; ++round) {
    ClassCounts history;
    for (int i = dice.to(20); i >= 0; --i) {
      history.add(dice.work(), 1 + dice.to(100));
    }
    const std::vector<WorkClass> typical = typical_classes(history);
    World world("fgd", history);
    Plain plain{
        .cpu = std::int64_t{1000} * dice.to(24), .left = {}, .model = dice.to(1) == 0 ? "A" : "B"};
    const int devices = dice.to(8);
    world.add(
        world_node({.name = "n", .devices = devices, .model = plain.model, .cpu = plain.cpu}));
    for (int d = 0; d < devices; ++d) {
      const int used = dice.to(2) == 0 ? 0 : dice.to(99) * 10;
      plain.left.push_back(1000 - used);
      if (used > 0) {
        world.put("n/g" + std::to_string(d), share(used));
      }
    }
    for (int ask = 0; ask < 10; ++ask) {
      WorkClass pod = dice.work();
      pod.cpu_milli = std::min(pod.cpu_milli, plain.cpu);
      const Expected expected = by_formula(plain, typical, pod);
      const ShapeId shape = world.shapes.acquire(request_like(pod));
      const Selection selection = world.index.select(shape, {});
      ASSERT_EQ(selection.node.is_none(), expected.score < 0);
      if (expected.score < 0) {
        continue;
      }
      ASSERT_EQ(selection.cost, -expected.score);
      if (expected.device >= 0) {
        ASSERT_EQ(world.index.places(shape, selection).front().places.at[0], expected.device);
      }
    }
  }
}

TEST(FragmentationPolicy, LeavesDevicesThatTypicalWorkStillFits) {
  ClassCounts history;
  history.add({.gpu_milli = 500, .num_gpu = 1}, 10);
  World world("fgd", history);
  world.add(world_node({.name = "n", .devices = 2}));
  world.put("n/g0", share(400));
  world.put("n/g1", share(200));
  // 100 more on g0 leaves 500, which is what everybody asks for; on g1 700 with 200 to spare.
  EXPECT_EQ(world.place(share(100)).devices, std::vector<std::string>{"n/g0"});
  // On g0 it would leave 300, fragmented for all; on g1 600.
  EXPECT_EQ(world.place(share(200)).devices, std::vector<std::string>{"n/g1"});
}

TEST(FragmentationPolicy, SaysFiftyToEverythingWithoutHistory) {
  World world("fgd");
  world.add(world_node({.name = "b", .devices = 2}));
  world.add(world_node({.name = "a", .devices = 2}));
  const Placed first = world.place(share(300));
  EXPECT_EQ(first.node, "a");
  EXPECT_EQ(first.cost, -50);
  EXPECT_EQ(first.devices, std::vector<std::string>{"a/g0"});
}

TEST(FragmentationPolicy, TakesTheLowestIdleDevicesForWholeAsks) {
  World world("fgd");
  world.add(world_node({.name = "n", .devices = 4}));
  world.put("n/g1", share(10));
  EXPECT_EQ(world.place(whole(2)).devices, (std::vector<std::string>{"n/g0", "n/g2"}));
}

TEST(FragmentationPolicy, TakesDifferentDevicesForPartsOfSeveral) {
  World world("fgd");
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g0", share(800));
  const Placed placed = world.place(request_of({DeviceAsk::fraction_nano(300'000'000, 2)}));
  EXPECT_EQ(placed.devices, (std::vector<std::string>{"n/g1", "n/g2"}));
}

}  // namespace
}  // namespace berth::core
