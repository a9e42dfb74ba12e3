// LeaderLease: one of several schedulers leads, and none writes after its time (kubernetes-api.md
// 7).
//
//   LeaderLease lease(client, client.timers(), client.chance(), options, listener);
//   lease.start();
//   if (lease.may_write()) …        // asked before every write: the fence
//
// Invariants:
//  1. may_write() is false from `fence` after the last renewal that succeeded was sent, by the
//     machine's clock, whatever has happened to this process meanwhile.
//  2. A follower judges by how long the record has not changed before its own eyes, never by times
//     that stand in the record, and acts at the end of the lease's duration.
//  3. on_lost() comes at most once and ends it: the process must exit.
// Thread-safety: the client's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "kube/client/call.h"
#include "kube/client/clock.h"

namespace berth::kube {

struct LeaseOptions {
  std::string namespace_name = {};
  std::string name = {};
  std::string identity = {};  // of this process alone: with a random part
  Duration duration{15'000};
  Duration fence{10'000};  // the renew deadline
  Duration retry{2'000};
};

class LeaseListener {
 public:
  virtual ~LeaseListener() = default;
  virtual void on_leading() = 0;
  virtual void on_lost(std::string_view why) = 0;
  // Another one leads; empty: nobody does.
  virtual void on_leader(std::string_view identity) = 0;
  virtual void on_trouble(std::string_view what) = 0;
};

class LeaderLease {
 public:
  LeaderLease(Caller& caller, Timers& timers, Chance& chance, LeaseOptions options,
              LeaseListener& listener);
  ~LeaderLease();
  LeaderLease(const LeaderLease&) = delete;
  LeaderLease& operator=(const LeaderLease&) = delete;

  void start();
  bool leads() const;
  bool may_write() const;
  // Gives the lease back if it is ours; `done` when it is, or could not be.
  void release(Task done);
  const std::string& holder() const;
  std::uint64_t renewals() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::kube
