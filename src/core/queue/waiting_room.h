// WaitingRoom: the workloads that wait, their order, and which of them a change can help.
//
// Order: effective priority (base + one point per step of waiting, bounded) descending, then the
// time since when it waits, then uid. Aging orders workloads; it never justifies an eviction. Time
// is an input of every question. Workloads that ask for exactly the same are of one kind and share
// every answer; kinds that could stand in for each other's devices form a pool, and each pool has
// one head (queues-gangs-topology.md 4.4, 7). Thread-safety: none; owned by one engine.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "core/model/ids.h"

namespace berth::core {

struct KindTag;
struct PoolTag;
using KindId = Id<KindTag>;
using PoolId = Id<PoolTag>;

struct Aging {
  Duration step{600'000};
  std::int64_t max = 10;
};

// The least that a kind needs, and the most that a node offers, in the dimensions that wake by. A
// kind can use an offer only if no need exceeds it; the reverse need not hold.
struct Appetite {
  std::int64_t idle_devices = 0;  // whole devices
  std::int64_t device_bytes = 0;  // on one shared device
  std::int64_t nano = 0;          // of one shared device
  std::int64_t cpu = 0;           // millicores
  std::int64_t ram = 0;           // bytes

  bool within(const Appetite& offer) const {
    return idle_devices <= offer.idle_devices && device_bytes <= offer.device_bytes &&
           nano <= offer.nano && cpu <= offer.cpu && ram <= offer.ram;
  }

  bool operator==(const Appetite&) const = default;
};

struct Waiter {
  WorkloadId id;
  std::string uid;
  std::int64_t priority = 0;
  Time queued_at;
  KindId kind;
  PoolId pool;
  std::optional<Aging> aging = std::nullopt;  // of its queue; the same for all of a pool
  Appetite needs;                             // of the kind
};

class WaitingRoom {
 public:
  explicit WaitingRoom(Aging aging) : aging_(aging) {}

  void add(Waiter waiter);
  void remove(WorkloadId id);

  bool contains(WorkloadId id) const { return waiters_.contains(id); }

  std::size_t size() const { return waiters_.size(); }

  bool empty() const { return waiters_.empty(); }

  std::int64_t effective_priority(WorkloadId id, Time now) const;
  // Whether a is tried before b. Both wait.
  bool before(WorkloadId a, WorkloadId b, Time now) const;
  // None when nothing of the kind (in the pool) waits.
  WorkloadId first_of(KindId kind, Time now) const;
  WorkloadId head_of(PoolId pool, Time now) const;
  // Ascending; until one comes or goes.
  std::span<const KindId> kinds() const { return kind_list_; }
  // Pools in which somebody may come to be first by the mere passing of time.
  const std::set<PoolId>& mixed_pools() const { return mixed_pools_; }
  std::vector<PoolId> pools() const;
  std::size_t count_of(KindId kind) const;

  // All, in the order in which they are tried. Cost: sorting everybody.
  std::vector<WorkloadId> ordered(Time now) const;

  // Those of the same pool that are tried before it, in no particular order.
  std::vector<WorkloadId> ahead_of(WorkloadId id, Time now) const;

  // Kinds whose needs lie within the offer, ascending by id. Adds its own visits to `steps`.
  std::vector<KindId> helped_by(const Appetite& offer, std::int64_t& steps) const;

 private:
  struct Ticket {  // order inside one priority
    Time queued_at;
    std::string uid;
    WorkloadId id;
    auto operator<=>(const Ticket&) const = default;
  };

  using Line = std::map<std::int64_t, std::set<Ticket>, std::greater<>>;  // by base priority
  using BucketKey = std::array<std::uint8_t, 5>;

  struct Bucket {
    Appetite least;  // lower bound of every member
    std::vector<KindId> kinds;
    std::vector<Appetite> needs;
  };

  struct KindPage {
    Line line;
    Appetite needs;
    std::size_t count = 0;
  };

  static BucketKey key_of(const Appetite& appetite);
  void enlist(KindId kind, const Appetite& needs);
  void delist(KindId kind, const Appetite& needs);
  WorkloadId first_in(const Line& line, Time now) const;
  std::int64_t aged(const Waiter& waiter, Time now) const;

  Aging aging_;
  std::map<WorkloadId, Waiter> waiters_;
  std::map<KindId, KindPage> kinds_;
  std::vector<KindId> kind_list_;  // of kinds_
  std::map<PoolId, Line> pools_;
  std::set<PoolId> mixed_pools_;  // with several base priorities
  std::map<BucketKey, Bucket> buckets_;
};

}  // namespace berth::core
