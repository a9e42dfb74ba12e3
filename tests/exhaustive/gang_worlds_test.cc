// Tiny fleets with everything that may run on them, and tiny gangs with every rule of topology: the
// engine says *waiting* or *never* only where no placement exists, and what it grants obeys every
// rule. Held against an enumeration of all placements (brute_gangs_test.h).
//
// BERTH_SOAK=1 runs all worlds and more seeds.
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

#include "brute_gangs_test.h"
#include "core/engine/engine.h"

namespace berth {
namespace {

using brute::BruteGroup;
using brute::BruteMember;
using brute::BrutePlace;
using brute::BruteRule;
using brute::BruteWorld;
using core::Cause;
using core::DeviceAsk;
using core::Engine;
using core::Outcome;

constexpr std::array<const char*, 3> kLevels{"zone", "rack", "host"};
constexpr int kZone = 0;
constexpr int kRack = 1;
constexpr int kHost = 2;
constexpr std::int64_t kSize = 4;  // MiB of every device

struct Machine {
  int devices = 1;
  int zone = 0;
  int rack = 0;  // -1: its labels name none
};

using Machines = std::vector<Machine>;

bool soaks() { return std::getenv("BERTH_SOAK") != nullptr; }

std::int64_t number_of_devices(const Machines& machines) {
  std::int64_t sum = 0;
  for (const Machine& machine : machines) {
    sum += machine.devices;
  }
  return sum;
}

core::Request request_of(const BruteMember& member, const std::string& uuid = "") {
  DeviceAsk ask = member.whole ? DeviceAsk::whole_devices(member.devices)
                               : DeviceAsk::memory_mib(member.mib, member.devices);
  if (!uuid.empty()) {
    ask.filter.use_uuids = {uuid};
  }
  core::RequestSpec spec;
  spec.containers.push_back({.name = "main", .kind = core::ContainerKind::app, .gpu = ask});
  return core::Request::create(std::move(spec)).value();
}

core::TopologyRule rule_of(const BruteRule& rule) {
  core::TopologyRule out;
  const auto name = [](int level) {
    return level == brute::kAnyLevel ? "" : kLevels[static_cast<std::size_t>(level)];
  };
  out.required = name(rule.required);
  out.preferred = name(rule.preferred);
  if (rule.segment_level != brute::kAnyLevel) {
    out.segments.push_back({.level = name(rule.segment_level), .size = rule.segment_size});
  }
  return out;
}

// Leaves are called a, b … in the order of a walk; members a0-0 …, one set for each run of equals.
core::Group group_of(const BruteGroup& group, char& next) {
  core::Group out;
  out.topology = rule_of(group.rule);
  out.name = std::string(1, next++);
  if (!group.groups.empty()) {
    out.min_groups = group.min;
    for (const BruteGroup& inner : group.groups) {
      out.groups.push_back(group_of(inner, next));
    }
    return out;
  }
  out.min = group.min;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    out.members.push_back({.name = fmt::format("{}{}", out.name, i),
                           .count = 1,
                           .request = request_of(group.members[i]),
                           .priority = {}});
  }
  return out;
}

std::string described(const BruteGroup& group) {
  std::string text = fmt::format("(min {}", group.min);
  for (const BruteMember& member : group.members) {
    text += member.whole ? fmt::format(" {}xwhole", member.devices)
                         : fmt::format(" {}x{}", member.devices, member.mib);
  }
  for (const BruteGroup& inner : group.groups) {
    text += " " + described(inner);
  }
  return text + fmt::format(" required {} preferred {} segments {}/{})", group.rule.required,
                            group.rule.preferred, group.rule.segment_level,
                            group.rule.segment_size);
}

struct Tally {
  std::int64_t worlds = 0;
  std::int64_t granted = 0;
  std::int64_t waiting = 0;
  std::int64_t never = 0;
  std::int64_t budget_ended = 0;
  std::int64_t never_unproved = 0;  // waits although not even the empty fleet could hold it
};

bool is_alike(const BruteGroup& gang) {
  return gang.groups.empty() && std::ranges::all_of(gang.members, [&](const BruteMember& member) {
           return member == gang.members.front();
         });
}

// A fleet with an occupation of each device, and gangs that come and go.
class TinyFleet {
 public:
  TinyFleet(Machines machines, std::vector<std::int64_t> used)
      : machines_(std::move(machines)), used_(std::move(used)) {
    engine_ = Engine::create({}).value();
    apply(core::TopologiesChanged{{{.name = "t", .levels = {kLevels.begin(), kLevels.end()}}}});
    for (std::size_t n = 0; n < machines_.size(); ++n) {
      add_node(n);
    }
    for (std::size_t d = 0; d < used_.size(); ++d) {
      occupy(d);
    }
  }

  // What the gang is told, and what becomes of it while those that run end one by one. Empty: all
  // is well.
  std::string try_gang(const BruteGroup& gang, bool releases, Tally& tally) {
    ++tally.worlds;
    gang_ = &gang;
    char next = 'a';
    apply(core::WorkloadSubmitted{
        core::Workload::gang("g", {.root = group_of(gang, next), .options = {}}, {}).value()});
    std::string wrong = judge(&tally);
    for (std::size_t d = 0; releases && wrong.empty() && d < used_.size(); ++d) {
      if (used_[d] > 0) {
        apply(core::GrantReleased{occupant(d)});
        gone_.push_back(d);
        wrong = judge(nullptr);
      }
    }
    apply(core::WorkloadCancelled{"g"});
    for (const std::size_t d : gone_) {
      occupy(d);
    }
    gone_.clear();
    return wrong;
  }

 private:
  static std::string occupant(std::size_t device) { return fmt::format("o{}", device); }

  void apply(core::EventBody body) { engine_->apply({Time(0), std::move(body)}); }

  void add_node(std::size_t n) {
    core::Node node;
    node.name = fmt::format("n{}", n);
    node.cpu = Milli(64'000);
    node.ram = Memory::mib(1024);
    node.labels["zone"] = fmt::format("z{}", machines_[n].zone);
    if (machines_[n].rack >= 0) {
      node.labels["rack"] = fmt::format("r{}", machines_[n].rack);
      node.labels["host"] = node.name;
    }
    for (int d = 0; d < machines_[n].devices; ++d) {
      core::Device device;
      device.uuid = fmt::format("u{}", uuids_.size());
      device.index = d;
      device.total = Memory::mib(kSize);
      uuids_.push_back(device.uuid);
      node.devices.push_back(device);
    }
    apply(core::NodeUpserted{node});
  }

  void occupy(std::size_t device) {
    if (used_[device] > 0) {
      apply(core::WorkloadSubmitted{core::Workload::task(
          occupant(device), request_of({.mib = used_[device]}, uuids_[device]))});
    }
  }

  // Without the gang: with what runs beside it, or empty.
  BruteWorld world(bool with_others) const {
    BruteWorld world;
    std::size_t device = 0;
    for (std::size_t n = 0; n < machines_.size(); ++n) {
      const Machine& machine = machines_[n];
      const int host = machine.rack < 0 ? -1 : static_cast<int>(n);
      brute::BruteNode node{.domains = {machine.zone, machine.rack, host}, .devices = {}};
      for (int d = 0; d < machine.devices; ++d, ++device) {
        const bool is_gone = std::ranges::find(gone_, device) != gone_.end();
        const std::int64_t used = with_others && !is_gone ? used_[device] : 0;
        node.devices.push_back({.size = kSize, .free = kSize - used});
      }
      world.nodes.push_back(node);
    }
    return world;
  }

  // By leaf and member: where it runs, as the engine says.
  void places_in(const BruteGroup& group, char& next,
                 std::vector<std::vector<BrutePlace>>& places) const {
    const std::string name(1, next++);
    for (const BruteGroup& inner : group.groups) {
      places_in(inner, next, places);
    }
    if (!group.groups.empty()) {
      return;
    }
    std::vector<BrutePlace>& here = places.emplace_back();
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const core::Grant* grant = engine_->grant(fmt::format("g/{}{}", name, i));
      BrutePlace place{.node = -1, .devices = 0};
      if (grant != nullptr) {
        place.node = static_cast<int>(grant->node.index());
        for (const core::DeviceCharge& charge : grant->charges) {
          place.devices |= 1U << engine_->fleet().place_of(charge.device);
        }
      }
      here.push_back(place);
    }
  }

  std::string judge(Tally* tally) const {
    const Outcome outcome = *engine_->outcome("g");
    const bool budget_ended = engine_->cause("g") == Cause::search_budget;
    if (tally != nullptr) {
      tally->granted += outcome == Outcome::granted ? 1 : 0;
      tally->waiting += outcome == Outcome::waiting ? 1 : 0;
      tally->never += outcome == Outcome::never ? 1 : 0;
      tally->budget_ended += budget_ended ? 1 : 0;
    }
    if (outcome == Outcome::granted) {
      return judge_granted();
    }
    const bool could_ever = can_start(world(false), *gang_);
    if (outcome == Outcome::never) {
      return could_ever ? "it is never, and fits on the empty fleet" : "";
    }
    if (tally != nullptr) {
      tally->never_unproved += could_ever ? 0 : 1;
    }
    if (const std::string wrong = judge_hope(could_ever); !wrong.empty()) {
      return wrong;
    }
    return !budget_ended && can_start(world(true), *gang_) ? "it waits, and fits" : "";
  }

  // Who waits for a domain (annotations.md T2, T3) is told whether one could ever do; of members
  // that are alike always when none could.
  std::string judge_hope(bool could_ever) const {
    if (engine_->cause("g") != Cause::no_topology_domain) {
      return could_ever || !is_alike(*gang_) ? "" : "it waits for room, and none would ever do";
    }
    const core::Verdict verdict = engine_->explain("g", Engine::Detail::in_short).value();
    const bool told = verdict.summary.find("even with nothing running") != std::string::npos;
    if (told && could_ever) {
      return "it is told that no domain ever does, and it fits on the empty fleet";
    }
    return told || could_ever || !is_alike(*gang_) ? "" : "it is not told that no domain ever does";
  }

  std::string judge_granted() const {
    std::vector<std::vector<BrutePlace>> places;
    char next = 'a';
    places_in(*gang_, next, places);
    const std::string broken = broken_rule(world(true), *gang_, places);
    if (!broken.empty()) {
      return "granted against " + broken;
    }
    return gang_->groups.empty() ? judge_surplus(places.front()) : "";
  }

  // Of one group: nobody waits who could run beside the others.
  std::string judge_surplus(const std::vector<BrutePlace>& places) const {
    BruteWorld left = world(true);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].node >= 0) {
        take(left, gang_->members[i], places[i]);
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].node < 0 && can_join(left, *gang_, places, i)) {
        return fmt::format("member {} waits, and fits", i);
      }
    }
    return gone_.empty() ? judge_start(places) : "";
  }

  // At its start: as many as fit, and those of equal members as near as they can be.
  std::string judge_start(const std::vector<BrutePlace>& places) const {
    const bool equal = std::ranges::all_of(
        gang_->members, [&](const BruteMember& m) { return m == gang_->members.front(); });
    if (!equal) {
      return "";
    }
    const auto run = static_cast<int>(
        std::ranges::count_if(places, [](const BrutePlace& place) { return place.node >= 0; }));
    if (run < std::ssize(places) && can_hold(world(true), *gang_, run + 1)) {
      return fmt::format("{} run, and {} fit", run, run + 1);
    }
    const BruteRule& rule = gang_->rule;
    for (int level = rule.preferred; level > std::max(rule.required, brute::kAnyLevel); --level) {
      if (!can_hold_in(world(true), *gang_, run, level)) {
        continue;
      }
      const auto of = [&](const BrutePlace& place) {
        return place.node < 0 ? -2
                              : world(true)
                                    .nodes[static_cast<std::size_t>(place.node)]
                                    .domains[static_cast<std::size_t>(level)];
      };
      int domain = -2;
      for (const BrutePlace& place : places) {
        domain = domain == -2 ? of(place) : domain;
        if (of(place) != -2 && of(place) != domain) {
          return fmt::format("one {} holds all, and they stand in two",
                             kLevels[static_cast<std::size_t>(level)]);
        }
      }
      return "";
    }
    return "";
  }

  Machines machines_;
  std::vector<std::int64_t> used_;
  std::vector<std::string> uuids_;
  std::unique_ptr<Engine> engine_;
  const BruteGroup* gang_ = nullptr;
  std::vector<std::size_t> gone_;  // occupants that have ended
};

const std::vector<Machines>& fleets() {
  static const std::vector<Machines> all{
      {{.devices = 2, .zone = 0, .rack = 0}, {.devices = 2, .zone = 0, .rack = 1}},
      {{.zone = 0, .rack = 0}, {.zone = 0, .rack = 0}, {.devices = 2, .zone = 1, .rack = 1}},
      {{.zone = 0, .rack = 0},
       {.zone = 0, .rack = 1},
       {.zone = 1, .rack = 2},
       {.zone = 1, .rack = 2}},
      {{.devices = 2, .zone = 0, .rack = 0}, {.zone = 0, .rack = 1}, {.zone = 1, .rack = -1}}};
  return all;
}

const std::vector<BruteRule>& rules() {
  static const std::vector<BruteRule> all{
      {},
      {.required = kRack},
      {.required = kZone},
      {.required = kHost},
      {.preferred = kRack},
      {.preferred = kHost},
      {.required = kZone, .preferred = kHost},
      {.segment_level = kRack, .segment_size = 2},
      {.segment_level = kHost, .segment_size = 2},
      {.required = kZone, .segment_level = kRack, .segment_size = 2},
      {.segment_level = kZone, .segment_size = 3}};
  return all;
}

void expect_all_answers(const Tally& tally) {
  EXPECT_GT(tally.granted, tally.worlds / 10);
  EXPECT_GT(tally.waiting, tally.worlds / 10);
  EXPECT_GT(tally.never, tally.worlds / 50);
  fmt::print(
      "{} worlds: {} granted, {} waiting ({} of them for ever, {} without proof), {} never\n",
      tally.worlds, tally.granted, tally.waiting, tally.never_unproved, tally.budget_ended,
      tally.never);
}

// What may be used of each device: nothing, half of it, all of it.
std::vector<std::int64_t> occupation(std::size_t code, std::int64_t devices) {
  std::vector<std::int64_t> used;
  for (std::int64_t d = 0; d < devices; ++d, code /= 3) {
    used.push_back(static_cast<std::int64_t>(code % 3) * 2);
  }
  return used;
}

TEST(GangWorlds, OfEqualMembersAreAnsweredAsAnEnumerationOfAllPlacementsSays) {
  const std::vector<BruteMember> asks{{.mib = 1},
                                      {.mib = 2},
                                      {.mib = 3},
                                      {.devices = 2, .mib = 2},
                                      {.devices = 2, .mib = 1},
                                      {.whole = true},
                                      {.devices = 2, .whole = true}};
  std::size_t number = 0;
  Tally tally;
  for (const Machines& machines : fleets()) {
    for (std::size_t code = 0; code < 81; ++code) {
      const std::vector<std::int64_t> used = occupation(code, number_of_devices(machines));
      TinyFleet fleet(machines, used);
      for (const BruteMember& ask : asks) {
        for (const BruteRule& rule : rules()) {
          for (int count = 1; count <= 4; ++count) {
            for (int min = 1; min <= count; ++min) {
              const BruteGroup gang{
                  .min = min,
                  .members = std::vector<BruteMember>(static_cast<std::size_t>(count), ask),
                  .groups = {},
                  .rule = rule};
              const std::string wrong = fleet.try_gang(gang, soaks() || ++number % 5 == 0, tally);
              ASSERT_EQ(wrong, "")
                  << "fleet " << &machines - fleets().data() << " used "
                  << fmt::format("{}", fmt::join(used, ",")) << " gang " << described(gang);
            }
          }
        }
      }
    }
  }
  expect_all_answers(tally);
  EXPECT_EQ(tally.budget_ended, 0);
}

// Members that differ, and trees of groups.
class RandomGangs {
 public:
  explicit RandomGangs(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t many) { return random_() % many; }

  BruteGroup gang() {
    if (below(3) == 0) {
      return leaf(4);
    }
    BruteGroup root;
    const std::size_t many = 2 + below(2);
    for (std::size_t i = 0; i < many; ++i) {
      root.groups.push_back(leaf(many == 2 ? 3 : 2));
    }
    root.min = static_cast<int>(1 + below(many));
    if (below(3) == 0) {
      root.rule.required = below(2) == 0 ? kZone : kRack;
    }
    return root;
  }

 private:
  BruteGroup leaf(std::size_t most) {
    BruteGroup leaf;
    const std::size_t count = 1 + below(most);
    const BruteMember first = member();
    const BruteMember second = below(2) == 0 ? first : member();
    for (std::size_t i = 0; i < count; ++i) {
      leaf.members.push_back(i <= count / 2 ? first : second);
    }
    leaf.min = static_cast<int>(1 + below(count));
    if (below(2) == 0) {
      leaf.rule.required = static_cast<int>(below(3));
    }
    if (below(3) == 0) {
      leaf.rule.preferred = std::max(leaf.rule.required, static_cast<int>(below(3)));
    }
    return leaf;
  }

  BruteMember member() {
    BruteMember member{.devices = below(3) == 0 ? 2 : 1, .mib = static_cast<int>(1 + below(4))};
    member.whole = below(4) == 0;
    return member;
  }

  std::mt19937_64 random_;
};

TEST(GangWorlds, OfMixedMembersAndTreesAreAnsweredAsAnEnumerationOfAllPlacementsSays) {
  const std::uint64_t last = soaks() ? 300'000 : 30'000;
  Tally tally;
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    RandomGangs random(seed);
    const Machines& machines = fleets()[random.below(fleets().size())];
    const std::vector<std::int64_t> used =
        occupation(random.below(81), number_of_devices(machines));
    TinyFleet fleet(machines, used);
    const BruteGroup gang = random.gang();
    const std::string wrong = fleet.try_gang(gang, seed % 3 == 0, tally);
    ASSERT_EQ(wrong, "") << "seed " << seed << ", fleet " << &machines - fleets().data() << " used "
                         << fmt::format("{}", fmt::join(used, ",")) << " gang " << described(gang);
  }
  expect_all_answers(tally);
}

}  // namespace
}  // namespace berth
