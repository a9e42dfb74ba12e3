// One handler per event; those of grants are in grant_events.cc. A handler changes the state and
// says who could be helped; the pass decides.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"
#include "core/placement/registry.h"

namespace berth::core {

namespace {

// Times and priorities are added up; within these bounds no sum overflows.
constexpr std::int64_t kMostMs = std::int64_t{1} << 56U;
constexpr std::int64_t kMostPriority = std::int64_t{1} << 53U;

bool beyond(std::int64_t number, std::int64_t most) { return number > most || number < -most; }

// The option that is out of range, or empty.
std::string_view option_out_of_range(const WorkloadOptions& options) {
  const auto bad = [](const std::optional<Duration>& duration) {
    return duration.has_value() && (duration->count() < 0 || duration->count() > kMostMs);
  };
  return beyond(options.priority, kMostPriority) ? "priority"
         : bad(options.preemption_delay)         ? "preemption_delay"
         : bad(options.max_run)                  ? "max_run"
         : bad(options.wait_timeout)             ? "wait_timeout"
         : bad(options.confirm_within)           ? "confirm_within"
         : options.queued_at.has_value() && beyond(options.queued_at->ms(), kMostMs) ? "queued_at"
                                                                                     : "";
}

}  // namespace

void Engine::Impl::refuse(std::string text) {
  actions_.emplace_back(Notice{.kind = Notice::Kind::refused_event,
                               .device = DeviceId::none(),
                               .workload = WorkloadId::none(),
                               .bytes = 0,
                               .text = std::move(text)});
}

std::span<const Action> Engine::Impl::apply(const Event& event) {
  actions_.clear();
  for (const WorkloadId id : ended_) {
    at(id) = Entry();
    free_entries_.push_back(id);
  }
  ended_.clear();
  if (beyond(event.time.ms(), kMostMs)) {
    refuse(fmt::format("an event's time is {} ms; times lie within 2^56 ms of the origin",
                       event.time.ms()));
    return actions_;
  }
  if (!started_) {
    now = event.time;
    started_ = true;
  }
  now = std::max(now, event.time);
  grants_before_ = grants_made_;
  claim_steps_ = 0;
  if (quotas.counting() && quotas.tree.keeps_history()) {
    quotas.tree.sample(now);
  }
  while (const std::optional<Timer> timer = timers_.take_due(now)) {
    fire(*timer);
  }
  std::visit([this](const auto& body) { on(body); }, event.body);
  run_pass();
  // A workload may begin to wait when its deadline is over already.
  while (const std::optional<Timer> timer = timers_.take_due(now)) {
    fire(*timer);
    run_pass();
  }
  const std::optional<Time> next = timers_.next();
  if (next.has_value() && next != announced_wake_) {
    actions_.emplace_back(WakeAt{.time = *next});
  }
  announced_wake_ = next;
  return actions_;
}

void Engine::Impl::fire(const Timer& timer) {
  switch (timer.kind) {
    case TimerKind::confirm:
      at(timer.workload).confirm_by.reset();
      take_back(timer.workload, Cause::wait_timed_out, false, false);
      return;
    case TimerKind::wait:
      at(timer.workload).wait_until.reset();
      if (at(timer.workload).state == EntryState::waiting ||
          at(timer.workload).state == EntryState::promised) {
        end(timer.workload, Cause::wait_timed_out);
      }
      return;
    case TimerKind::releasing: {
      Entry& entry = at(timer.workload);
      entry.releasing_until.reset();
      const NodeId node = entry.grant->node;
      ledger.set_releasing(timer.workload, *entry.grant, false);
      entry.grant->state = GrantState::active;
      rebook_queue(timer.workload);
      if (!ledger.has_releasing(node)) {
        releasing_nodes_.erase(node);
      }
      improved(node);
      return;
    }
    case TimerKind::stale:
      gangs_.at(timer.workload).stale_at.reset();
      evict_stale(timer.workload);
      return;
    case TimerKind::start:
      gangs_.at(timer.workload).start_by.reset();
      start_failed(timer.workload);
      return;
    case TimerKind::back_off:
      gangs_.at(timer.workload).not_before.reset();
      if (waiting.contains(timer.workload)) {
        requeued_.insert(timer.workload);
      }
      return;
    case TimerKind::claims: claims_changed(); return;
    case TimerKind::rest: claims_dirty_ = true; return;
    case TimerKind::samples:
      samples_due_.reset();
      age_samples();
      return;
  }
}

void Engine::Impl::age_samples() {
  const std::optional<Time> next = ledger.age_samples(now);
  if (next == samples_due_) {
    return;
  }
  if (samples_due_.has_value()) {
    timers_.clear(
        {.due = *samples_due_, .kind = TimerKind::samples, .workload = WorkloadId::none()});
  }
  samples_due_ = next;
  if (next.has_value()) {
    timers_.set({.due = *next, .kind = TimerKind::samples, .workload = WorkloadId::none()});
  }
}

void Engine::Impl::on(const NodeUpserted& event) {
  const NodeId known = fleet.find_node(event.node.name);
  const bool same = !known.is_none() && fleet.present(known) && fleet.node(known) == event.node;
  Result<Fleet::Change> change = fleet.upsert(event.node);
  if (!change.ok()) {
    refuse(change.error().message());
    return;
  }
  const NodeId node = change->node;
  ledger.sync_node(node, now);
  types.sync(fleet, node);
  sync_domains(node);
  for (const DeviceId gone : change->removed) {
    ledger.forget_samples(gone);
    strangers_.erase(gone);
  }
  fleet_changed_ = true;  // from here on: who loses its place asks what the fleet could hold
  lose_devices(node, change->removed);
  index.fleet_changed();
  if (!same) {
    withdraw_promises(node);  // they were sized for what the node was
    reshaped_.insert(node);
  }
  improved(node);
}

void Engine::Impl::on(const NodeRemoved& event) {
  Result<Fleet::Change> change = fleet.remove(event.name);
  if (!change.ok()) {
    refuse(change.error().message());
    return;
  }
  ledger.sync_node(change->node, now);
  types.sync(fleet, change->node);
  sync_domains(change->node);
  for (const DeviceId gone : change->removed) {
    ledger.forget_samples(gone);
    strangers_.erase(gone);
  }
  fleet_changed_ = true;
  lose_devices(change->node, change->removed);
  index.fleet_changed();
}

void Engine::Impl::on(const DeviceCordoned& event) {
  const DeviceId device = fleet.find_device(event.uuid);
  if (device.is_none() || !fleet.present(device)) {
    refuse(fmt::format("device {} is not in the fleet; nothing was cordoned", event.uuid));
    return;
  }
  fleet.set_cordoned(device, event.cordoned);
  ledger.sync_device(device, now);
  settle_promises(fleet.node_of(device));
  improved(fleet.node_of(device));
}

void Engine::Impl::on(const DeviceObserved& event) {
  const DeviceId device = fleet.find_device(event.uuid);
  if (device.is_none() || !fleet.present(device)) {
    refuse(
        fmt::format("a sample of device {}, which is not in the fleet, was dropped", event.uuid));
    return;
  }
  Sample sample{.sampled_at = event.sampled_at,
                .used = std::nullopt,
                .attributed = event.attributed,
                .uses = {}};
  const auto notice = [&](Notice::Kind kind, WorkloadId workload, std::int64_t bytes) {
    actions_.emplace_back(
        Notice{.kind = kind, .device = device, .workload = workload, .bytes = bytes, .text = {}});
  };
  if (event.used.has_value() && event.used->in_bytes() >= 0 &&
      *event.used <= Memory::mib(kMaxMemoryMib)) {
    sample.used = event.used->in_bytes();
  }
  if (event.sampled_at > now) {
    notice(Notice::Kind::clock_skew, WorkloadId::none(), 0);
    sample.sampled_at = now;
  }
  sample.sampled_at = std::max(sample.sampled_at, Time(-kMostMs));
  const DeviceBook& before = ledger.book(device);
  if (before.observed && sample.sampled_at < before.sampled_at && !event.restated) {
    return;  // an older sample than the one in force: the newest wins
  }
  for (const DeviceObserved::Use& use : event.uses) {
    const WorkloadId id = id_of(use.uid);
    if (!id.is_none() && use.used.in_bytes() > 0) {
      sample.uses.push_back(
          {id, std::min(use.used.in_bytes(), Memory::mib(kMaxMemoryMib).in_bytes())});
    }
  }
  if (event.health.has_value()) {
    fleet.set_health(device, *event.health);
  }
  note_strangers(device, event);
  const SampleEffect effect = ledger.observe(device, sample, now);
  if (effect.foreign_before != effect.foreign_after) {
    notice(Notice::Kind::foreign_changed, WorkloadId::none(), effect.foreign_after);
  }
  for (const Sample::Use& use : effect.overuse) {
    notice(Notice::Kind::overuse, use.workload, use.bytes);
  }
  const DeviceBook& book = ledger.book(device);
  if (book.foreign + book.requests - book.releasing > book.usable && book.requests > 0) {
    notice(Notice::Kind::promise_at_risk, WorkloadId::none(),
           book.foreign + book.requests - book.releasing - book.usable);
  }
  age_samples();
  improved(fleet.node_of(device));
}

// Keeps who used the device without a grant on it: interfaces.md 6 has them named.
void Engine::Impl::note_strangers(DeviceId device, const DeviceObserved& event) {
  std::vector<Stranger> strangers;
  for (const DeviceObserved::Use& use : event.uses) {
    const WorkloadId id = id_of(use.uid);
    const bool holds =
        !id.is_none() && std::ranges::find(ledger.book(device).holdings, id, &Holding::workload) !=
                             ledger.book(device).holdings.end();
    if (event.attributed && !holds && use.used.in_bytes() > 0) {
      strangers.push_back({use.uid, use.used.in_bytes()});
    }
  }
  std::ranges::sort(strangers, [](const Stranger& a, const Stranger& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  if (strangers.empty()) {
    strangers_.erase(device);
  } else {
    strangers_[device] = std::move(strangers);
  }
}

void Engine::Impl::on(const WorkloadSubmitted& event) {
  const Workload& workload = event.workload;
  if (workload.uid().empty()) {
    refuse("a workload with an empty uid was submitted; every workload needs one");
    return;
  }
  if (workload.options().foreign) {
    refuse(fmt::format("workload {} is somebody else's; what others decided is adopted",
                       workload.uid()));
    return;
  }
  if (const std::string_view option = option_out_of_range(workload.options()); !option.empty()) {
    refuse(
        fmt::format("workload {}: {} is out of range; durations lie between 0 and 2^56 ms, "
                    "priorities within 2^53 of 0",
                    workload.uid(), option));
    return;
  }
  if (const auto& policy = workload.options().policy; policy.has_value()) {
    if (const auto made = make_policy(*policy, ClassCounts()); !made.ok()) {
      refuse(fmt::format("workload {}: {}", workload.uid(), made.error().message()));
      return;
    }
  }
  if (!id_of(workload.uid()).is_none()) {
    refuse(fmt::format("workload {} is known already; end it first or use another uid",
                       workload.uid()));
    return;
  }
  if (workload.gang() != nullptr) {
    submit_gang(workload);
    return;
  }
  const WorkloadId id = new_entry(workload);
  set_demand(id, wish_of(id));
  if (try_workload(id)) {
    return;
  }
  Entry& entry = at(id);
  if (entry.state == EntryState::free) {
    return;  // ended inside
  }
  if (entry.state == EntryState::waiting && entry.options.wait_timeout == Duration(0)) {
    end(id, Cause::wait_timed_out);
    return;
  }
  if (entry.state == EntryState::waiting) {
    enqueue(id);
  }
}

void Engine::Impl::on(const WorkloadCancelled& event) {
  const WorkloadId id = id_of(event.uid);
  if (id.is_none()) {
    refuse(fmt::format("workload {} is not known; nothing was cancelled", event.uid));
    return;
  }
  end(id, Cause::none);
}

namespace {

// Adds what a container takes of a device to its phases. Containers come in start order: an init
// container runs beside the sidecars that were started before it.
class AdoptedCharge {
 public:
  void add(ContainerKind kind, const DeviceShare& share, std::int64_t nano) {
    const bool init = kind == ContainerKind::init;
    const auto count = [&](Phase& phase, std::int64_t amount) {
      phase.starting = std::max(phase.starting, phase.beside + (init ? amount : 0));
      phase.running += init ? 0 : amount;
      phase.beside += kind == ContainerKind::sidecar ? amount : 0;
      phase.starting = std::max(phase.starting, phase.running);
    };
    count(request_, share.request_mib);
    count(limit_, share.limit_mib);
    count(nano_, nano);
  }

  void write(DeviceCharge& charge) const {
    charge.starting_mib = request_.starting;
    charge.running_mib = request_.running;
    charge.starting_limit_mib = limit_.starting;
    charge.running_limit_mib = limit_.running;
    charge.starting_nano = nano_.starting;
    charge.running_nano = nano_.running;
  }

 private:
  struct Phase {
    std::int64_t starting = 0;
    std::int64_t running = 0;
    std::int64_t beside = 0;  // sidecars so far
  };

  Phase request_, limit_, nano_;
};

}  // namespace

void Engine::Impl::on(const GrantAdopted& event) {
  const NodeId node = fleet.find_node(event.node);
  if (!id_of(event.workload.uid()).is_none() || node.is_none() || !fleet.present(node) ||
      !option_out_of_range(event.workload.options()).empty()) {
    refuse(
        fmt::format("workload {} cannot be adopted on node {}: the node is absent or the workload "
                    "is known already",
                    event.workload.uid(), event.node));
    return;
  }
  auto grant = std::make_unique<Grant>();
  std::map<DeviceId, DeviceCharge> charges;
  std::map<DeviceId, AdoptedCharge> phases;
  for (const GrantAdopted::Share& share : event.shares) {
    const DeviceId device = fleet.find_device(share.uuid);
    const auto& containers = event.workload.request().containers();
    if (device.is_none() || !fleet.present(device) || fleet.node_of(device) != node ||
        share.container >= containers.size() || share.request_mib < 0 ||
        share.request_mib > kMaxAskMib || share.limit_mib < share.request_mib ||
        share.limit_mib > kMaxAskMib) {
      refuse(
          fmt::format("workload {} cannot be adopted: device {} is not on node {}, or its sizes "
                      "({} / {} MiB, container {}) are out of range",
                      event.workload.uid(), share.uuid, event.node, share.request_mib,
                      share.limit_mib, share.container));
      return;
    }
    DeviceCharge& charge = charges[device];
    charge.device = device;
    const DeviceAsk& ask = containers[share.container].gpu;
    phases[device].add(
        containers[share.container].kind,
        {.device = device, .request_mib = share.request_mib, .limit_mib = share.limit_mib},
        ask.kind == AskKind::fraction ? ask.nano : 0);
    charge.exclusive = charge.exclusive || ask.is_exclusive();
    charge.mode = ask.mode;
    charge.compute_milli +=
        need_on(ask, fleet.device(device).usable_mib(), fleet.node(node).gpu_replicas, 0).compute;
    auto container =
        std::ranges::find(grant->containers, share.container, &ContainerGrant::container);
    if (container == grant->containers.end()) {
      grant->containers.push_back({.container = share.container, .shares = {}});
      container = std::prev(grant->containers.end());
    }
    container->shares.push_back(
        {.device = device, .request_mib = share.request_mib, .limit_mib = share.limit_mib});
  }
  const WorkloadId id = new_entry(event.workload);
  grant->number = ++grants_made_;
  grant->node = node;
  grant->state = event.confirmed ? GrantState::active : GrantState::granted;
  grant->adopted = true;
  grant->foreign = event.workload.options().foreign;
  grant->granted_at = now;
  grant->cpu = event.workload.request().cpu();
  grant->ram = event.workload.request().ram();
  for (auto& [device, charge] : charges) {
    phases[device].write(charge);
    grant->charges.push_back(charge);
    grant->starting = grant->starting || charge.starting_mib != charge.running_mib ||
                      charge.starting_limit_mib != charge.running_limit_mib ||
                      charge.starting_nano != charge.running_nano;
  }
  book_grant(id, std::move(grant));
  set_state(id, EntryState::granted, Cause::none);
  actions_.emplace_back(Granted{.workload = id, .grant = at(id).grant->number, .node = node});
}

void Engine::Impl::on(const PolicyChanged& event) {
  Result<std::unique_ptr<Policy>> policy = make_policy(event.spec, history_);
  if (!policy.ok()) {
    refuse(policy.error().message());
    return;
  }
  config.policy = event.spec;
  config.policy_seed = event.seed;
  rank_by(std::move(policy).value());
}

void Engine::Impl::on(const HistoryChanged& event) {
  ClassCounts history;
  for (const HistoryChanged::Class& known : event.classes) {
    WorkClass work{.cpu_milli = known.cpu_milli,
                   .memory_mib = known.memory_mib,
                   .gpu_milli = known.gpu_milli,
                   .num_gpu = known.num_gpu};
    for (std::size_t from = 0; from < known.gpu_spec.size();) {
      const std::size_t bar = std::min(known.gpu_spec.find('|', from), known.gpu_spec.size());
      if (bar > from) {
        work.models.push_back(known.gpu_spec.substr(from, bar - from));
      }
      from = bar + 1;
    }
    std::ranges::sort(work.models);
    history.add(std::move(work), known.count);
  }
  history_ = std::move(history);
  Result<std::unique_ptr<Policy>> policy = make_policy(config.policy, history_);
  ASSERT(policy.ok(), config.policy);
  rank_by(std::move(policy).value());
}

void Engine::Impl::on(const QueuesChanged& event) {
  displaced_for_.clear();
  queues_have_terms_ = std::ranges::any_of(event.config.queues, [](const QueueSpec& queue) {
    return !queue.policy.empty() || queue.device_cap.has_value();
  });
  report(quotas.configure(event.config, policy_problems(event.config)));
  quotas.tree.sample(now);
  reread_queues();
  drain_queues();
}

void Engine::Impl::on(const TimeReached&) {}

}  // namespace berth::core
