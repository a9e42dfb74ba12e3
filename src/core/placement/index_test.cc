#include "core/placement/index.h"

#include <algorithm>
#include <bit>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}

  // 0 … most.
  int to(int most) { return std::uniform_int_distribution(0, most)(generator_); }

  bool one_in(int n) { return to(n - 1) == 0; }

  template <typename T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(to(static_cast<int>(all.size()) - 1))];
  }

  template <typename T>
  void shuffle(std::vector<T>& all) {
    std::shuffle(all.begin(), all.end(), generator_);
  }

 private:
  std::mt19937_64 generator_;
};

const std::vector<std::string>& models() {
  static const std::vector<std::string> kModels{"A", "B", "C"};
  return kModels;
}

Node random_node(Dice& dice, const std::string& name) {
  Node node = world_node({.name = name,
                          .devices = dice.of<int>({0, 1, 2, 4, 8}),
                          .device_mib = dice.of<std::int64_t>({1000, 16'160, 81'559}),
                          .model = dice.of(models()),
                          .cpu = std::int64_t{8000} * dice.to(8),
                          .ram_mib = std::int64_t{4096} * dice.to(16),
                          .tie_rank = dice.to(3)});
  node.pod_slots = dice.one_in(10) ? dice.to(3) : 110;
  node.cordoned = dice.one_in(12);
  node.ready = !dice.one_in(15);
  for (Device& device : node.devices) {
    device.numa = dice.to(1);
    if (dice.one_in(20)) {
      device.model = dice.of(models());
      device.total = Memory::mib(24'000);
    }
    device.cordoned = dice.one_in(20);
  }
  if (dice.one_in(6)) {
    node.taints.push_back({.key = "dedicated", .value = "x", .effect = "NoSchedule"});
  }
  if (dice.one_in(2)) {
    node.labels["zone"] = dice.one_in(2) ? "1" : "2";
  }
  return node;
}

DeviceAsk random_ask(Dice& dice) {
  const int kind = dice.to(5);
  DeviceAsk ask = kind < 3    ? DeviceAsk::fraction_nano(10'000'000LL * (1 + dice.to(98)))
                  : kind == 3 ? DeviceAsk::memory_mib(1 + dice.to(20'000))
                              : DeviceAsk::whole_devices(dice.of<int>({1, 1, 2, 4}));
  if (ask.is_share()) {
    ask.count = dice.one_in(8) ? 2 : 1;
    ask.mutex = dice.one_in(16);
    ask.mode = dice.one_in(10) ? SharingMode::sm_sharing : SharingMode::time_slicing;
  }
  if (dice.one_in(4)) {
    ask.filter.models = {dice.of(models()), dice.of(models())};
  }
  const std::vector<OrderHint> hints{OrderHint::policy, OrderHint::policy, OrderHint::pack,
                                     OrderHint::spread};
  ask.node_order = dice.of(hints);
  ask.device_order = dice.of(hints);
  return ask;
}

Request random_request(Dice& dice) {
  RequestSpec spec;
  spec.cpu = Milli(500 * dice.to(16));
  spec.ram = Memory::mib(256 * dice.to(16));
  const int containers = dice.of<int>({0, 1, 1, 1, 1, 2, 3});
  for (int i = 0; i < containers; ++i) {
    ContainerAsk container{.name = "c" + std::to_string(i), .gpu = random_ask(dice)};
    if (containers > 1) {
      container.kind = dice.of<ContainerKind>(
          {ContainerKind::app, ContainerKind::app, ContainerKind::init, ContainerKind::sidecar});
      container.gpu.numa_bind = dice.one_in(6);
    }
    spec.containers.push_back(std::move(container));
  }
  if (dice.one_in(6)) {
    spec.nodes.labels.push_back({.key = "zone", .op = LabelRule::Op::in, .values = {"1"}});
  }
  if (dice.one_in(4)) {
    spec.nodes.tolerations.push_back(
        {.key = "dedicated", .exists = true, .value = "", .effect = ""});
  }
  Result<Request> request = Request::create(std::move(spec));
  EXPECT_TRUE(request.ok()) << (request.ok() ? std::string() : request.error().message());
  return request.ok() ? std::move(request).value() : Request();
}

ClassCounts random_history(Dice& dice) {
  ClassCounts history;
  for (int i = dice.to(12); i > 0; --i) {
    const int kind = dice.to(5);
    WorkClass work{.cpu_milli = 500 * dice.to(16),
                   .memory_mib = 256 * dice.to(32),
                   .gpu_milli = kind == 0  ? 0
                                : kind < 4 ? 10 + 10 * dice.to(98)
                                           : 1000,
                   .num_gpu = kind == 0  ? 0
                              : kind < 4 ? 1
                                         : dice.of<int>({1, 2, 4, 8})};
    if (dice.one_in(3)) {
      work.models = {dice.of(models()), dice.of(models())};
    }
    history.add(work, 1 + dice.to(50));
  }
  return history;
}

// A reservation's rule: some guarded nodes are closed, some half open.
std::optional<std::uint64_t> guard_rule(NodeId node) {
  switch (node.value() % 3) {
    case 0: return std::nullopt;
    case 1: return 0x55;
    default: return ~std::uint64_t{0};
  }
}

// A world under random load, and the comparison of the index with a scan after every step.
class Drill {
 public:
  Drill(std::string_view policy, std::uint64_t seed)
      : dice_(seed), world_(policy, random_history(dice_), seed) {
    for (int i = dice_.to(39); i >= 0; --i) {
      upsert();
    }
    for (int i = 0; i < 12; ++i) {
      shapes_.push_back(world_.shapes.acquire(random_request(dice_)));
    }
  }

  void step() {
    const int kind = dice_.to(39);
    if (kind < 19) {
      const ShapeId shape = dice_.of(shapes_);
      world_.book(shape, world_.index.select(shape, guard_rule));
    } else if (kind < 32) {
      end_one();
    } else if (kind < 35) {
      observe();
    } else if (kind == 35) {
      toggle_guard();
    } else if (kind == 36) {
      change_node();
    } else if (kind == 37) {
      upsert();
    } else {
      shapes_[static_cast<std::size_t>(dice_.to(11))] =
          world_.shapes.acquire(random_request(dice_));
    }
  }

  // Compares `count` shapes; returns how many of them fit somewhere.
  int compare(int count) {
    int fitting = 0;
    for (int i = 0; i < count; ++i) {
      const ShapeId shape = dice_.of(shapes_);
      const Selection fast = world_.index.select(shape, guard_rule);
      const Selection slow = world_.index.select_by_scan(shape, guard_rule);
      EXPECT_EQ(fast.node.is_none(), slow.node.is_none());
      if (fast.node.is_none()) {
        continue;
      }
      ++fitting;
      expect_it_fits(shape, fast);
      if (world_.index.policy().draws()) {
        continue;
      }
      EXPECT_EQ(fast.node, slow.node);
      EXPECT_EQ(fast.cost, slow.cost);
      EXPECT_EQ(fast.way, slow.way);
      EXPECT_EQ(fast.opens_idle, slow.opens_idle);
      EXPECT_EQ(fast.allowed, slow.allowed);
    }
    return fitting;
  }

  void check() { EXPECT_TRUE(world_.ledger.check().ok()); }

 private:
  void expect_it_fits(ShapeId shape, const Selection& selection) {
    EXPECT_EQ(world_.index.refusal(shape, selection.node), Cause::none);
    const Shape& known = world_.shapes.at(shape);
    const std::vector<ContainerPlaces> places = world_.index.places(shape, selection);
    ASSERT_EQ(places.size(), known.gpu_containers.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::uint64_t taken = 0;
      for (int n = 0; n < places[i].places.count; ++n) {
        taken |= std::uint64_t{1} << places[i].places.at[static_cast<std::size_t>(n)];
      }
      EXPECT_EQ(std::popcount(taken), known.ask(i).count);
      EXPECT_EQ(taken & ~selection.allowed, 0U);
    }
  }

  void upsert() {
    const std::string name = "node-" + std::to_string(dice_.to(59));
    const NodeId known = world_.fleet.find_node(name);
    if (!known.is_none() && uses(known)) {
      return;
    }
    if (!known.is_none() && world_.fleet.present(known) && dice_.one_in(2)) {
      world_.remove(name);
    } else {
      world_.add(random_node(dice_, name));
    }
  }

  bool uses(NodeId node) const {
    for (std::size_t i = 0; i < world_.running(); ++i) {
      if (world_.grant(i).node == node) {
        return true;
      }
    }
    return false;
  }

  NodeId any_node() {
    const NodeId node(
        static_cast<std::uint32_t>(dice_.to(static_cast<int>(world_.fleet.node_slots()) - 1)));
    return world_.fleet.present(node) ? node : NodeId::none();
  }

  // What changes under running work: capacity, readiness, a device's cordon.
  void change_node() {
    const NodeId node = any_node();
    if (node.is_none()) {
      return;
    }
    Node description = world_.fleet.node(node);
    description.cpu = Milli(8000 * dice_.to(8));
    description.ready = !dice_.one_in(5);
    for (Device& device : description.devices) {
      device.cordoned = dice_.one_in(10);
    }
    world_.add(std::move(description));
  }

  void observe() {
    const NodeId node = any_node();
    if (node.is_none() || world_.fleet.devices_of(node).empty()) {
      return;
    }
    const DeviceId device = dice_.of(world_.fleet.devices_of(node));
    Sample sample;
    sample.used = Memory::mib(dice_.one_in(2) ? 0 : dice_.to(20'000)).in_bytes();
    sample.attributed = dice_.one_in(2);
    world_.ledger.observe(device, sample, Time(0));
  }

  void toggle_guard() {
    const NodeId node = any_node();
    if (!node.is_none()) {
      world_.index.set_guarded(node, !world_.index.is_guarded(node));
      world_.ledger.touch(node);
    }
  }

  void end_one() {
    if (world_.running() > 0) {
      world_.end(static_cast<std::size_t>(dice_.to(static_cast<int>(world_.running()) - 1)));
    }
  }

  Dice dice_;
  World world_;
  std::vector<ShapeId> shapes_;
};

std::vector<std::string> every_policy() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : registered_policies()) {
    names.emplace_back(policy.name);
  }
  return names;
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, AnswersAsAScanOfAllNodesDoes) {
  constexpr int kSteps = 150;
  constexpr int kShapesPerStep = 3;
  constexpr int kWorlds = 10;
  int fitting = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    Drill drill(GetParam(), seed);
    for (int step = 0; step < kSteps; ++step) {
      drill.step();
      fitting += drill.compare(kShapesPerStep);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", step " << step;
    }
    drill.check();
  }
  // Else the worlds are too full to say anything.
  EXPECT_GE(fitting, kWorlds * kSteps * kShapesPerStep / 2);
}

TEST_P(EveryPolicy, DecidesAlikeInWhateverOrderNodesArrive) {
  Dice dice(5);
  const ClassCounts history = random_history(dice);
  std::vector<Node> nodes;
  for (int i = 0; i < 12; ++i) {
    nodes.push_back(random_node(dice, "node-" + std::to_string(i)));
  }
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back(random_request(dice));
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> first;
  for (int round = 0; round < 6; ++round) {
    World world(GetParam(), history);
    for (const Node& node : nodes) {
      world.add(node);
    }
    std::vector<std::pair<std::string, std::vector<std::string>>> decisions;
    for (const Request& request : requests) {
      Placed placed = world.place(request);
      decisions.emplace_back(std::move(placed.node), std::move(placed.devices));
    }
    if (round == 0) {
      first = decisions;
    }
    ASSERT_EQ(decisions, first);
    dice.shuffle(nodes);
  }
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryPolicy, testing::ValuesIn(every_policy()),
                         [](const testing::TestParamInfo<std::string>& policy) {
                           std::string name = policy.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '='; });
                           std::ranges::replace(name, ',', '_');
                           return name;
                         });

TEST(PlacementIndex, AsksOnlyNodesThatChangedSinceTheShapeWasLastPlaced) {
  World world("best-fit");
  for (int i = 0; i < 50; ++i) {
    world.add(world_node({.name = "node-" + std::to_string(i), .devices = 8}));
  }
  world.place(share(10));
  const std::int64_t after_first = world.index.steps();
  world.place(share(10));
  EXPECT_EQ(world.index.steps(), after_first + 1);
}

}  // namespace
}  // namespace berth::core
