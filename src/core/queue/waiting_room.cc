#include "core/queue/waiting_room.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/assert.h"

namespace berth::core {

namespace {

std::uint8_t magnitude(std::int64_t amount) {
  return static_cast<std::uint8_t>(
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(amount, 0))));
}

}  // namespace

WaitingRoom::BucketKey WaitingRoom::key_of(const Appetite& appetite) {
  return {static_cast<std::uint8_t>(std::min<std::int64_t>(appetite.idle_devices, 255)),
          magnitude(appetite.device_bytes), magnitude(appetite.nano), magnitude(appetite.cpu),
          magnitude(appetite.ram)};
}

void WaitingRoom::enlist(KindId kind, const Appetite& needs) {
  Bucket& bucket = buckets_[key_of(needs)];
  if (bucket.kinds.empty()) {
    bucket.least = needs;
  }
  bucket.least = {.idle_devices = std::min(bucket.least.idle_devices, needs.idle_devices),
                  .device_bytes = std::min(bucket.least.device_bytes, needs.device_bytes),
                  .nano = std::min(bucket.least.nano, needs.nano),
                  .cpu = std::min(bucket.least.cpu, needs.cpu),
                  .ram = std::min(bucket.least.ram, needs.ram)};
  bucket.kinds.push_back(kind);
  bucket.needs.push_back(needs);
}

void WaitingRoom::delist(KindId kind, const Appetite& needs) {
  const auto found = buckets_.find(key_of(needs));
  ASSERT(found != buckets_.end(), kind.value());
  Bucket& bucket = found->second;
  const auto at = std::ranges::find(bucket.kinds, kind);
  ASSERT(at != bucket.kinds.end(), kind.value());
  const auto index = at - bucket.kinds.begin();
  bucket.kinds[static_cast<std::size_t>(index)] = bucket.kinds.back();
  bucket.needs[static_cast<std::size_t>(index)] = bucket.needs.back();
  bucket.kinds.pop_back();
  bucket.needs.pop_back();
  if (bucket.kinds.empty()) {
    buckets_.erase(found);
  }
}

void WaitingRoom::add(Waiter waiter) {
  ASSERT(!waiters_.contains(waiter.id), waiter.id.value());
  const Ticket ticket{.queued_at = waiter.queued_at, .uid = waiter.uid, .id = waiter.id};
  KindPage& kind = kinds_[waiter.kind];
  if (kind.count++ == 0) {
    kind.needs = waiter.needs;
    enlist(waiter.kind, waiter.needs);
    kind_list_.insert(std::ranges::lower_bound(kind_list_, waiter.kind), waiter.kind);
  }
  kind.line[waiter.priority].insert(ticket);
  Line& pool = pools_[waiter.pool];
  pool[waiter.priority].insert(ticket);
  if (pool.size() > 1) {
    mixed_pools_.insert(waiter.pool);
  }
  waiters_.emplace(waiter.id, std::move(waiter));
}

void WaitingRoom::remove(WorkloadId id) {
  const auto found = waiters_.find(id);
  ASSERT(found != waiters_.end(), id.value());
  const Waiter& waiter = found->second;
  const Ticket ticket{.queued_at = waiter.queued_at, .uid = waiter.uid, .id = id};
  const auto take_out = [&](Line& line) {
    const auto bucket = line.find(waiter.priority);
    bucket->second.erase(ticket);
    if (bucket->second.empty()) {
      line.erase(bucket);
    }
    return line.empty();
  };
  KindPage& kind = kinds_[waiter.kind];
  take_out(kind.line);
  if (--kind.count == 0) {
    delist(waiter.kind, kind.needs);
    kinds_.erase(waiter.kind);
    kind_list_.erase(std::ranges::lower_bound(kind_list_, waiter.kind));
  }
  Line& pool = pools_[waiter.pool];
  const bool was_mixed = pool.size() > 1;
  const bool empty = take_out(pool);
  if (was_mixed && pool.size() <= 1) {
    mixed_pools_.erase(waiter.pool);
  }
  if (empty) {
    pools_.erase(waiter.pool);
  }
  waiters_.erase(found);
}

std::int64_t WaitingRoom::aged(const Waiter& waiter, Time now) const {
  const Aging& aging = waiter.aging.has_value() ? *waiter.aging : aging_;
  const std::int64_t waited = std::max<std::int64_t>(0, (now - waiter.queued_at).count());
  const std::int64_t points = aging.step.count() > 0 ? waited / aging.step.count() : 0;
  return waiter.priority + std::min(points, aging.max);
}

std::int64_t WaitingRoom::effective_priority(WorkloadId id, Time now) const {
  return aged(waiters_.at(id), now);
}

bool WaitingRoom::before(WorkloadId a, WorkloadId b, Time now) const {
  const Waiter& left = waiters_.at(a);
  const Waiter& right = waiters_.at(b);
  const std::int64_t left_priority = aged(left, now);
  const std::int64_t right_priority = aged(right, now);
  if (left_priority != right_priority) {
    return left_priority > right_priority;
  }
  if (left.queued_at != right.queued_at) {
    return left.queued_at < right.queued_at;
  }
  return left.uid < right.uid;
}

// Inside one base priority the oldest is also the most aged, so the fronts are enough.
WorkloadId WaitingRoom::first_in(const Line& line, Time now) const {
  WorkloadId best;
  for (const auto& [priority, tickets] : line) {
    const WorkloadId front = tickets.begin()->id;
    if (best.is_none() || before(front, best, now)) {
      best = front;
    }
  }
  return best;
}

WorkloadId WaitingRoom::first_of(KindId kind, Time now) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? WorkloadId::none() : first_in(found->second.line, now);
}

WorkloadId WaitingRoom::head_of(PoolId pool, Time now) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? WorkloadId::none() : first_in(found->second, now);
}

std::vector<PoolId> WaitingRoom::pools() const {
  std::vector<PoolId> all;
  for (const auto& [pool, line] : pools_) {
    all.push_back(pool);
  }
  return all;
}

std::size_t WaitingRoom::count_of(KindId kind) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0 : found->second.count;
}

std::vector<WorkloadId> WaitingRoom::ordered(Time now) const {
  std::vector<WorkloadId> all;
  all.reserve(waiters_.size());
  for (const auto& [id, waiter] : waiters_) {
    all.push_back(id);
  }
  std::ranges::sort(all, [&](WorkloadId a, WorkloadId b) { return before(a, b, now); });
  return all;
}

std::vector<WorkloadId> WaitingRoom::ahead_of(WorkloadId id, Time now) const {
  std::vector<WorkloadId> ahead;
  for (const auto& [priority, tickets] : pools_.at(waiters_.at(id).pool)) {
    // Inside one base priority the line is in order, so the first that is not before ends it.
    for (const Ticket& ticket : tickets) {
      if (ticket.id == id || !before(ticket.id, id, now)) {
        break;
      }
      ahead.push_back(ticket.id);
    }
  }
  return ahead;
}

std::vector<KindId> WaitingRoom::helped_by(const Appetite& offer, std::int64_t& steps) const {
  std::vector<KindId> helped;
  const BucketKey most = key_of(offer);
  for (auto at = buckets_.begin(); at != buckets_.end();) {
    const auto& [key, bucket] = *at;
    if (key[0] > most[0]) {
      break;
    }
    if (key[1] > most[1]) {
      // No bucket of this count of devices needs less of a device than this one.
      at = buckets_.upper_bound({key[0], 255, 255, 255, 255});
      continue;
    }
    ++steps;
    if (bucket.least.within(offer)) {
      for (std::size_t i = 0; i < bucket.kinds.size(); ++i) {
        ++steps;
        if (bucket.needs[i].within(offer)) {
          helped.push_back(bucket.kinds[i]);
        }
      }
    }
    ++at;
  }
  std::ranges::sort(helped);
  return helped;
}

}  // namespace berth::core
