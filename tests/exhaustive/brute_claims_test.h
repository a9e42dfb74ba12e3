// Every way in which running work could leave, or move, for a claimant, one after the other: what
// the engine's evictions are held against. Whole devices and one dimension only; shares nothing
// with the engine's search but the words of queues-gangs-topology.md 5.
//
//   ClaimWorld world{…};
//   const BestClaims best = best_claims(world);
//   best.of(Remedy::guarantee);       // what the cheapest set costs; empty: no set is allowed
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace berth::brute {

// In the order in which they are to be tried. Mixed: work of lower priority in the own queue leaves
// besides what is taken from others.
enum class Remedy : std::uint8_t {
  consolidation,
  guarantee,
  fair_share,
  preempt,
  mixed_guarantee,
  mixed_fair_share
};
inline constexpr std::size_t kRemedies = 6;

struct ClaimQueue {
  std::string parent;           // "" = the root
  std::int64_t configured = 0;  // deserved, as it was written
  std::int64_t deserved = 0;    // D', milli-devices
  std::int64_t fair = 0;        // F
};

struct ClaimRunner {
  std::string queue;
  std::int64_t priority = 0;
  bool preemptible = true;
  bool restartable = true;
  std::string gang;  // "" = a task
  std::int64_t gang_min = 0;
  std::int64_t age_ms = 0;  // since its grant; of a gang's members, the greater the older
  int node = 0;
  unsigned devices = 0;  // mask
};

struct ClaimClaimant {
  std::string queue;
  std::int64_t priority = 0;
  bool preemptible = true;
  int members = 1;
  int devices = 1;  // of each member, on one node
  bool one_rack = false;
};

struct ClaimNode {
  int devices = 0;
  int rack = 0;
};

struct ClaimWorld {
  std::vector<ClaimNode> nodes;
  std::map<std::string, ClaimQueue> queues;
  std::vector<ClaimRunner> runners;
  ClaimClaimant claimant;
};

enum class Fate : std::uint8_t { stays, moves, leaves };

// I9 as far as it is about what is lost; equal costs are told apart by names.
using ClaimCost = std::tuple<std::int64_t,   // that nothing starts again (I14)
                             std::int64_t,   // queues pushed below what they deserve
                             std::int64_t,   // gangs broken
                             std::int64_t,   // highest priority
                             std::int64_t,   // thousandths of devices x ms
                             std::int64_t>;  // number

ClaimCost cost_of(const ClaimWorld& world, const std::vector<Fate>& fates, Remedy remedy);

struct BestClaims {
  std::array<std::optional<ClaimCost>, kRemedies> cost;
  std::array<std::vector<Fate>, kRemedies> fates;
  const std::optional<ClaimCost>& of(Remedy remedy) const {
    return cost[static_cast<std::size_t>(remedy)];
  }
};

// Requires that the claimant does not fit as it is.
BestClaims best_claims(const ClaimWorld& world);

// Whether these fates are allowed for the remedy, and leave room for all who need it.
bool is_allowed(const ClaimWorld& world, const std::vector<Fate>& fates, Remedy remedy);

std::string described(const ClaimWorld& world);
std::string described(const std::vector<Fate>& fates);

}  // namespace berth::brute
