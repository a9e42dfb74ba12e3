// Pods as they are told: what waits, what lies on a node, and the books that follow.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "kube/scheduler/harbour.h"

namespace berth::kube {

namespace {

constexpr std::string_view kGrantKey = "berth.dev/grant";
constexpr std::string_view kScheduled = "PodScheduled";
constexpr std::string_view kInitialized = "Initialized";

const Condition* condition(const Pod& pod, std::string_view type) {
  const auto found = std::ranges::find(pod.conditions, type, &Condition::type);
  return found == pod.conditions.end() ? nullptr : &*found;
}

std::string_view annotation(const Labels& annotations, std::string_view key) {
  const auto found = annotations.find(std::string(key));
  return found == annotations.end() ? std::string_view() : std::string_view(found->second);
}

// The rules of a pod that lies somewhere, as far as others meet them.
RulesRef rules_for_others(const Pod& pod) {
  if (pod.anti_affinity.empty() && pod.host_ports.empty() && pod.volumes.empty()) {
    return nullptr;
  }
  PodRules rules;
  rules.anti_affinity = pod.anti_affinity;
  rules.ports = pod.host_ports;
  rules.volumes = pod.volumes;
  return std::make_shared<const PodRules>(std::move(rules));
}

}  // namespace

void Harbour::pod_changed(const Pod& pod, Time now) {
  const std::string id = Census::key(pod.meta.namespace_name, pod.meta.name);
  PodRecord* record = find(id);
  if (record != nullptr && record->facts.uid != pod.meta.uid) {
    forget(*record, now);
    record = nullptr;
  }
  const bool ours = pod.scheduler_name == config_.scheduler_name;
  if (pod.ended() || (!pod.assigned() && !ours)) {
    if (record != nullptr) {
      forget(*record, now);
    }
    return;
  }
  if (record == nullptr) {
    record = &pods_[id];
    record->facts.id = id;
    record->facts.uid = pod.meta.uid;
    record->facts.labels = census_.intern(pod.meta.labels);
    record->phase = PodPhase::kept;
    record->created_ms = pod.meta.created_ms;
  }
  record->generation = pod.meta.generation;
  if (pod.assigned()) {
    lies(*record, pod, ours, now);
  } else {
    waits(*record, pod, now);
  }
}

void Harbour::pod_gone(std::string_view id, std::string_view uid, Time now) {
  PodRecord* record = find(id);
  if (record != nullptr && (uid.empty() || record->facts.uid == uid)) {
    forget(*record, now);
  }
}

// --- pods without a node --------------------------------------------------------------------

void Harbour::waits(PodRecord& record, const Pod& pod, Time now) {
  if (record.phase == PodPhase::confirmed || record.phase == PodPhase::foreign) {
    return;  // nobody takes a node away from a pod: an older state
  }
  remember_told(record, pod, now);
  if (record.way != nullptr) {
    // Its binding is under way. What was not sent yet can still be stopped.
    if ((pod.meta.deleting || pod.gated) && is_withdrawable(record)) {
      withdraw(record, "it is being deleted", now);
    } else {
      return;
    }
  }
  record.facts.deleting = pod.meta.deleting;
  if (pod.meta.deleting || pod.gated) {
    leave_engine(record, now);
    fresh_.erase(record.facts.id);
    rule_bound_.erase(record.facts.id);
    to_tell_.erase(record.facts.id);
    record.plan = nullptr;
    record.phase = PodPhase::gated;
    return;
  }
  LabelsRef labels = census_.intern(pod.meta.labels);
  std::shared_ptr<const PodPlan> plan =
      plans_.get(pod, {.grammar = config_.rules,
                       .must_be_admitted = config_.must_be_admitted,
                       .assigns_whole = config_.assigns_whole});
  if (plan == record.plan && labels == record.facts.labels) {
    return;  // its status alone
  }
  leave_engine(record, now);
  record.facts.labels = std::move(labels);
  record.facts.rules = plan->rules;
  record.facts.takes = plan->takes;
  record.plan = std::move(plan);
  record.not_before = Time();
  if (record.plan->refusal.has_value()) {
    record.phase = PodPhase::refused;
    record.kept = {.reason = record.plan->refusal->reason,
                   .message = record.plan->refusal->message};
    to_tell_.insert(record.facts.id);
    return;
  }
  record.phase = PodPhase::kept;
  record.kept = {};
  fresh_.insert(record.facts.id);
}

// What its condition says already, so that a restart writes nothing anew. Until we lead another one
// may write it.
void Harbour::remember_told(PodRecord& record, const Pod& pod, Time now) {
  if (record.told != nullptr && ready_) {
    return;
  }
  record.told = std::make_unique<Told>();
  record.told->at = now - config_.tell_every;
  record.told->transition_ms = now.ms();
  const Condition* said = condition(pod, kScheduled);
  if (said != nullptr && said->status == "False") {
    record.told->hash = hash_of({.reason = said->reason, .message = said->message});
    record.told->reason = said->reason;
    record.told->transition_ms = said->transition_ms;
  }
}

// --- pods on nodes --------------------------------------------------------------------------

// Whether it is the binding that we sent.
bool Harbour::confirms(const PodRecord& record, const Pod& pod) const {
  return record.way != nullptr && census_.node(record.facts.node).name == pod.words.preset_node &&
         annotation(record.way->annotations, kGrantKey) ==
             annotation(pod.words.annotations, kGrantKey);
}

void Harbour::lies(PodRecord& record, const Pod& pod, bool ours, Time now) {
  if (confirms(record, pod)) {
    if (record.phase != PodPhase::bound) {
      note_bound(record, now);  // the watch was faster than the answer
    }
    record.way.reset();
    unseen_.erase(record.facts.id);
    record.phase = PodPhase::confirmed;
    record.plan = nullptr;
    record.told = nullptr;
    record.holds = std::make_shared<const Holdings>(holdings_of(pod, true));
    if (record.booked) {
      run(core::GrantConfirmed{record.facts.id}, now);
    } else {
      book(record, now);  // its node went and came back meanwhile
    }
  } else if (record.way != nullptr) {
    const std::string wanted = census_.node(record.facts.node).name;
    if (wanted == pod.words.preset_node) {
      alarm(record.facts.id, wanted,
            "it is bound there with another grant than ours; the pod's own is believed");
    }
    stop_way(record, now);
  }
  if (record.phase != PodPhase::confirmed && record.phase != PodPhase::foreign) {
    leave_engine(record, now);
    fresh_.erase(record.facts.id);
    rule_bound_.erase(record.facts.id);
    to_tell_.erase(record.facts.id);
    record.plan = nullptr;
    record.told = nullptr;
    record.phase = ours ? PodPhase::confirmed : PodPhase::foreign;
    lay_down(record, pod, ours, now);
  } else {
    stays(record, pod, ours, now);
  }
  if (pod.meta.deleting && !record.facts.deleting) {
    census_.set_deleting(record.facts);
    if (record.booked) {
      run(core::GrantReleasing{record.facts.id}, now);
    }
  }
  const Condition* started = condition(pod, kInitialized);
  if (!record.initialized && started != nullptr && started->status == "True") {
    record.initialized = true;
    if (record.booked) {
      run(core::WorkloadInitialized{record.facts.id}, now);
    }
  }
}

// What cannot be read of a pod that runs counts as nothing, and somebody is told.
Footprint Harbour::footprint_or_alarm(const Pod& pod) {
  Result<Footprint> takes = footprint_of(pod);
  if (!takes.ok()) {
    alarm(Census::key(pod.meta.namespace_name, pod.meta.name), pod.words.preset_node,
          takes.error().message());
    return {};
  }
  return *std::move(takes);
}

// First told there.
void Harbour::lay_down(PodRecord& record, const Pod& pod, bool ours, Time now) {
  record.facts.labels = census_.intern(pod.meta.labels);
  record.facts.rules = rules_for_others(pod);
  record.facts.takes = footprint_or_alarm(pod);
  record.holds = std::make_shared<const Holdings>(holdings_of(pod, ours));
  record.priority = pod.priority;
  record.queue = queue_of(pod);
  record.preemptible = is_preemptible(pod);
  census_.place(record.facts, census_.index_of(pod.words.preset_node));
  if (!record.holds->problem.empty()) {
    alarm(record.facts.id, pod.words.preset_node, record.holds->problem);
  }
  book(record, now);
  if (record.booked && ready_) {
    crowded_.insert(record.facts.node);
  }
}

// Told before: a resize, other labels, a status.
void Harbour::stays(PodRecord& record, const Pod& pod, bool ours, Time now) {
  Footprint takes = footprint_or_alarm(pod);
  LabelsRef labels = census_.intern(pod.meta.labels);
  Holdings holds = holdings_of(pod, ours);
  const bool same_books = record.holds != nullptr && *record.holds == holds &&
                          record.facts.takes.cpu_milli == takes.cpu_milli &&
                          record.facts.takes.ram_bytes == takes.ram_bytes;
  if (same_books && labels == record.facts.labels && record.facts.takes.others == takes.others) {
    return;
  }
  const NodeIndex node = record.facts.node;
  census_.leave(record.facts);
  record.facts.labels = std::move(labels);
  record.facts.takes = std::move(takes);
  census_.place(record.facts, node);
  if (same_books) {
    return;
  }
  record.holds = std::make_shared<const Holdings>(std::move(holds));
  // Nothing may slip into the hole between the old grant and the new one.
  run(core::GrantingHeld{true}, now);
  unbook(record, now);
  book(record, now);
  run(core::GrantingHeld{false}, now);
  crowded_.insert(node);
}

// --- the books ------------------------------------------------------------------------------

core::GrantAdopted Harbour::adoption(const PodRecord& record, bool with_devices) const {
  const Holdings& holds = *record.holds;
  const NodeFacts& node = census_.node(record.facts.node);
  core::RequestSpec spec;
  spec.cpu = Milli{record.facts.takes.cpu_milli};
  spec.ram = Memory::bytes(record.facts.takes.ram_bytes);
  core::GrantAdopted adopted{.workload = core::Workload::task(record.facts.id, core::Request()),
                             .node = node.name,
                             .shares = {},
                             .confirmed = true};
  if (with_devices) {
    spec.containers = holds.containers;
    const core::Fleet& fleet = engine_->fleet();
    const core::NodeId id = fleet.find_node(node.name);
    for (const core::GrantAdopted::Share& share : holds.shares) {
      const core::DeviceId device = fleet.find_device(share.uuid);
      if (!device.is_none() && fleet.present(device) && fleet.node_of(device) == id) {
        adopted.shares.push_back(share);
      }
    }
    add_unnamed(record, spec, adopted);
  }
  core::WorkloadOptions options;
  options.queue = record.queue;
  options.priority = record.priority;
  options.preemptible = record.preemptible;
  options.foreign = record.phase == PodPhase::foreign || holds.foreign;
  options.queued_at = Time(record.created_ms);
  auto request = core::Request::create(std::move(spec));
  adopted.workload = core::Workload::task(
      record.facts.id, request.ok() ? *std::move(request) : core::Request(), std::move(options));
  if (!request.ok()) {
    adopted.shares.clear();
  }
  return adopted;
}

// Whole devices and MIG instances that a vendor's plug-in gave out without a word which: those that
// nobody has, in order of place.
void Harbour::add_unnamed(const PodRecord& record, core::RequestSpec& spec,
                          core::GrantAdopted& adopted) const {
  const core::Fleet& fleet = engine_->fleet();
  const core::NodeId id = fleet.find_node(adopted.node);
  const auto take = [&](std::int64_t count, const std::string& profile) {
    if (count <= 0) {
      return;
    }
    const auto container = static_cast<std::uint32_t>(spec.containers.size());
    core::ContainerAsk ask;
    ask.name = fmt::format("unnamed-{}", container);
    ask.gpu = profile.empty() ? core::DeviceAsk::whole_devices(1)
                              : core::DeviceAsk::mig_instances(profile, 1);
    ask.gpu.count = static_cast<int>(std::min<std::int64_t>(count, core::kMaxAskCount));
    spec.containers.push_back(std::move(ask));
    for (const core::DeviceId device : fleet.devices_of(id)) {
      const core::Device& is = fleet.device(device);
      const bool taken = !engine_->ledger().book(device).holdings.empty() ||
                         std::ranges::any_of(adopted.shares, [&](const auto& share) {
                           return share.uuid == is.uuid;
                         });
      if (count > 0 && !taken && !is.mig_enabled && is.mig_profile == profile) {
        adopted.shares.push_back({.container = container,
                                  .uuid = is.uuid,
                                  .request_mib = is.usable_mib(),
                                  .limit_mib = is.usable_mib()});
        --count;
      }
    }
  };
  take(record.holds->whole, "");
  for (const auto& [profile, count] : record.holds->mig) {
    take(count, profile);
  }
}

void Harbour::book(PodRecord& record, Time now) {
  const NodeFacts& node = census_.node(record.facts.node);
  if (record.booked || !node.present) {
    return;
  }
  core::GrantAdopted adopted = adoption(record, true);
  const std::size_t found = adopted.shares.size();
  run(std::move(adopted), now);
  if (engine_->grant(record.facts.id) == nullptr) {
    alarm(record.facts.id, node.name,
          "its devices cannot be booked as its grant says; only its CPU and memory are");
    run(adoption(record, false), now);
  } else if (found < record.holds->shares.size()) {
    alarm(record.facts.id, node.name,
          fmt::format("{} of its {} devices are not on the node",
                      record.holds->shares.size() - found, record.holds->shares.size()));
  }
  record.booked = engine_->grant(record.facts.id) != nullptr;
  if (record.booked && record.initialized) {
    run(core::WorkloadInitialized{record.facts.id}, now);
  }
  if (record.booked && record.facts.deleting) {
    run(core::GrantReleasing{record.facts.id}, now);
  }
}

void Harbour::unbook(PodRecord& record, Time now) {
  if (std::exchange(record.booked, false)) {
    run(core::WorkloadCancelled{record.facts.id}, now);
  }
}

// The node came, or came back, or has other devices.
void Harbour::book_all_on(NodeIndex node, Time now) {
  unbooked_on_.erase(node);
  std::vector<PodFacts*> here = census_.node(node).pods;
  std::ranges::sort(here, {}, &PodFacts::id);
  // Those whose devices are named first, so that the others get what is left.
  for (const bool named : {true, false}) {
    for (const PodFacts* facts : here) {
      PodRecord& record = *find(facts->id);
      // What was sent lies there already, for all that is known.
      const bool lies = record.phase == PodPhase::confirmed || record.phase == PodPhase::foreign ||
                        (record.way != nullptr && !is_withdrawable(record));
      const bool unnamed =
          record.holds != nullptr && (record.holds->whole > 0 || !record.holds->mig.empty());
      if (lies && unnamed != named) {
        book(record, now);
      }
    }
  }
}

}  // namespace berth::kube
