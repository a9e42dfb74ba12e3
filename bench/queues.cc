// What the quota tree costs: dividing anew after a change, booking, asking, choosing whose turn it
// is. 1,000 leaves at depth 4 in six dimensions, and the same leaves side by side below the root.
#include <array>
#include <chrono>
#include <string>

#include <fmt/format.h>

#include "base/mt19937.h"
#include "core/queue/queue_tree.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Clock = std::chrono::steady_clock;
using core::Charge;
using core::DimensionKind;
using core::QueueId;
using core::QueueTree;

constexpr std::uint32_t kLeaves = 1000;
constexpr std::array kKinds{DimensionKind::memory, DimensionKind::devices, DimensionKind::compute};

void add_queue(core::QueueConfig& config, std::string name, std::string parent,
               std::int64_t leaves_below) {
  core::QueueSpec& queue = config.queues.emplace_back();
  queue.name = std::move(name);
  queue.parent = std::move(parent);
  for (const std::string_view device_class : {"*", "A100"}) {
    for (const DimensionKind kind : kKinds) {
      queue.dimensions.push_back({.device_class = std::string(device_class),
                                  .kind = kind,
                                  .deserved = 500 * leaves_below});
    }
  }
}

// Ten times ten times ten, or a thousand below the root.
core::QueueConfig queues_of(bool deep) {
  core::QueueConfig config;
  for (std::uint32_t i = 0; i < kLeaves; ++i) {
    const std::string one = fmt::format("q{}", i / 100);
    const std::string two = fmt::format("{}-{}", one, i / 10 % 10);
    if (deep && i % 100 == 0) add_queue(config, one, "root", 100);
    if (deep && i % 10 == 0) add_queue(config, two, one, 10);
    add_queue(config, fmt::format("leaf{}", i), deep ? two : "root", 1);
  }
  return config;
}

struct Scene {
  QueueTree tree;
  std::vector<QueueId> leaves;
  std::vector<Charge> charges;     // a share each, of several sizes
  std::vector<std::size_t> place;  // of a leaf in the two above, by its id
  std::int64_t sum = 0;            // of what was answered, so that it must be
};

// Every leaf wants more than it deserves, and there is less than all want.
Scene scene_of(bool deep) {
  Scene scene;
  scene.tree.configure(queues_of(deep), {});
  const core::DeviceClassId a100 = scene.tree.class_of("A100");
  for (const DimensionKind kind : kKinds) {
    scene.tree.set_capacity(core::kEveryClass, kind, 1'500'000);
    scene.tree.set_capacity(a100, kind, 1'200'000);
  }
  Mt19937 random(42);
  for (std::uint32_t i = 0; i < kLeaves; ++i) {
    const std::int64_t mib = 1 + random.below(40'000);
    scene.leaves.push_back(scene.tree.find(fmt::format("leaf{}", i)).value());
    scene.place.resize(scene.tree.queue_slots(), 0);
    scene.place[scene.leaves.back().index()] = i;
    scene.charges.push_back({.parts = {{.device_class = a100,
                                        .mib = mib,
                                        .compute_milli = 100 + random.below(400),
                                        .shares_mib = mib,
                                        .usable_mib = i % 2 == 0 ? 40'536 : 81'051}}});
    for (std::uint32_t k = 0; k < 1 + random.below(8); ++k) {
      scene.tree.add_demand(scene.leaves[i], scene.charges[i]);
    }
    scene.tree.add(scene.leaves[i], scene.charges[i], core::BookingState::running, true);
  }
  return scene;
}

// Microseconds per call of `change`, best of the repetitions.
template <class Change>
Figure timed(const Context& context, std::string key, bool deep, std::uint32_t times, Goal goal,
             Change change) {
  Scene scene = scene_of(deep);
  std::vector<double> micros;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    Mt19937 random(7);
    const Clock::time_point begin = Clock::now();
    for (std::uint32_t i = 0; i < times; ++i) {
      change(scene, random.below(kLeaves));
    }
    const std::chrono::duration<double, std::micro> spent = Clock::now() - begin;
    if (repetition > 0) micros.push_back(spent.count() / times);  // the first warms up
  }
  return best_low(std::move(key), micros, scene.sum == 1 ? Goal{} : goal);
}

// A workload more, or the same one less, and the leaf's share in every dimension.
void divide_anew(Scene& scene, std::uint32_t leaf) {
  scene.tree.add_demand(scene.leaves[leaf], scene.charges[leaf]);
  for (std::uint32_t d = 0; d < scene.tree.dimensions(); ++d) {
    scene.sum += scene.tree.figures(scene.leaves[leaf], core::QuotaDimensionId(d)).fair;
  }
  scene.tree.remove_demand(scene.leaves[leaf], scene.charges[leaf]);
}

void book(Scene& scene, std::uint32_t leaf) {
  scene.tree.add(scene.leaves[leaf], scene.charges[leaf], core::BookingState::running, true);
  scene.tree.remove(scene.leaves[leaf], scene.charges[leaf], core::BookingState::running, true);
}

void ask(Scene& scene, std::uint32_t leaf) {
  const core::QuotaRefusal refused =
      scene.tree.may_start(scene.leaves[leaf], scene.charges[leaf], true, core::Counting::present);
  scene.sum += refused.refused() ? 1 : 2;
}

// As above, and every leaf's share.
void divide_everything(Scene& scene, std::uint32_t leaf) {
  scene.tree.add_demand(scene.leaves[leaf], scene.charges[leaf]);
  for (std::uint32_t d = 0; d < scene.tree.dimensions(); ++d) {
    for (const QueueId each : scene.leaves) {
      scene.sum += scene.tree.share(each, core::QuotaDimensionId(d), core::Entitlement::fair);
    }
  }
  scene.tree.remove_demand(scene.leaves[leaf], scene.charges[leaf]);
}

// A grant to whose turn it is, every leaf having work; then all of it is taken back.
void take_turns(Scene& scene, std::uint32_t /*leaf*/) {
  for (std::uint32_t i = 0; i < kLeaves; ++i) {
    scene.tree.set_head(scene.leaves[i], scene.charges[i]);
  }
  std::vector<std::pair<QueueId, const Charge*>> granted;
  for (std::uint32_t i = 0; i < kLeaves; ++i) {
    const QueueId leaf = *scene.tree.next();
    const Charge& charge = scene.charges[scene.place[leaf.index()]];
    scene.tree.add(leaf, charge, core::BookingState::running, true);
    granted.emplace_back(leaf, &charge);
  }
  for (const auto& [leaf, charge] : granted) {
    scene.tree.remove(leaf, *charge, core::BookingState::running, true);
  }
}

Result<std::vector<Row>> run_queues(const Context& context) {
  constexpr Goal kDivision{GoalKind::at_most, 200};
  const auto both = [&](const std::string& name, std::uint32_t times, auto change) {
    return Row{.name = name,
               .unit = "us",
               .figures = {timed(context, "depth4", true, times, {}, change),
                           timed(context, "flat", false, times, {}, change)},
               .is_time = true};
  };
  std::vector<Row> rows = {both("division.us", 500, divide_anew),
                           both("quota.book_us", 20'000, book), both("quota.ask_us", 20'000, ask),
                           both("quota.turn_us", 5, take_turns)};
  rows[0].figures[0].goal = kDivision;
  rows[0].figures.push_back(timed(context, "depth4_all", true, 50, kDivision, divide_everything));
  for (Figure& figure : rows.back().figures)
    figure.value /= kLeaves;  // per grant
  return rows;
}

constexpr Measurement kMeasurements[] = {
    {"queues", "the quota tree: dividing, booking, asking, whose turn it is", run_queues},
};

}  // namespace

std::span<const Measurement> queue_measurements() { return kMeasurements; }

}  // namespace berth::bench
