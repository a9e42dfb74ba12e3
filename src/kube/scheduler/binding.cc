// A pod's way from the grant to the confirmed binding, and every way in which it can fail.
// Source: annotations.md 3.1, kubernetes-api.md 4.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "kube/scheduler/harbour.h"
#include "kube/scheduler/place_rules.h"

namespace berth::kube {

namespace {

constexpr Duration kFirstRetry{800};
constexpr Duration kLastRetry{30'000};
constexpr Duration kFirstRefusal{30'000};
constexpr Duration kLastRefusal{600'000};

Duration doubled(Duration first, Duration last, int times) {
  Duration delay = first;
  for (int i = 0; i < times && delay < last; ++i) {
    delay = delay + delay;
  }
  return std::min(delay, last);
}

}  // namespace

PodName Harbour::name_of(const PodRecord& record) const {
  return {.namespace_name = std::string(record.facts.namespace_name()),
          .name = std::string(record.facts.name()),
          .uid = record.facts.uid};
}

// --- the grant ------------------------------------------------------------------------------

void Harbour::on_granted(PodRecord& record, Time now) {
  const core::Grant* grant = engine_->grant(record.facts.id);
  if (grant == nullptr || grant->state == core::GrantState::promised) {
    return;  // taken back in the same breath
  }
  record.booked = true;
  const core::Node& node = engine_->fleet().node(grant->node);
  const NodeIndex index = census_.find_node(node.name);
  ASSERT(index != kNoNode, node.name);
  const PlaceRules rules(census_, record.facts);
  if (!rules.waits().empty() || !rules.refusal(index).empty()) {
    // The set of nodes was computed before something else came there.
    ++figures_.withdrawn;
    leave_engine(record, now);
    fresh_.insert(record.facts.id);
    return;
  }
  const GrantRecord says = record_of(*grant, record.plan->request, engine_->fleet());
  record.way = std::make_unique<Way>();
  if (record.plan->request.wants_gpu()) {
    record.way->annotations =
        binding_annotations(says, record.plan->words.annotations,
                            {.cdi = node_ways_[index].cdi, .assigns_whole = config_.assigns_whole});
  }
  record.way->grant = grant->number;
  record.holds = std::make_shared<const Holdings>(holdings_from(says));
  record.priority = record.plan->options.priority;
  record.queue = record.plan->options.queue;
  record.preemptible = record.plan->options.preemptible;
  census_.place(record.facts, index);
  ++figures_.decisions;
  news("granted", record.facts.id, node.name, "");
  start_claims(record, now);
}

// Claims that wait for a node are provided first; then the binding waits to be taken.
void Harbour::start_claims(PodRecord& record, Time now) {
  record.way->claims = steps_to_bind(census_, record.facts, record.facts.node);
  if (record.way->claims.empty()) {
    record.phase = PodPhase::granted;
    queue_binding(record);
    return;
  }
  record.phase = PodPhase::preparing;
  record.way->give_up = now + config_.volumes_within;
  set_timer(record.way->give_up, Alarm::claims, record);
  preparing_.insert(record.facts.id);
  for (const ClaimStep& step : record.way->claims) {
    const VolumeClaim& claim = census_.claims.at(step.claim);
    if (step.volume.empty() && claim.selected_node == census_.node(record.facts.node).name) {
      continue;
    }
    PatchClaim patch{.namespace_name = claim.meta.namespace_name,
                     .claim = claim.meta.name,
                     .claim_uid = claim.meta.uid,
                     .node = census_.node(record.facts.node).name,
                     .volume = step.volume,
                     .for_pod = record.facts.id};
    if (const auto volume = census_.volumes.find(step.volume); volume != census_.volumes.end()) {
      patch.volume_version = volume->second.meta.resource_version;
    }
    others_.push_back({give_number(record, DeedKind::claim), std::move(patch)});
  }
}

// Claims changed: those whose volumes are there go on; those that the provisioner gave back are
// planned anew.
void Harbour::look_at_claims(Time now) {
  const std::set<std::string> preparing = preparing_;
  for (const std::string& id : preparing) {
    PodRecord* record = find(id);
    if (record == nullptr || record->phase != PodPhase::preparing) {
      preparing_.erase(id);
      continue;
    }
    if (all_bound(census_, record->facts)) {
      preparing_.erase(id);
      record->phase = PodPhase::granted;
      queue_binding(*record);
      continue;
    }
    const PlaceRules rules(census_, record->facts);
    if (!rules.waits().empty() || !rules.refusal(record->facts.node).empty()) {
      withdraw(*record, "its volumes cannot be had there any more", now);
    }
  }
}

void Harbour::claims_late(PodRecord& record, Time now) {
  if (record.phase == PodPhase::preparing && record.way->give_up <= now) {
    withdraw(record, "its volumes were not provided in time", now);
  }
}

void Harbour::queue_binding(PodRecord& record) {
  if (record.phase == PodPhase::granted && !record.way->queued) {
    record.way->queued = true;
    bindings_.push_back(record.facts.id);
  }
}

// --- before it is sent ----------------------------------------------------------------------

// Whether surely nothing of its binding has happened or can still happen.
bool Harbour::is_withdrawable(const PodRecord& record) {
  return (record.phase == PodPhase::granted || record.phase == PodPhase::preparing) &&
         !record.way->may_be_done;
}

// Whether its place is still what it was granted: the node, and every device.
bool Harbour::is_whole(const PodRecord& record) const {
  const core::Fleet& fleet = engine_->fleet();
  const core::NodeId node = fleet.find_node(census_.node(record.facts.node).name);
  return record.booked && census_.node(record.facts.node).present && record.holds != nullptr &&
         std::ranges::all_of(record.holds->shares, [&](const core::GrantAdopted::Share& share) {
           const core::DeviceId device = fleet.find_device(share.uuid);
           return !device.is_none() && fleet.present(device) && fleet.node_of(device) == node;
         });
}

// Gives the place back and tries the pod anew. Requires that nothing of it can be done.
void Harbour::withdraw(PodRecord& record, std::string_view why, Time now) {
  ASSERT(record.way != nullptr, record.facts.id);
  ++figures_.withdrawn;
  news("withdrawn", record.facts.id, census_.node(record.facts.node).name, std::string(why));
  give_claims_back(record);
  stop_way(record, now);
  record.phase = PodPhase::kept;
  record.kept = {};
  fresh_.insert(record.facts.id);
}

// What we chose a node for and nobody has begun to provide.
void Harbour::give_claims_back(PodRecord& record) {
  for (const ClaimStep& step : record.way->claims) {
    const auto claim = census_.claims.find(step.claim);
    if (!step.volume.empty() || claim == census_.claims.end() || !claim->second.volume.empty()) {
      continue;
    }
    others_.push_back({give_number(record, DeedKind::claim),
                       PatchClaim{.namespace_name = claim->second.meta.namespace_name,
                                  .claim = claim->second.meta.name,
                                  .claim_uid = claim->second.meta.uid,
                                  .for_pod = record.facts.id}});
  }
}

void Harbour::stop_way(PodRecord& record, Time now) {
  census_.leave(record.facts);
  leave_engine(record, now);
  preparing_.erase(record.facts.id);
  record.holds = nullptr;
}

void Harbour::settle_crowded(Time now) {
  const std::set<NodeIndex> crowded = std::exchange(crowded_, {});
  for (const NodeIndex node : crowded) {
    withdraw_overdrawn(node, now);
  }
}

namespace {

// More is promised there than there is, of something that the grant takes.
bool too_much(const core::Ledger& ledger, const core::Fleet& fleet, const core::Grant& grant) {
  const core::NodeFace& face = ledger.node(grant.node);
  if (!fleet.present(grant.node) || face.slots_free < 0 ||
      (face.cpu_free < 0 && grant.cpu.count() > 0) ||
      (face.ram_free < 0 && grant.ram.in_bytes() > 0)) {
    return true;
  }
  return std::ranges::any_of(grant.charges, [&](const core::DeviceCharge& charge) {
    const core::DeviceBook& book = ledger.book(charge.device);
    std::int64_t requests = 0;
    std::int64_t nano = 0;
    bool whole = false;
    for (const core::Holding& holding : book.holdings) {
      requests += holding.promised ? 0 : holding.request;
      nano += holding.promised ? 0 : holding.nano;
      whole = whole || holding.exclusive;
    }
    constexpr std::int64_t kNano = 1'000'000'000;
    return requests > book.usable || nano > kNano || (whole && book.holdings.size() > 1);
  });
}

}  // namespace

// A foreign pod was first: of what we have not sent yet, the latest goes, until what is left fits.
void Harbour::withdraw_overdrawn(NodeIndex node, Time now) {
  std::vector<PodRecord*> ours;
  for (const PodFacts* facts : census_.node(node).pods) {
    PodRecord& record = *find(facts->id);
    if (is_withdrawable(record)) {
      ours.push_back(&record);
    }
  }
  std::ranges::sort(ours, {}, [](const PodRecord* r) { return -std::int64_t(r->way->grant); });
  for (PodRecord* record : ours) {
    const core::Grant* grant = engine_->grant(record->facts.id);
    const PlaceRules rules(census_, record->facts);
    if (grant == nullptr || too_much(engine_->ledger(), engine_->fleet(), *grant) ||
        !rules.refusal(node).empty()) {
      withdraw(*record, "a pod of somebody else came there first", now);
    }
  }
}

// --- deeds ----------------------------------------------------------------------------------

std::uint64_t Harbour::give_number(const PodRecord& record, DeedKind kind) {
  ++deeds_;
  outstanding_.emplace(deeds_, Owner{.id = record.facts.id, .uid = record.facts.uid, .kind = kind});
  return deeds_;
}

bool Harbour::watch_lags(Time now) const {
  return std::ranges::any_of(
      unseen_, [&](const auto& entry) { return entry.second + config_.watch_may_lag < now; });
}

bool Harbour::has_deeds() const {
  return !bindings_.empty() || !others_.empty() || !conditions_.empty() || !events_.empty();
}

std::vector<Deed> Harbour::take(const Room& room, Time now) {
  settle_crowded(now);
  std::vector<Deed> deeds;
  while (ready_ && deeds.size() < room.bindings && !bindings_.empty()) {
    PodRecord* record = find(bindings_.front());
    bindings_.pop_front();
    if (record == nullptr || record->phase != PodPhase::granted || !record->way->queued) {
      continue;  // withdrawn, or gone
    }
    Way& way = *record->way;
    way.queued = false;
    if (way.may_be_done && !is_whole(*record)) {
      // Its place is gone, and what was sent may have arrived: what became of it is read first.
      record->phase = PodPhase::sent;
      set_timer(std::max(now, way.sent + config_.surely_over), Alarm::read, *record);
      continue;
    }
    way.deed = give_number(*record, DeedKind::bind);
    way.sent = way.may_be_done ? way.sent : now;
    record->phase = PodPhase::sent;
    deeds.push_back({way.deed, Bind{.pod = name_of(*record),
                                    .node = census_.node(record->facts.node).name,
                                    .annotations = way.annotations}});
  }
  const auto drain = [&](std::deque<Deed>& from, std::size_t most) {
    for (; most > 0 && !from.empty(); from.pop_front()) {
      if (still_wanted(from.front())) {
        deeds.push_back(std::move(from.front()));
        --most;
      } else {
        outstanding_.erase(from.front().number);
      }
    }
  };
  drain(others_, others_.size());
  drain(conditions_, room.conditions);
  drain(events_, room.events);
  return deeds;
}

// A condition of a pod that found a place meanwhile would say what is not so.
bool Harbour::still_wanted(const Deed& deed) const {
  const auto* patch = std::get_if<PatchStatus>(&deed.body);
  if (patch == nullptr) {
    return true;
  }
  const PodRecord* record = find(Census::key(patch->pod.namespace_name, patch->pod.name));
  return record != nullptr && record->facts.uid == patch->pod.uid && is_told(*record);
}

void Harbour::answered(std::uint64_t number, const Said& said, Time now) {
  const auto found = outstanding_.find(number);
  if (found == outstanding_.end()) {
    return;
  }
  const Owner owner = std::move(found->second);
  outstanding_.erase(found);
  PodRecord* record = find(owner.id);
  if (record == nullptr || record->facts.uid != owner.uid) {
    return;  // the pod is gone, and its way with it
  }
  switch (owner.kind) {
    case DeedKind::bind:
      if (record->way != nullptr && record->way->deed == number) {
        record->way->deed = 0;
        bind_answered(*record, said, now);
      }
      break;
    case DeedKind::read:
      if (record->way != nullptr && record->way->deed == number) {
        record->way->deed = 0;
        pod_read(*record, said, now);
      }
      break;
    case DeedKind::claim: claim_answered(*record, said, now); break;
    case DeedKind::condition: condition_answered(*record, number, said, now); break;
    case DeedKind::event: break;
  }
}

void Harbour::claim_answered(PodRecord& record, const Said& said, Time now) {
  const bool fine = said.outcome == Said::Outcome::answered && said.status < 300;
  if (!fine && record.phase == PodPhase::preparing) {
    withdraw(record, fmt::format("its volume claim could not be prepared: {}", said.message), now);
    record.not_before = now + doubled(kFirstRetry, kLastRetry, record.refusals++);
    set_timer(record.not_before, Alarm::again, record);
  }
}

void Harbour::bind_answered(PodRecord& record, const Said& said, Time now) {
  constexpr int kUnauthorized = 403;
  if (said.outcome == Said::Outcome::not_sent) {
    if (!record.way->may_be_done) {
      record.phase = PodPhase::granted;
      if (!is_whole(record)) {
        withdraw(record, "its place went away while it was on its way", now);
        return;
      }
      set_timer(now + doubled(kFirstRetry, kLastRetry, record.way->failures++), Alarm::again,
                record);
    } else {
      read_later(record, now, said.retry_after);
    }
    return;
  }
  if (said.outcome == Said::Outcome::answered && said.status >= 200 && said.status < 300) {
    record.phase = PodPhase::bound;
    record.way->may_be_done = true;
    note_bound(record, now);
    unseen_.emplace(record.facts.id, now);
    set_timer(now + config_.surely_over, Alarm::read, record);
    return;
  }
  if (said.outcome == Said::Outcome::answered) {
    switch (said.status) {
      case 404: pod_vanished(record, now); return;
      case 409:
        ++figures_.conflicts;
        record.way->may_be_done = true;
        read_now(record);
        return;
      case 400:
      case 422:
        ++figures_.refused;
        alarm(record.facts.id, "",
              fmt::format("the API server refuses its binding: {}", said.message));
        stop_way(record, now);
        record.phase = PodPhase::refused;
        record.kept = {
            .reason = "SchedulerError",
            .message = fmt::format("the API server refuses the binding: {}", said.message)};
        to_tell_.insert(record.facts.id);
        return;
      case kUnauthorized:
        ++figures_.refused;
        alarm(record.facts.id, "", fmt::format("bindings are forbidden: {}", said.message));
        stop_way(record, now);
        try_later(record,
                  {.reason = "SchedulerError",
                   .message = fmt::format("the API server forbids the binding: {}", said.message)},
                  now);
        return;
      default: break;
    }
  }
  ++figures_.unknown;
  record.way->may_be_done = true;
  read_later(record, now, said.retry_after);
}

// Once for each pod, whoever tells it first: the answer or the watch.
void Harbour::note_bound(const PodRecord& record, Time now) {
  ++figures_.bound;
  news("bound", record.facts.id, census_.node(record.facts.node).name, "");
  say_scheduled(record, now);
}

void Harbour::try_later(PodRecord& record, Words words, Time now) {
  keep(record, std::move(words));
  record.not_before = now + doubled(kFirstRefusal, kLastRefusal, record.refusals++);
  set_timer(record.not_before, Alarm::again, record);
}

void Harbour::read_now(PodRecord& record) {
  record.way->deed = give_number(record, DeedKind::read);
  others_.push_back({record.way->deed, ReadPod{.pod = name_of(record)}});
}

void Harbour::read_later(PodRecord& record, Time now, std::optional<Duration> asked) {
  const Duration delay = record.way->failures == 0 && !asked.has_value()
                             ? Duration(0)
                             : doubled(kFirstRetry, kLastRetry, record.way->failures);
  ++record.way->failures;
  const Duration wait = std::max(delay, asked.value_or(Duration(0)));
  if (wait == Duration(0)) {
    read_now(record);
  } else {
    set_timer(now + wait, Alarm::read, record);
  }
}

// 404: the watch will say so, too. Nothing is tried for it meanwhile.
void Harbour::pod_vanished(PodRecord& record, Time now) {
  stop_way(record, now);
  record.phase = PodPhase::gated;
  record.plan = nullptr;
}

// What the pod itself says decides what an answer meant.
void Harbour::pod_read(PodRecord& record, const Said& said, Time now) {
  if (said.outcome == Said::Outcome::answered && said.status == 404) {
    pod_vanished(record, now);
    return;
  }
  if (!said.pod.has_value()) {
    read_later(record, now, said.retry_after);
    return;
  }
  const Pod& pod = *said.pod;
  if (pod.meta.uid != record.facts.uid || pod.ended() || pod.assigned()) {
    pod_changed(pod, now);
    return;
  }
  if (record.phase == PodPhase::bound) {
    // The server said that it is bound, and then that it is not.
    alarm(record.facts.id, "", "its binding was confirmed and is not there");
  }
  if (pod.meta.deleting || pod.gated) {
    stop_way(record, now);
    waits(record, pod, now);
    return;
  }
  // Nobody has it yet. What was sent may still arrive: the same is sent again, or, where the place
  // is not good any more, it is waited for until the server has surely ended what it was doing.
  const core::Grant* grant = engine_->grant(record.facts.id);
  const PlaceRules rules(census_, record.facts);
  const bool good = grant != nullptr && is_whole(record) &&
                    !too_much(engine_->ledger(), engine_->fleet(), *grant) &&
                    rules.refusal(record.facts.node).empty();
  if (good) {
    record.phase = PodPhase::granted;
    set_timer(now + doubled(kFirstRetry, kLastRetry, record.way->failures++), Alarm::again, record);
  } else if (now >= record.way->sent + config_.surely_over) {
    withdraw(record, "the place is not good any more, and the binding surely did not happen", now);
  } else {
    set_timer(record.way->sent + config_.surely_over, Alarm::read, record);
  }
}

}  // namespace berth::kube
