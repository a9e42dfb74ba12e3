#include "kube/scheduler/harbour.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "kube/scheduler/others.h"

namespace berth::kube {

Result<std::unique_ptr<Harbour>> Harbour::create(HarbourConfig config, Time now) {
  config.engine.max_sample_age.reset();  // capacity is what nodes declare
  config.engine.evictions = false;
  std::unique_ptr<Harbour> harbour(new Harbour(std::move(config)));
  TRY(harbour->engine_, core::Engine::create(harbour->config_.engine));
  if (harbour->config_.queues.has_value()) {
    harbour->run(core::QueuesChanged{*harbour->config_.queues}, now);
  }
  return harbour;
}

Harbour::~Harbour() = default;

// --- events and actions ---------------------------------------------------------------------

// What is asked for while actions are carried out comes after them.
void Harbour::run(core::EventBody body, Time now) {
  followups_.push_back(std::move(body));
  if (running_) {
    return;
  }
  running_ = true;
  while (!followups_.empty()) {
    const core::Event event{now, std::move(followups_.front())};
    followups_.pop_front();
    changes_ += std::holds_alternative<core::TimeReached>(event.body) ? 0U : 1U;
    const std::span<const core::Action> answer = engine_->apply(event);
    if (tap_) {
      tap_(event, answer);
    }
    const std::vector<core::Action> actions(answer.begin(), answer.end());
    for (const core::Action& action : actions) {
      act(action, now);
    }
  }
  running_ = false;
}

void Harbour::act(const core::Action& action, Time now) {
  const auto of = [this](core::WorkloadId id) { return find(engine_->uid(id)); };
  if (const auto* granted = std::get_if<core::Granted>(&action)) {
    PodRecord* record = of(granted->workload);
    if (record != nullptr && record->phase == PodPhase::waiting) {
      on_granted(*record, now);
    }
  } else if (const auto* retracted = std::get_if<core::Retracted>(&action)) {
    PodRecord* record = of(retracted->workload);
    if (record != nullptr && retracted->lost) {
      on_lost(*record, now);
    }
  } else if (const auto* verdict = std::get_if<core::VerdictChanged>(&action)) {
    if (const PodRecord* record = of(verdict->workload)) {
      to_tell_.insert(record->facts.id);
    }
  } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
    wake_ = wake->time;
  } else if (const auto* notice = std::get_if<core::Notice>(&action)) {
    if (notice->kind == core::Notice::Kind::queue_problem) {
      alarm("", "", notice->text);
    } else if (notice->kind == core::Notice::Kind::refused_event) {
      news("refused-event", "", "", notice->text);
    }
  }
}

// The devices under a grant are gone. What lies there is booked again with what is left of it.
void Harbour::on_lost(PodRecord& record, Time now) {
  record.booked = false;
  if (is_withdrawable(record)) {
    withdraw(record, "its device is gone", now);
  } else if (record.facts.node != kNoNode) {
    unbooked_on_.insert(record.facts.node);
  }
}

void Harbour::news(std::string_view kind, std::string_view pod, std::string_view node,
                   std::string text) {
  news_.push_back({kind, std::string(pod), std::string(node), std::move(text)});
}

void Harbour::alarm(std::string_view pod, std::string_view node, std::string text) {
  ++figures_.alarms;
  news("alarm", pod, node, std::move(text));
}

Harbour::PodRecord* Harbour::find(std::string_view id) {
  const auto found = pods_.find(std::string(id));
  return found == pods_.end() ? nullptr : &found->second;
}

const Harbour::PodRecord* Harbour::find(std::string_view id) const {
  const auto found = pods_.find(std::string(id));
  return found == pods_.end() ? nullptr : &found->second;
}

// The pod is gone, whatever it was.
void Harbour::forget(PodRecord& record, Time now) {
  const std::string id = record.facts.id;
  leave_engine(record, now);
  census_.leave(record.facts);
  fresh_.erase(id);
  rule_bound_.erase(id);
  to_tell_.erase(id);
  pods_.erase(id);
}

// --- nodes ----------------------------------------------------------------------------------

void Harbour::node_changed(const Node& node, Time now) {
  const NodeIndex index = census_.index_of(node.meta.name);
  if (described_.size() <= index) {
    described_.resize(index + 1);
    node_ways_.resize(index + 1);
  }
  if (census_.node(index).present && census_.node(index).uid != node.meta.uid) {
    node_gone(node.meta.name, {}, now);
  }
  NodeReading reading = node_from(node, config_.nodes);
  std::string problem = reading.excluded;
  if (!problem.empty()) {
    // Nothing new comes there. What runs keeps the devices that it was given.
    reading.node.ready = false;
    if (census_.node(index).present) {
      reading.node.devices = described_[index].devices;
      reading.node.links = described_[index].links;
    }
  }
  reading.node.labels[std::string(kNodeNameLabel)] = node.meta.name;
  reading.node.cordoned = reading.node.cordoned || node.meta.deleting;
  node_ways_[index] = {.backend = reading.backend, .cdi = reading.cdi, .source = reading.source};
  NodeFacts fresh{.name = node.meta.name,
                  .uid = node.meta.uid,
                  .present = true,
                  .labels = node.meta.labels,
                  .taints = node.taints};
  fresh.offered = offered_by(node);
  fresh.features = node.declared_features;
  std::ranges::sort(fresh.features);
  NodeFacts& facts = census_.node(index);
  if (problem != facts.problem && !problem.empty()) {
    alarm("", node.meta.name, problem);
  }
  fresh.problem = std::move(problem);
  const bool same_rules = facts.present && facts.labels == fresh.labels &&
                          facts.taints == fresh.taints && facts.offered == fresh.offered &&
                          facts.features == fresh.features;
  if (same_rules && described_[index] == reading.node) {
    return;  // a sign of life
  }
  fresh.taken = std::move(facts.taken);
  fresh.pods = std::move(facts.pods);
  facts = std::move(fresh);
  census_.node_changed();
  // What lies there comes into the books before anybody who waits is given the same room.
  const bool holds = std::ranges::any_of(
      facts.pods, [this](const PodFacts* pod) { return !find(pod->id)->booked; });
  const bool devices_change = described_[index].devices != reading.node.devices;
  const bool hold = ready_ && (holds || (devices_change && !facts.pods.empty()));
  if (hold) {
    run(core::GrantingHeld{true}, now);
  }
  tell_engine(index, std::move(reading.node), now);
  book_all_on(index, now);
  if (hold) {
    run(core::GrantingHeld{false}, now);
  }
}

// A device that another node has already, or a description out of bounds, costs the node its
// devices, not its CPU.
void Harbour::tell_engine(NodeIndex index, core::Node node, Time now) {
  described_[index] = node;
  run(core::NodeUpserted{std::move(node)}, now);
  const core::Fleet& fleet = engine_->fleet();
  const core::NodeId id = fleet.find_node(described_[index].name);
  if (!id.is_none() && fleet.present(id) && fleet.node(id) == described_[index]) {
    return;
  }
  alarm("", described_[index].name,
        "what the node says of its devices is refused (see refused-event); it counts without them");
  core::Node bare = described_[index];
  bare.devices.clear();
  bare.links.clear();
  run(core::NodeUpserted{std::move(bare)}, now);
}

void Harbour::node_gone(std::string_view name, std::string_view uid, Time now) {
  const NodeIndex index = census_.find_node(name);
  if (index == kNoNode || !census_.node(index).present ||
      (!uid.empty() && census_.node(index).uid != uid)) {
    return;
  }
  const std::vector<PodFacts*> here = census_.node(index).pods;
  for (const PodFacts* facts : here) {
    PodRecord& record = *find(facts->id);
    if (is_withdrawable(record)) {
      withdraw(record, "its node is gone", now);
    } else {
      unbook(record, now);
    }
  }
  census_.node(index).present = false;
  census_.node_changed();
  run(core::NodeRemoved{std::string(name)}, now);
}

void Harbour::namespace_changed(const Namespace& object) {
  Labels& labels = census_.namespaces[object.meta.name];
  if (labels != object.meta.labels) {
    labels = object.meta.labels;
    census_.touch(Ground::namespaces);
  }
}

void Harbour::namespace_gone(std::string_view name) {
  if (const auto found = census_.namespaces.find(name); found != census_.namespaces.end()) {
    census_.namespaces.erase(found);
    census_.touch(Ground::namespaces);
  }
}

void Harbour::storage_changed(Time now) {
  census_.touch(Ground::storage);
  look_at_claims(now);
}

// --- what may be done -----------------------------------------------------------------------

void Harbour::set_ready(bool ready, Time now) {
  ready_ = ready;
  settle(now);
}

void Harbour::set_queues(core::QueueConfig queues, Time now) {
  config_.queues = std::move(queues);
  run(core::QueuesChanged{*config_.queues}, now);
}

std::optional<Time> Harbour::next_due() const {
  std::optional<Time> due = wake_;
  if (!timers_.empty() && (!due.has_value() || timers_.begin()->at < *due)) {
    due = timers_.begin()->at;
  }
  return due;
}

void Harbour::tick(Time now) {
  if (wake_.has_value() && *wake_ <= now) {
    wake_.reset();
    run(core::TimeReached{}, now);
  }
  while (!timers_.empty() && timers_.begin()->at <= now) {
    const Timer timer = timers_.extract(timers_.begin()).value();
    PodRecord* record = find(timer.id);
    if (record != nullptr && record->facts.uid == timer.uid) {
      fire(timer.kind, *record, now);
    }
  }
}

void Harbour::set_timer(Time at, Alarm kind, const PodRecord& record) {
  timers_.insert({.at = at, .kind = kind, .id = record.facts.id, .uid = record.facts.uid});
}

void Harbour::fire(Alarm kind, PodRecord& record, Time now) {
  switch (kind) {
    case Alarm::tell: to_tell_.insert(record.facts.id); break;
    case Alarm::again:
      if (record.phase == PodPhase::kept) {
        fresh_.insert(record.facts.id);
      } else if (record.phase == PodPhase::granted) {
        queue_binding(record);
      }
      break;
    case Alarm::read:
      if (record.way != nullptr && record.way->deed == 0) {
        read_now(record);
      }
      break;
    case Alarm::claims: claims_late(record, now); break;
    case Alarm::series: refresh_series(record, now); break;
  }
}

// --- questions ------------------------------------------------------------------------------

std::optional<PodPhase> Harbour::phase(std::string_view id) const {
  const PodRecord* record = find(id);
  return record == nullptr ? std::nullopt : std::optional(record->phase);
}

std::string Harbour::reason(std::string_view id) const {
  const PodRecord* record = find(id);
  return record == nullptr || record->told == nullptr ? std::string() : record->told->reason;
}

std::optional<Harbour::Words> Harbour::words(std::string_view id) const {
  const PodRecord* record = find(id);
  if (record == nullptr || !is_told(*record)) {
    return std::nullopt;
  }
  return words_of(*record);
}

std::optional<Harbour::View> Harbour::view(std::string_view id) const {
  const PodRecord* record = find(id);
  if (record == nullptr) {
    return std::nullopt;
  }
  return View{.phase = record->phase,
              .queue = record->plan != nullptr ? record->plan->options.queue : record->queue,
              .node = record->facts.node == kNoNode ? "" : census_.node(record->facts.node).name,
              .created_ms = record->created_ms,
              .deleting = record->facts.deleting,
              .holds = record->holds.get()};
}

std::vector<std::string> Harbour::ours() const {
  std::vector<std::string> names;
  for (const auto& [id, record] : pods_) {
    if (record.phase != PodPhase::foreign) {
      names.push_back(id);
    }
  }
  std::ranges::sort(names);
  return names;
}

Result<void> Harbour::check() const {
  const auto broken = [](std::string text) { return Error(ErrorCode::internal, std::move(text)); };
  for (const auto& [id, record] : pods_) {
    const bool on_its_way = record.way != nullptr;
    const bool lies = record.phase == PodPhase::confirmed || record.phase == PodPhase::foreign;
    const core::Grant* grant = engine_->grant(id);
    const bool holds = grant != nullptr && grant->state != core::GrantState::promised;
    if (holds != record.booked) {
      return broken(fmt::format("pod {}: the engine {} a grant, the harbour thinks otherwise", id,
                                holds ? "has" : "has not"));
    }
    if ((on_its_way || lies) != (record.facts.group != nullptr)) {
      return broken(fmt::format("pod {} is {}counted on a node", id, lies ? "not " : ""));
    }
    if (lies && census_.node(record.facts.node).present && !record.booked) {
      return broken(fmt::format("pod {} lies on node {} and is in no books", id,
                                census_.node(record.facts.node).name));
    }
    if (record.way != nullptr && is_withdrawable(record) && !record.booked) {
      return broken(fmt::format("pod {} is to be bound and is in no books", id));
    }
    if (record.phase == PodPhase::waiting && !engine_->outcome(id).has_value()) {
      return broken(fmt::format("pod {} waits, and the engine does not know it", id));
    }
  }
  return core::verify(*engine_);
}

}  // namespace berth::kube
