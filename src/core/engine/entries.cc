// Workloads come, wait, hold and end.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"

namespace berth::core {

namespace {

// A missed member of a running gang comes before all other work of its queue.
constexpr std::int64_t kBeforeAll = std::int64_t{1} << 55U;

}  // namespace

WorkloadId Engine::Impl::id_of(std::string_view uid) const {
  const auto found = by_uid_.find(std::string(uid));
  return found == by_uid_.end() ? WorkloadId::none() : found->second;
}

const Entry* Engine::Impl::find(std::string_view uid) const {
  const WorkloadId id = id_of(uid);
  return id.is_none() ? nullptr : &entries_[id.index()];
}

WorkloadId Engine::Impl::new_entry(const Workload& workload) {
  WorkloadId id;
  if (free_entries_.empty()) {
    id = WorkloadId(entries_.size());
    entries_.emplace_back();
  } else {
    id = free_entries_.back();
    free_entries_.pop_back();
  }
  Entry& entry = at(id);
  entry = Entry();
  entry.uid = workload.uid();
  entry.options = workload.options();
  entry.preemptible = is_preemptible(entry.options);
  entry.leaf = quotas.counting() ? quotas.tree.place_of(entry.options.queue) : kRootQueue;
  entry.shape = shapes.acquire(workload.request(), terms_of(entry.options, entry.leaf));
  entry.pool = pool_of(shapes.at(entry.shape), entry.leaf);
  entry.queued_at = std::min(workload.options().queued_at.value_or(now), now);
  entry.since = now;
  entry.evaluated = now;
  entry.demanded = ++demands_;
  by_uid_.emplace(entry.uid, id);
  return id;
}

// The slot stays readable until the next apply(), so that a harbour can name what just ended.
void Engine::Impl::forget_entry(WorkloadId id) {
  Entry& entry = at(id);
  by_uid_.erase(entry.uid);
  displaced_for_.erase(id);
  release_shape(entry.shape);
  entry.state = EntryState::ended;
  ended_.push_back(id);
}

void Engine::Impl::set_state(WorkloadId id, EntryState state, Cause cause) {
  Entry& entry = at(id);
  const Outcome before = entry.state == EntryState::free ? Outcome::ended : entry.outcome();
  const Cause cause_before = entry.cause;
  entry.state = state;
  entry.cause = cause;
  const Outcome after = entry.outcome();
  if (before != after) {
    entry.since = after == Outcome::waiting ? entry.queued_at : now;
  }
  const bool told_apart = after == Outcome::waiting || after == Outcome::never;
  if (told_apart && (before != after || cause_before != cause)) {
    actions_.emplace_back(VerdictChanged{.workload = id, .outcome = after, .cause = cause});
  }
}

namespace {

std::string list_text(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) {
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : "|", item);
  }
  return text;
}

// What devices and nodes a shape may use, as a name that people read: workloads with the same name
// can stand in for each other.
std::string pool_name(const Shape& shape) {
  std::string name;
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const DeviceAsk& ask = shape.ask(i);
    const DeviceFilter& filter = ask.filter;
    const std::string kind = ask.kind == AskKind::mig ? "mig-" + ask.mig_profile : "gpu";
    std::string one = filter.models.empty() ? kind : list_text(filter.models);
    const auto mark = [&](std::string_view sign, const std::vector<std::string>& list) {
      if (!list.empty()) {
        one += sign;
        one += list_text(list);
      }
    };
    mark("~", filter.use_types);
    mark("!~", filter.avoid_types);
    mark("=", filter.use_uuids);
    mark("!=", filter.avoid_uuids);
    if (name.find(one) == std::string::npos) {
      name += name.empty() ? one : "+" + one;
    }
  }
  if (name.empty()) {
    name = "cpu";
  }
  const NodeConstraints& nodes = shape.request.nodes();
  if (!nodes.names.empty()) {
    name += "@" + list_text(nodes.names);
  }
  for (const LabelRule& rule : nodes.labels) {
    fmt::format_to(std::back_inserter(name), "@{}:{}:{}", rule.key, static_cast<int>(rule.op),
                   list_text(rule.values));
  }
  return name;
}

}  // namespace

PoolId Engine::Impl::pool_of(const Shape& shape, QueueId leaf) {
  if (pools_of_shapes_.size() <= shape.id.index()) {
    pools_of_shapes_.resize(shape.id.index() + 1);
  }
  ShapePool& last = pools_of_shapes_[shape.id.index()];  // a name takes longer to make
  if (last.known && last.leaf == leaf) {
    return last.pool;
  }
  std::string name = pool_name(shape);
  const auto [found, fresh] =
      pools_by_key_.try_emplace(std::pair(leaf, name), PoolId(pool_names_.size()));
  if (fresh) {
    pool_names_.push_back(std::move(name));
  }
  last = {.leaf = leaf, .pool = found->second, .known = true};
  return found->second;
}

Appetite Engine::Impl::needs_of(const Shape& shape) const {
  Appetite needs{.cpu = shape.cpu, .ram = shape.ram};
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const DeviceAsk& ask = shape.ask(i);
    if (ask.is_exclusive()) {
      needs.idle_devices = std::max<std::int64_t>(needs.idle_devices, ask.count);
    } else if (ask.kind == AskKind::memory) {
      needs.device_bytes = std::max(needs.device_bytes, Memory::mib(ask.mib).in_bytes());
    } else if (ask.kind == AskKind::fraction) {
      needs.nano = std::max(needs.nano, ask.nano);
    }
  }
  return needs;
}

// What a node must offer at least to help some member.
Appetite Engine::Impl::needs_of_gang(WorkloadId head) const {
  std::optional<Appetite> least;
  for_members(head, [&](WorkloadId member) {
    const Appetite needs = needs_of(shapes.at(entry(member).shape));
    least = !least.has_value()
                ? needs
                : Appetite{.idle_devices = std::min(least->idle_devices, needs.idle_devices),
                           .device_bytes = std::min(least->device_bytes, needs.device_bytes),
                           .nano = std::min(least->nano, needs.nano),
                           .cpu = std::min(least->cpu, needs.cpu),
                           .ram = std::min(least->ram, needs.ram)};
  });
  return least.value_or(Appetite());
}

KindKey Engine::Impl::kind_key(WorkloadId id) const {
  const Entry& entry = entries_[id.index()];
  KindKey key{.shape = entry.shape};
  key.run = entry.options.max_run.has_value() ? entry.options.max_run->count() : key.run;
  key.gang = entry.gang;
  if (is_member(id)) {
    key.group = entry.group;
    const std::vector<SegmentRule>& segments =
        gangs_.at(entry.gang).nodes[entry.group].topology.segments;
    key.segment = segments.empty() ? 0 : entry.seat / segments.back().size;
  }
  if (quotas.active()) {
    key.queue = entry.leaf;
    key.preemptible = entry.preemptible;
    key.backfill = entry.options.backfill;
    key.priority = entry.options.priority;
    key.preemption_delay = entry.options.preemption_delay.count();
  }
  return key;
}

void Engine::Impl::enqueue(WorkloadId id) {
  Entry& entry = at(id);
  const Shape& shape = shapes.at(entry.shape);
  entry.kind = kinds.of(kind_key(id));
  claims_of(entry.kind).known = false;  // its first may be another
  note_blocked(id);
  waiting.add({.id = id,
               .uid = entry.uid,
               .priority = entry.options.priority + (is_missed(id) ? kBeforeAll : 0),
               .queued_at = entry.queued_at,
               .kind = entry.kind,
               .pool = entry.pool,
               .aging = aging_of(entry),
               .needs = is_head(id) ? needs_of_gang(id) : needs_of(shape)});
  if (!is_head(id)) {
    set_demand(id, wish_of(id));
  }
  touched_pools_.insert(entry.pool);
  set_wait_timer(id);
}

void Engine::Impl::dequeue(WorkloadId id) {
  Entry& entry = at(id);
  waiting.remove(id);
  if (is_head(id) && gangs_.contains(id)) {
    failed_gangs_.erase(gang_wish(id));
  }
  requeued_.erase(id);
  claims_of(entry.kind).known = false;
  if (waiting.count_of(entry.kind) == 0) {
    kinds.forget(entry.kind);
    quota_waits_.erase(entry.kind);
    claims_of(entry.kind).failed.reset();
  }
  touched_pools_.insert(entry.pool);
  clear_wait_timer(id);
}

void Engine::Impl::clear_wait_timer(WorkloadId id) {
  Entry& entry = at(id);
  if (entry.wait_until.has_value()) {
    timers_.clear({.due = *entry.wait_until, .kind = TimerKind::wait, .workload = id});
    entry.wait_until.reset();
  }
}

void Engine::Impl::set_wait_timer(WorkloadId id) {
  Entry& entry = at(id);
  if (entry.options.wait_timeout.has_value()) {
    entry.wait_until = entry.queued_at + *entry.options.wait_timeout;
    timers_.set({.due = *entry.wait_until, .kind = TimerKind::wait, .workload = id});
  }
}

void Engine::Impl::book_grant(WorkloadId id, std::unique_ptr<Grant> grant) {
  Transaction transaction(ledger);
  transaction.book(id, *grant);
  const NodeId node = grant->node;
  book_queue(id, *grant);
  if (at(id).held_for.is_none()) {  // who moves is demanded once
    set_demand(id, at(id).charge);
  }
  at(id).grant = std::move(grant);
  if (on_node_.size() <= node.index()) {
    on_node_.resize(fleet.node_slots());
  }
  on_node_[node.index()].push_back(id);
  transaction.commit();
}

void Engine::Impl::drop_grant(WorkloadId id) {
  Entry& entry = at(id);
  ASSERT(entry.holds(), id.value());
  const NodeId node = entry.grant->node;
  ledger.unbook(id, *entry.grant);
  unbook_queue(id);
  std::erase(on_node_[node.index()], id);
  if (entry.confirm_by.has_value()) {
    timers_.clear({.due = *entry.confirm_by, .kind = TimerKind::confirm, .workload = id});
    entry.confirm_by.reset();
  }
  if (entry.releasing_until.has_value()) {
    timers_.clear({.due = *entry.releasing_until, .kind = TimerKind::releasing, .workload = id});
    entry.releasing_until.reset();
  }
  if (!ledger.has_releasing(node)) {
    releasing_nodes_.erase(node);
  }
  promised_.erase(id);
  entry.grant.reset();
  entry.slot = entry.evicting = entry.leaving = false;
  if (is_member(id)) {
    touched_gangs_.insert(entry.gang);
  }
  improved(node);
}

void Engine::Impl::end(WorkloadId id, Cause why) {
  if (is_head(id)) {
    end_gang(id, why);
  }
  Entry& entry = at(id);
  if (entry.holds()) {
    drop_grant(id);
  }
  if (waiting.contains(id)) {
    dequeue(id);
  }
  clear_wait_timer(id);
  never_.erase(id);
  take_hold(id, false);
  set_demand(id, {});
  if (is_member(id)) {
    leave_gang(id, false);
  }
  actions_.emplace_back(Ended{.workload = id, .why = why});
  forget_entry(id);
}

// Takes a grant or promise back; the workload waits again with its age, or ends.
void Engine::Impl::take_back(WorkloadId id, Cause why, bool lost, bool requeue) {
  if (!at(id).held_for.is_none()) {
    take_hold(at(id).held_for, false);  // nobody's workload: who moves waits again when it is gone
    return;
  }
  const std::uint64_t number = at(id).grant->number;
  drop_grant(id);
  actions_.emplace_back(Retracted{.workload = id, .grant = number, .why = why, .lost = lost});
  if (!requeue) {
    end(id, why);
    return;
  }
  if (!at(id).hold.is_none() && !granting_held_) {
    take_hold(id, true);
    return;
  }
  if (waits_with_gang(id)) {
    take_hold(id, false);
    set_demand(id, wish_of(id));
    set_state(id, EntryState::parked, Cause::gang_incomplete);
    return;
  }
  const Cause never = never_cause(id);
  if (never != Cause::none) {
    give_up(id, never);
    return;
  }
  // The pass tries it at once and says why it waits, so nothing is said here.
  Entry& entry = at(id);
  entry.state = EntryState::waiting;
  entry.cause = Cause::none;
  entry.since = entry.queued_at;
  enqueue(id);
  requeued_.insert(id);
}

// Devices went away: what ran on them is lost.
void Engine::Impl::lose_devices(NodeId node, const std::vector<DeviceId>& devices) {
  if (node.index() >= on_node_.size()) {
    return;
  }
  const std::vector<WorkloadId> holders = on_node_[node.index()];
  for (const WorkloadId id : holders) {
    if (!at(id).holds() || at(id).grant->node != node) {
      continue;  // it went with one before it
    }
    const Grant& grant = *at(id).grant;
    const bool hit =
        !fleet.present(node) || std::ranges::any_of(grant.charges, [&](const DeviceCharge& charge) {
          return std::ranges::find(devices, charge.device) != devices.end();
        });
    if (hit) {
      const bool was_promise = at(id).state == EntryState::promised;
      take_back(id, Cause::device_unhealthy, !was_promise, was_promise);
    }
  }
}

}  // namespace berth::core
