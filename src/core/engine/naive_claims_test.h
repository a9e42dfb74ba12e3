// NaiveClaims: follows an engine from outside, by its events and actions alone, and says which
// eviction is not justified.
//
// Who holds what is kept here from the actions; what each takes follows from its request and the
// model of its node. Entitlements come from the engine's queue tree, which has a naive model of its
// own (core/queue/naive_tree_test.h). Everything else is worked out from the text of
// queues-gangs-topology.md 5. For worlds with one model of device per node.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/queue/queue_tree.h"

namespace berth::core {

class NaiveClaims {
 public:
  // What the engine answered to the event: the first thing that is wrong, in words; empty when all
  // is well.
  std::string follow(const Event& event, std::span<const Action> actions, const Engine& engine);

  // Who was asked to leave and is still there, the longest asked first; and whether it comes back.
  std::vector<std::string> asked_to_leave() const;
  bool comes_back(const std::string& uid) const { return known_.at(uid).options.restartable; }

  // Somebody was granted, promised or asked to leave by the last event.
  bool moved() const { return moved_; }
  std::int64_t held_times() const { return held_times_; }  // that granting was
  std::int64_t evictions() const { return evictions_; }
  std::int64_t evictions(Evicted::Rule rule) const {
    return by_rule_[static_cast<std::size_t>(rule)];
  }

 private:
  using Dimension = std::pair<std::string, DimensionKind>;
  using Amounts = std::map<Dimension, std::int64_t>;  // MiB, 1/3000 device, milli of compute

  struct Known {
    WorkloadOptions options;
    Request request;
    Time queued_at;
    std::string gang;                  // of a member, and of a head its own
    std::vector<std::string> members;  // of a head
    std::int64_t min = 0;
    bool whole_only = false;
    bool started = false;
    bool degraded = false;
    std::int64_t succeeded = 0;
    Time minimum_reached;
    std::vector<Time> evictions;
  };

  struct Held {
    std::string node;
    Amounts takes;
    Time since;
    bool promised = false;
    bool slot = false;
    std::optional<Time> asked;          // by the engine
    std::optional<Time> leaving_since;  // its end is near: no longer its queue's
  };

  // One claim as it was decided.
  struct Claim {
    std::string claimant;
    std::vector<const Evicted*> leavers;
    std::vector<std::string> lost;  // uids
    std::vector<std::string> moving;
    std::vector<std::string> placed;  // of the claimant: itself, or members
    Amounts takes;
  };

  // One came in at the cost of the other.
  struct Displaced {
    std::string by;
    std::vector<std::string> placed;
    std::string victim;
    bool excused = false;
  };

  std::string follow_event(const Event& event, std::span<const Action> actions);
  std::string follow_action(std::span<const Action> actions, std::size_t at);
  std::string on_evicted(std::span<const Action> actions, std::size_t& at);
  std::string check_held(const Action& action) const;
  std::string check_books() const;
  void review_gangs();
  void add(const Workload& workload, Time time);
  void hold(const std::string& uid, const std::string& node, bool promised);
  void excuse(const std::string& uid, bool granted);

  Claim claim_of(std::span<const Action> actions, std::size_t from, std::size_t count) const;
  std::string check_claim(const Claim& claim) const;
  std::string check_leaver(const Claim& claim, const Evicted& evicted) const;
  std::string check_reclaim(const Claim& claim, Evicted::Rule rule) const;
  bool has_order(const Claim& claim, Evicted::Rule rule, std::vector<std::vector<std::string>> left,
                 std::set<std::string>& gone) const;
  std::string check_preempt(const Claim& claim, const std::vector<std::string>& lost) const;
  std::string check_reverse(const Claim& claim, const std::string& victim) const;
  std::string check_gangs(const Claim& claim) const;
  std::string check_flip(const Claim& claim);

  Amounts takes(const Request& request, const std::string& node) const;
  std::int64_t present(const Known& head) const;
  std::vector<std::string> path(const std::string& leaf) const;
  std::vector<std::string> side(const std::string& leaf, const std::string& other) const;
  const QueueSpec& spec(const std::string& queue) const;
  std::optional<std::int64_t> share(const std::string& queue, const Dimension& dimension,
                                    Entitlement entitlement) const;  // empty = unlimited
  // Without those in `gone`.
  std::int64_t alloc(const std::string& queue, const Dimension& dimension,
                     const std::set<std::string>& gone, bool with_leaving = false,
                     bool fixed_only = false) const;
  bool above(const std::vector<std::string>& side, const Dimension& dimension, Entitlement what,
             const std::set<std::string>& gone, const Amounts& more) const;
  bool lacks(const Claim& claim, const Dimension& dimension) const;
  Duration protection(const Claim& claim, const std::string& victim, bool preempt) const;

  const Engine* engine_ = nullptr;
  Time now_;
  QueueConfig config_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, Known> known_;
  std::map<std::string, Held> held_;
  std::map<std::string, Held> moves_;  // by who moves: the place that is kept for it
  std::vector<Displaced> displaced_;
  std::set<std::string> disbelieved_;  // whose end was no longer believed in when the event came
  bool moved_ = false;
  bool granting_held_ = false;
  std::int64_t held_times_ = 0;
  std::int64_t evictions_ = 0;
  std::int64_t by_rule_[8] = {};
};

}  // namespace berth::core
