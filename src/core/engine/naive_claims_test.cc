#include "core/engine/naive_claims_test.h"

#include <algorithm>

#include <fmt/format.h>

namespace berth::core {

namespace {

constexpr std::int64_t kDevice = 3000;  // a device, in the unit that shares and milli divide
constexpr Duration kBelieved{120'000};  // how long an end is believed to come soon

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace

// ---- following

void NaiveClaims::add(const Workload& workload, Time time) {
  if (known_.contains(workload.uid())) {
    return;
  }
  Known one;
  one.options = workload.options();
  one.request = workload.request();
  one.queued_at = time;
  if (workload.gang() == nullptr) {
    known_.emplace(workload.uid(), std::move(one));
    return;
  }
  const Group& root = workload.gang()->root;
  Known head = one;
  head.gang = workload.uid();
  head.min = root.minimum();
  head.whole_only = workload.gang()->options.whole_only;
  for (const MemberSet& set : root.members) {
    for (std::int64_t i = 0; i < set.count; ++i) {
      const std::string uid = workload.uid() + "/" + member_name(set, i);
      head.members.push_back(uid);
      Known member = one;
      member.request = set.request;
      member.gang = workload.uid();
      known_.insert_or_assign(uid, std::move(member));
    }
  }
  known_.emplace(workload.uid(), std::move(head));
}

NaiveClaims::Amounts NaiveClaims::takes(const Request& request, const std::string& node) const {
  const auto at = nodes_.find(node);
  Amounts amounts;
  if (at == nodes_.end() || at->second.devices.empty()) {
    return amounts;
  }
  const Device& device = at->second.devices.front();
  const std::int64_t usable = device.usable_mib();
  for (const ContainerAsk& container : request.containers()) {
    const DeviceAsk& ask = container.gpu;
    const bool whole = ask.kind == AskKind::whole;
    const std::int64_t count = ask.count;
    for (const std::string& name : {device.model, std::string("*")}) {
      amounts[{name, DimensionKind::memory}] += count * (whole ? usable : ask.mib);
      amounts[{name, DimensionKind::devices}] +=
          count * (whole ? kDevice : ask.mib * (kDevice / usable));
      amounts[{name, DimensionKind::compute}] += count * (whole ? 1000 : ask.compute_milli);
    }
  }
  return amounts;
}

void NaiveClaims::hold(const std::string& uid, const std::string& node, bool promised) {
  Held& held = held_[uid];
  held = {.node = node,
          .takes = takes(known_.at(uid).request, node),
          .since = now_,
          .promised = promised,
          .slot = false,
          .asked = std::nullopt,
          .leaving_since = std::nullopt};
}

std::string NaiveClaims::follow_event(const Event& event, std::span<const Action> actions) {
  const bool refused = std::ranges::any_of(actions, [](const Action& action) {
    const auto* notice = std::get_if<Notice>(&action);
    return notice != nullptr && notice->kind == Notice::Kind::refused_event;
  });
  if (refused) {
    return "";
  }
  std::visit(Overloaded{[&](const WorkloadSubmitted& e) { add(e.workload, event.time); },
                        [&](const NodeUpserted& e) { nodes_[e.node.name] = e.node; },
                        [&](const QueuesChanged& e) { config_ = e.config; },
                        [&](const GrantingHeld& e) {
                          held_times_ += e.held && !granting_held_ ? 1 : 0;
                          granting_held_ = e.held;
                        },
                        [&](const GrantReleasing& e) {
                          if (const auto held = held_.find(e.uid);
                              held != held_.end() && !held->second.leaving_since.has_value()) {
                            held->second.leaving_since = event.time;
                          }
                        },
                        [&](const GrantReleased& e) {
                          const auto held = held_.find(e.uid);
                          const auto one = known_.find(e.uid);
                          if (held != held_.end() && !held->second.asked.has_value() &&
                              one != known_.end() && !one->second.gang.empty()) {
                            ++known_.at(one->second.gang).succeeded;
                          }
                        },
                        [](const auto&) {}},
             event.body);
  const bool demand_stays = std::holds_alternative<GrantLost>(event.body) ||
                            std::holds_alternative<TimeReached>(event.body) ||
                            std::holds_alternative<GrantingHeld>(event.body) ||
                            std::holds_alternative<GrantConfirmed>(event.body);
  if (!demand_stays) {
    displaced_.clear();  // entitlements are others now
  }
  return "";
}

std::string NaiveClaims::follow(const Event& event, std::span<const Action> actions,
                                const Engine& engine) {
  engine_ = &engine;
  now_ = event.time;
  moved_ = false;
  disbelieved_.clear();
  for (auto& [uid, held] : held_) {
    if (held.leaving_since.has_value() && now_ >= *held.leaving_since + kBelieved) {
      held.leaving_since.reset();  // it runs on, for all that anybody knows
      disbelieved_.insert(uid);
    }
  }
  std::string wrong = follow_event(event, actions);
  // That a place is no longer kept for who moves is not said: it is before whatever is decided.
  std::erase_if(
      moves_, [&](const auto& move) { return engine.grant(move.first + " (moving)") == nullptr; });
  for (std::size_t at = 0; at < actions.size() && wrong.empty(); ++at) {
    wrong = check_held(actions[at]);
    if (!wrong.empty()) {
      break;
    }
    if (std::holds_alternative<Evicted>(actions[at])) {
      wrong = on_evicted(actions, at);
    } else {
      wrong = follow_action(actions, at);
    }
  }
  if (!wrong.empty()) {
    return wrong;
  }
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const NodeId id = engine.fleet().find_node(node->first);
    node = !id.is_none() && engine.fleet().present(id) ? std::next(node) : nodes_.erase(node);
  }
  for (const auto& [uid, known] : known_) {
    // A lost member's place is kept for its replacement.
    const Grant* grant = engine.grant(uid);
    if (grant != nullptr && !held_.contains(uid) && grant->state == GrantState::promised &&
        !known.gang.empty()) {
      hold(uid, engine.fleet().node(grant->node).name, true);
      held_.at(uid).slot = true;
    }
  }
  review_gangs();
  return check_books();
}

// Nothing is granted, promised or ended while granting is held, and nothing begins in a queue that
// is stopped or is ended for it.
std::string NaiveClaims::check_held(const Action& action) const {
  const auto* granted = std::get_if<Granted>(&action);
  const auto* promised = std::get_if<Promised>(&action);
  const auto* evicted = std::get_if<Evicted>(&action);
  const WorkloadId id = granted != nullptr    ? granted->workload
                        : promised != nullptr ? promised->workload
                        : evicted != nullptr  ? evicted->beneficiary
                                              : WorkloadId::none();
  if (granting_held_ && (granted != nullptr || promised != nullptr || evicted != nullptr)) {
    return "somebody was granted, promised or asked to leave while granting is held";
  }
  const std::string uid = id.is_none() ? "" : std::string(engine_->uid(id));
  const auto known = known_.find(uid);
  if (known == known_.end() || held_.contains(uid) || moves_.contains(uid)) {
    return "";  // it has its place already
  }
  for (const std::string& queue : path(known->second.options.queue)) {
    if (spec(queue).stop != QueueStop::none && !known->second.started) {
      return fmt::format("{} begins in queue {}, which is stopped", uid, queue);
    }
  }
  return "";
}

std::string NaiveClaims::follow_action(std::span<const Action> actions, std::size_t at) {
  const auto name = [&](WorkloadId id) { return std::string(engine_->uid(id)); };
  const auto lose = [&](const std::string& uid) {
    excuse(uid, false);
    held_.erase(uid);
  };
  std::visit(Overloaded{[&](const Granted& a) {
                          const std::string uid = name(a.workload);
                          moved_ = true;
                          if (a.node.is_none()) {
                            known_.at(uid).started = true;
                            known_.at(uid).minimum_reached = now_;
                            return;
                          }
                          if (held_.contains(uid) && held_.at(uid).promised) {
                            held_.at(uid).promised = false;
                            held_.at(uid).since = now_;
                            return;
                          }
                          hold(uid, engine_->fleet().node(a.node).name, false);
                          excuse(uid, true);
                        },
                        [&](const Promised& a) {
                          const std::string uid = name(a.workload);
                          moved_ = true;
                          moves_.erase(uid);
                          hold(uid, engine_->fleet().node(a.node).name, true);
                          excuse(uid, true);
                        },
                        [&](const Retracted& a) { lose(name(a.workload)); },
                        [&](const Ended& a) {
                          const std::string uid = name(a.workload);
                          lose(uid);
                          const auto one = known_.find(uid);
                          if (one != known_.end() && !one->second.gang.empty() &&
                              one->second.gang != uid && known_.contains(one->second.gang)) {
                            std::erase(known_.at(one->second.gang).members, uid);
                          }
                          moves_.erase(uid);
                          known_.erase(uid);
                        },
                        [](const auto&) {}},
             actions[at]);
  return "";
}

// Everything that is asked to leave for one claimant, and what the claimant gets for it.
std::string NaiveClaims::on_evicted(std::span<const Action> actions, std::size_t& at) {
  const auto& first = std::get<Evicted>(actions[at]);
  std::size_t count = 0;
  while (at + count < actions.size()) {
    const auto* next = std::get_if<Evicted>(&actions[at + count]);
    if (next == nullptr || next->beneficiary != first.beneficiary) {
      break;
    }
    ++count;
  }
  std::string wrong;
  std::vector<std::string> victims;
  if (!first.beneficiary.is_none()) {
    const Claim claim = claim_of(actions, at, count);
    wrong = check_claim(claim);
    if (wrong.empty()) {
      wrong = check_flip(claim);
    }
    if (!wrong.empty()) {
      return fmt::format("{} (claimant {})", wrong, claim.claimant);
    }
  }
  for (std::size_t i = at; i < at + count; ++i) {
    const auto& evicted = std::get<Evicted>(actions[i]);
    const std::string uid(engine_->uid(evicted.workload));
    Held& held = held_.at(uid);
    held.asked = now_;
    // A gang may have been asked to go when its time was over, before the belief in the end of this
    // one was: what an event that comes late has missed is made up for in that order.
    const bool long_ago = first.beneficiary.is_none() && disbelieved_.contains(uid);
    if (long_ago && engine_->grant(uid)->state != GrantState::releasing) {
      held.leaving_since.reset();
    } else if (!held.leaving_since.has_value()) {
      held.leaving_since = now_;
    }
    if (!evicted.moves_to.is_none()) {
      Held& kept = moves_[uid];
      kept = held;
      kept.node = engine_->fleet().node(evicted.moves_to).name;
      kept.takes = takes(known_.at(uid).request, kept.node);
      kept.leaving_since.reset();
      kept.promised = true;
    }
    known_.at(uid).evictions.push_back(now_);
    excuse(uid, false);
    ++evictions_;
    ++by_rule_[static_cast<std::size_t>(evicted.rule)];
  }
  moved_ = true;
  at += count - 1;
  return "";
}

NaiveClaims::Claim NaiveClaims::claim_of(std::span<const Action> actions, std::size_t from,
                                         std::size_t count) const {
  Claim claim;
  claim.claimant = engine_->uid(std::get<Evicted>(actions[from]).beneficiary);
  for (std::size_t i = from; i < from + count; ++i) {
    const auto& evicted = std::get<Evicted>(actions[i]);
    claim.leavers.push_back(&evicted);
    (evicted.moves_to.is_none() ? claim.lost : claim.moving)
        .emplace_back(engine_->uid(evicted.workload));
  }
  for (std::size_t i = from + count; i < actions.size(); ++i) {
    if (std::holds_alternative<VerdictChanged>(actions[i]) ||
        std::holds_alternative<Notice>(actions[i])) {
      continue;
    }
    const auto* promised = std::get_if<Promised>(&actions[i]);
    const std::string uid(promised == nullptr ? "" : engine_->uid(promised->workload));
    if (promised == nullptr || !known_.contains(uid) ||
        (uid != claim.claimant && known_.at(uid).gang != claim.claimant)) {
      break;
    }
    claim.placed.push_back(uid);
    const Amounts more = takes(known_.at(uid).request, engine_->fleet().node(promised->node).name);
    for (const auto& [dimension, amount] : more) {
      claim.takes[dimension] += amount;
    }
  }
  return claim;
}

void NaiveClaims::review_gangs() {
  for (auto& [uid, head] : known_) {
    if (head.gang != uid || !head.started) {
      continue;
    }
    const bool any = std::ranges::any_of(head.members, [&](const std::string& member) {
      return held_.contains(member) && !held_.at(member).slot;
    });
    const bool whole = present(head) >= head.min;
    head.minimum_reached = whole && head.degraded ? now_ : head.minimum_reached;
    head.degraded = !whole;
    head.started = any || whole;
  }
}

std::int64_t NaiveClaims::present(const Known& head) const {
  return head.succeeded + std::ranges::count_if(head.members, [&](const std::string& member) {
           const auto held = held_.find(member);
           return held != held_.end() && !held->second.slot &&
                  (!held->second.asked.has_value() || moves_.contains(member));
         });
}

std::string NaiveClaims::check_books() const {
  for (const auto& [uid, known] : known_) {
    const Grant* grant = engine_->grant(uid);
    const auto held = held_.find(uid);
    if ((grant != nullptr) != (held != held_.end())) {
      return fmt::format("{} {} a grant, which the actions did not say", uid,
                         grant != nullptr ? "has" : "lacks");
    }
    if (grant != nullptr && engine_->fleet().node(grant->node).name != held->second.node) {
      return fmt::format("{} is on another node than was said", uid);
    }
    if (grant != nullptr && (grant->state == GrantState::promised) != held->second.promised) {
      return fmt::format("{} is promised or is not, which the actions did not say", uid);
    }
    if (grant != nullptr &&
        (grant->state == GrantState::releasing) != held->second.leaving_since.has_value()) {
      return fmt::format("{} is being released or is not, which the actions did not say", uid);
    }
  }
  return "";
}

std::vector<std::string> NaiveClaims::asked_to_leave() const {
  std::vector<std::pair<Time, std::string>> asked;
  for (const auto& [uid, held] : held_) {
    if (held.asked.has_value()) {
      asked.emplace_back(*held.asked, uid);
    }
  }
  std::ranges::sort(asked);
  std::vector<std::string> uids;
  for (auto& [time, uid] : asked) {
    uids.push_back(std::move(uid));
  }
  return uids;
}

}  // namespace berth::core
