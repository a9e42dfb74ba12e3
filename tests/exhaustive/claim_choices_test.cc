// Tiny worlds in which room has to be made: whom the engine asks to leave, held against every way
// in which anybody could (brute_claims_test.h). What waits has no allowed way; what is asked to
// leave is asked by the first remedy that has one, and no allowed set costs less.
//
// Queues, whole devices, tasks and gangs from a seed; BERTH_SOAK=1 runs more, BERTH_SEED=N that
// one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "brute_claims_test.h"
#include "core/engine/engine.h"
#include "core/queue/queue_tree.h"

namespace berth {
namespace {

using brute::BestClaims;
using brute::ClaimRunner;
using brute::ClaimWorld;
using brute::Fate;
using brute::Remedy;
using core::Engine;
using core::Evicted;
using core::Outcome;

core::Request whole(int devices) {
  core::RequestSpec spec;
  spec.containers.push_back({.name = "main",
                             .kind = core::ContainerKind::app,
                             .gpu = core::DeviceAsk::whole_devices(devices)});
  return core::Request::create(std::move(spec)).value();
}

// What runs first and then claims.
struct Submission {
  core::WorkloadOptions options;
  int devices = 1;
  int members = 0;  // 0 = a task
  int min = 0;
  bool filler = false;  // gone before the claim: it leaves a hole
};

class TinyClaims {
 public:
  explicit TinyClaims(std::uint64_t seed) : random_(seed) {
    choose();
    engine_ = Engine::create({}).value();
    apply(core::TopologiesChanged{{{.name = "t", .levels = {"rack"}}}});
    for (std::size_t n = 0; n < world_.nodes.size(); ++n) {
      add_node(n);
    }
    apply(core::QueuesChanged{peaceful()});
    fill();
    apply(core::QueuesChanged{queues_});
  }

  // What is wrong with the engine's answer; empty: nothing.
  std::string claim() {
    now_ = now_ + Duration(1000 + static_cast<std::int64_t>(below(5000)));
    read_runners();
    submit("c", claimant_);
    const std::vector<core::Action> actions = actions_;
    if (*engine_->outcome("c") != Outcome::waiting) {
      return "";  // it needed nobody
    }
    read_queues();
    const BestClaims best = best_claims(world_);
    std::vector<Fate> fates(world_.runners.size(), Fate::stays);
    bool own = false;
    bool others = false;
    bool lost = false;
    bool guarantee = false;
    bool fair = false;
    for (const core::Action& action : actions) {
      const auto* evicted = std::get_if<Evicted>(&action);
      if (evicted == nullptr) {
        continue;
      }
      const auto at = std::ranges::find(uids_, engine_->uid(evicted->workload));
      Fate& fate = fates[static_cast<std::size_t>(at - uids_.begin())];
      fate = evicted->moves_to.is_none() ? Fate::leaves : Fate::moves;
      const bool inside = world_.runners[static_cast<std::size_t>(at - uids_.begin())].queue ==
                          world_.claimant.queue;
      own = own || inside;
      others = others || !inside;
      lost = lost || fate == Fate::leaves;
      guarantee = guarantee || evicted->rule == Evicted::Rule::guarantee;
      fair = fair || evicted->rule == Evicted::Rule::fair_share;
    }
    const auto* const first =
        std::ranges::find_if(best.cost, [](const auto& c) { return c.has_value(); });
    const auto first_remedy = static_cast<std::size_t>(first - best.cost.begin());
    if (std::ranges::all_of(fates, [](Fate fate) { return fate == Fate::stays; })) {
      ++waiting;
      return first == best.cost.end() ? ""
                                      : fmt::format("it waits, and remedy {} has {}", first_remedy,
                                                    described(best.fates[first_remedy]));
    }
    const Remedy remedy = !lost               ? Remedy::consolidation
                          : !own && guarantee ? Remedy::guarantee
                          : !own              ? Remedy::fair_share
                          : !others           ? Remedy::preempt
                          : fair || !is_allowed(world_, fates, Remedy::mixed_guarantee)
                              ? Remedy::mixed_fair_share
                              : Remedy::mixed_guarantee;
    const auto used = static_cast<std::size_t>(remedy);
    ++by_remedy[used];
    const std::string did = fmt::format("{} by remedy {}", described(fates), used);
    if (!is_allowed(world_, fates, remedy)) {
      return did + " is not allowed";
    }
    if (first_remedy < used) {
      return fmt::format("{}, and remedy {} has {}", did, first_remedy,
                         described(best.fates[first_remedy]));
    }
    return *best.of(remedy) < cost_of(world_, fates, remedy)
               ? fmt::format("{}, and {} costs less", did, described(best.fates[used]))
               : "";
  }

  std::string text() const { return described(world_); }

  std::array<std::int64_t, brute::kRemedies> by_remedy{};
  std::int64_t waiting = 0;

 private:
  std::size_t below(std::size_t many) { return random_() % many; }
  bool one_in(std::size_t many) { return below(many) == 0; }

  void apply(core::EventBody body) {
    const auto actions = engine_->apply({now_, std::move(body)});
    actions_.assign(actions.begin(), actions.end());
  }

  void choose() {
    const std::size_t nodes = 2 + below(2);
    for (std::size_t n = 0; n < nodes; ++n) {
      world_.nodes.push_back(
          {.devices = static_cast<int>(1 + below(2)), .rack = static_cast<int>(n / 2)});
      devices_ += world_.nodes.back().devices;
    }
    const bool deep = one_in(3);
    if (deep) {
      add_queue("p", "root");
    }
    leaves_ = one_in(2) ? 2 : 3;
    for (std::size_t q = 0; q < leaves_; ++q) {
      add_queue(leaf(q), deep && q < 2 ? "p" : "root");
    }
    claimant_ = submission();
    claimant_.members = one_in(3) ? static_cast<int>(1 + below(3)) : 0;
    claimant_.min = claimant_.members;
    one_rack_ = claimant_.members > 0 && one_in(2);
    if (claimant_.members > 0) {
      claimant_.devices = 1;
    }
    world_.claimant = {.queue = claimant_.options.queue,
                       .priority = claimant_.options.priority,
                       .preemptible = claimant_.options.preemptible,
                       .members = std::max(1, claimant_.members),
                       .devices = claimant_.devices,
                       .one_rack = one_rack_};
  }

  static std::string leaf(std::size_t q) { return std::string(1, static_cast<char>('a' + q)); }

  void add_queue(const std::string& name, const std::string& parent) {
    core::QueueSpec& queue = queues_.queues.emplace_back();
    queue.name = name;
    queue.parent = parent;
    queue.dimensions = {{.device_class = "*",
                         .kind = core::DimensionKind::devices,
                         .deserved = 1000 * static_cast<std::int64_t>(
                                                below(static_cast<std::size_t>(devices_) + 1)),
                         .weight = static_cast<std::int64_t>(below(3))}};
    world_.queues[name] = {.parent = parent == "root" ? "" : parent,
                           .configured = queue.dimensions.front().deserved,
                           .deserved = 0,
                           .fair = 0};
  }

  // The same queues while they may not take anything from each other.
  core::QueueConfig peaceful() const {
    core::QueueConfig config = queues_;
    for (core::QueueSpec& queue : config.queues) {
      queue.reclaim = core::ReclaimRight::never;
      queue.preempt = core::PreemptRight::never;
      queue.order = core::QueueOrder::best_effort;
      queue.dimensions.front().deserved = core::kUnlimited;
    }
    return config;
  }

  Submission submission() {
    Submission one;
    one.options.queue = leaf(below(leaves_));
    one.options.priority = static_cast<std::int64_t>(below(3));
    one.options.preemptible = !one_in(8);
    one.options.restartable = !one_in(6);
    one.devices = one_in(4) ? 2 : 1;
    return one;
  }

  void add_node(std::size_t n) {
    core::Node node;
    node.name = fmt::format("n{}", n);
    node.cpu = Milli(64'000);
    node.ram = Memory::mib(1024);
    node.labels["rack"] = fmt::format("r{}", world_.nodes[n].rack);
    for (int d = 0; d < world_.nodes[n].devices; ++d) {
      core::Device device;
      device.uuid = fmt::format("n{}/g{}", n, d);
      device.index = d;
      device.total = Memory::mib(16);
      node.devices.push_back(device);
    }
    apply(core::NodeUpserted{node});
  }

  void submit(const std::string& uid, const Submission& what) {
    if (what.members == 0) {
      apply(core::WorkloadSubmitted{core::Workload::task(uid, whole(what.devices), what.options)});
      return;
    }
    core::Group group;
    group.members.push_back(
        {.name = "m", .count = what.members, .request = whole(what.devices), .priority = {}});
    group.min = what.min;
    if (uid == "c" && one_rack_) {
      group.topology.required = "rack";
    }
    apply(core::WorkloadSubmitted{
        core::Workload::gang(uid, {.root = group, .options = {}}, what.options).value()});
  }

  // Work comes until the fleet is full, and some of it goes again.
  void fill() {
    std::vector<std::string> fillers;
    for (int i = 0; i < 6; ++i) {
      now_ = now_ + Duration(1000 * static_cast<std::int64_t>(1 + below(9)));
      Submission one = submission();
      one.filler = one_in(6);
      if (one_in(4)) {
        one.devices = 1;
        one.members = static_cast<int>(1 + below(3));
        one.min = static_cast<int>(1 + below(static_cast<std::size_t>(one.members)));
      }
      const std::string uid = fmt::format("w{}", i);
      submit(uid, one);
      const bool runs = *engine_->outcome(uid) == Outcome::granted;
      const bool whole_gang =
          one.members == 0 || engine_->grant(fmt::format("{}/{}", uid, last_of(one))) != nullptr;
      if (!runs || !whole_gang) {
        apply(core::WorkloadCancelled{uid});
      } else if (one.filler) {
        fillers.push_back(uid);
      } else {
        running_.emplace_back(uid, one);
      }
    }
    for (const std::string& uid : fillers) {
      apply(core::WorkloadCancelled{uid});
    }
  }

  static std::string last_of(const Submission& gang) {
    return gang.members == 1 ? "m" : fmt::format("m-{}", gang.members - 1);
  }

  void read_runners() {
    for (const auto& [uid, what] : running_) {
      for (int i = 0; i < std::max(1, what.members); ++i) {
        const std::string name = what.members == 0   ? uid
                                 : what.members == 1 ? uid + "/m"
                                                     : fmt::format("{}/m-{}", uid, i);
        const core::Grant* grant = engine_->grant(name);
        ClaimRunner runner{.queue = what.options.queue,
                           .priority = what.options.priority,
                           .preemptible = what.options.preemptible,
                           .restartable = what.options.restartable,
                           .gang = what.members == 0 ? "" : uid,
                           .gang_min = what.min,
                           .age_ms = (now_ - grant->granted_at).count(),
                           .node = static_cast<int>(grant->node.index()),
                           .devices = 0};
        for (const core::DeviceCharge& charge : grant->charges) {
          runner.devices |= 1U << engine_->fleet().place_of(charge.device);
        }
        world_.runners.push_back(runner);
        uids_.push_back(name);
      }
    }
  }

  void read_queues() {
    const core::QueueTree& tree = engine_->queues();
    const auto dimension = *tree.dimension("*", core::DimensionKind::devices);
    for (auto& [name, queue] : world_.queues) {
      queue.deserved = tree.share(*tree.find(name), dimension, core::Entitlement::deserved);
      queue.fair = tree.share(*tree.find(name), dimension, core::Entitlement::fair);
    }
  }

  std::mt19937_64 random_;
  ClaimWorld world_;
  core::QueueConfig queues_;
  std::unique_ptr<Engine> engine_;
  std::vector<core::Action> actions_;
  Time now_{1000};
  int devices_ = 0;
  std::size_t leaves_ = 2;
  Submission claimant_;
  bool one_rack_ = false;
  std::vector<std::pair<std::string, Submission>> running_;
  std::vector<std::string> uids_;  // of world_.runners
};

// Where work of two queues leaves, each choice of who of it finds another place has its own rights
// and its own cost.
TEST(ClaimChoices, TryEveryChoiceOfWhoMovesWhereWorkOfTwoQueuesLeaves) {
  for (const std::uint64_t seed : {316'587U, 372'122U}) {
    TinyClaims claims(seed);
    EXPECT_EQ(claims.claim(), "") << "seed " << seed << "\n" << claims.text();
  }
}

TEST(ClaimChoices, AreTheCheapestThatAreAllowed) {
  const char* const one = std::getenv("BERTH_SEED");
  const bool soak = std::getenv("BERTH_SOAK") != nullptr;
  const std::uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const std::uint64_t last = one != nullptr ? first : soak ? 300'000 : 10'000;
  std::array<std::int64_t, brute::kRemedies> by_remedy{};
  std::int64_t waiting = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    TinyClaims claims(seed);
    const std::string wrong = claims.claim();
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << claims.text();
    for (std::size_t r = 0; r < by_remedy.size(); ++r) {
      by_remedy[r] += claims.by_remedy[r];
    }
    waiting += claims.waiting;
  }
  if (one == nullptr) {
    EXPECT_GT(std::ranges::min(by_remedy), 3);  // the worlds reach every remedy
    EXPECT_GT(waiting, 1000);
  }
  fmt::print("by remedy: {}; {} wait\n", fmt::join(by_remedy, " "), waiting);
}

}  // namespace
}  // namespace berth
