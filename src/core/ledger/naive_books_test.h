// NaiveBooks: the ledger's rules written down a second time, with nothing kept but what happened:
// the live grants and what was last seen on each device. Every answer is computed from those alone.
//
// Sources: design.md 4, leases.md 4, annotations.md 4.1 (L1-L8, L13, L15), interfaces.md 6.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "core/ledger/ledger.h"
#include "core/model/fleet.h"
#include "core/model/workload.h"

namespace berth::core {

class NaiveBooks {
 public:
  struct Live {
    WorkloadId workload;
    Grant grant;
    std::map<DeviceId, std::int64_t> measured;  // by the samples in force
  };

  NaiveBooks(const Fleet& fleet, LedgerRules rules) : fleet_(fleet), rules_(rules) {}

  // --- what happened
  void book(WorkloadId workload, const Grant& grant) {
    live_.push_back({workload, grant, {}});
    settle();
  }

  void unbook(WorkloadId workload) {
    std::erase_if(live_, [&](const Live& live) { return live.workload == workload; });
    settle();
  }

  void initialized(WorkloadId workload) {
    find(workload)->grant.starting = false;
    settle();
  }

  void set_state(WorkloadId workload, GrantState state) {
    find(workload)->grant.state = state;
    settle();
  }

  void observe(DeviceId device, const Sample& sample) {
    Seen& seen = seen_[device];
    seen.sample = sample;
    missed_.erase(device);
    if (sample.used.has_value() && !sample.attributed) {
      seen.totals.push_back(*sample.used);
    }
    for (Live& live : live_) {
      live.measured.erase(device);
      for (const Sample::Use& use : sample.uses) {
        if (sample.attributed && live.grant.state != GrantState::promised &&
            use.workload == live.workload) {
          live.measured[device] += use.bytes;
        }
      }
    }
    settle();
  }

  void forget(DeviceId device) {
    const auto seen = seen_.find(device);
    if (seen != seen_.end() && seen->second.sample.has_value()) {
      missed_.insert(device);
    }
    seen_.erase(device);
    for (Live& live : live_) {
      live.measured.erase(device);
    }
  }

  // Promises with a higher number count for nothing from now on; ~0 = all count again.
  void hide_promises_after(std::uint64_t number) { last_promise_ = number; }

  // --- what follows
  std::optional<Time> last_sample(DeviceId device) const {
    const auto found = seen_.find(device);
    return found == seen_.end() || !found->second.sample.has_value()
               ? std::nullopt
               : std::optional(found->second.sample->sampled_at);
  }
  const std::vector<Live>& live() const { return live_; }

  Live* find(WorkloadId workload) {
    const auto found = std::ranges::find(live_, workload, &Live::workload);
    return found == live_.end() ? nullptr : &*found;
  }

  std::int64_t usable(DeviceId device) const {
    return fleet_.device(device).usable_mib() * Memory::kBytesPerMib;
  }

  std::int64_t foreign(DeviceId device) const;

  std::int64_t requests(DeviceId device) const {
    return sum(device, false, [](const DeviceCharge& charge, const Live& live) {
      return request_of(charge, live);
    });
  }

  // As it is, or as it will be without what is being released.
  DeviceFace face(DeviceId device, Time now, bool future) const;
  Cause blocked(DeviceId device, Time now) const;
  // Free cpu, ram and slots.
  NodeFuture node(NodeId node, bool future) const;

  // The first figure in which the ledger differs.
  Result<void> compare(const Ledger& ledger, Time now) const;

 private:
  struct Seen {
    std::optional<Sample> sample;      // in force
    std::int64_t unexplained = 0;      // when it was last certain: by process, or nothing granted
    std::vector<std::int64_t> totals;  // device totals seen since
  };

  static std::int64_t request_of(const DeviceCharge& charge, const Live& live) {
    return Memory::mib(live.grant.starting ? charge.starting_mib : charge.running_mib).in_bytes();
  }

  static std::int64_t measured_of(DeviceId device, const Live& live) {
    const auto found = live.measured.find(device);
    return found == live.measured.end() ? 0 : found->second;
  }

  bool hidden(const Live& live) const {
    return live.grant.state == GrantState::promised && live.grant.number > last_promise_;
  }
  // A promise does not run yet.
  bool nothing_granted(DeviceId device) const {
    return std::ranges::all_of(holders(device, false), [](const Holder& holder) {
      return holder.live->grant.state == GrantState::promised;
    });
  }

  struct Holder {
    const DeviceCharge* charge;
    const Live* live;
  };

  std::vector<Holder> holders(DeviceId device, bool future) const {
    std::vector<Holder> found;
    for (const Live& live : live_) {
      if (hidden(live)) {
        continue;
      }
      const bool gone = future && live.grant.state == GrantState::releasing;
      for (const DeviceCharge& charge : live.grant.charges) {
        if (charge.device == device && !gone) {
          found.push_back({&charge, &live});
        }
      }
    }
    return found;
  }

  template <class Figure>
  std::int64_t sum(DeviceId device, bool future, Figure figure) const {
    std::int64_t total = 0;
    for (const Holder& holder : holders(device, future)) {
      total += figure(*holder.charge, *holder.live);
    }
    return total;
  }

  // Where what no grant explains is certain now, remembers it.
  void settle() {
    for (auto& [device, seen] : seen_) {
      if (seen.sample.has_value() && seen.sample->used.has_value() &&
          (seen.sample->attributed || nothing_granted(device))) {
        seen.unexplained = certain_foreign(device, *seen.sample);
        seen.totals.clear();
      }
    }
  }

  std::int64_t certain_foreign(DeviceId device, const Sample& sample) const {
    const std::int64_t explained = sum(device, false, [&](const DeviceCharge&, const Live& live) {
      return measured_of(device, live);
    });
    return std::max<std::int64_t>(0, *sample.used - explained);
  }

  const Fleet& fleet_;
  LedgerRules rules_;
  std::vector<Live> live_;
  std::map<DeviceId, Seen> seen_;
  std::set<DeviceId> missed_;  // seen before they went away and not since (leases.md B36)
  std::uint64_t last_promise_ = ~std::uint64_t{0};
};

inline std::int64_t NaiveBooks::foreign(DeviceId device) const {
  const auto found = seen_.find(device);
  if (found == seen_.end() || !found->second.sample.has_value() ||
      !found->second.sample->used.has_value()) {
    return 0;
  }
  const Seen& seen = found->second;
  if (seen.sample->attributed || nothing_granted(device)) {
    return certain_foreign(device, *seen.sample);
  }
  std::int64_t floor = seen.unexplained;
  for (const std::int64_t total : seen.totals) {
    floor = std::min(floor, total);
  }
  // committed = floor + max(sum of claims, used - floor), of which the claims are not foreign.
  const std::int64_t claims = sum(device, false, [](const DeviceCharge& charge, const Live& live) {
    return live.grant.state == GrantState::promised ? 0 : request_of(charge, live);
  });
  return floor + std::max(claims, *seen.sample->used - floor) - claims;
}

inline Cause NaiveBooks::blocked(DeviceId id, Time now) const {
  const Device& device = fleet_.device(id);
  const auto found = seen_.find(id);
  const bool sampled = found != seen_.end() && found->second.sample.has_value();
  if (usable(id) == 0) {
    return Cause::no_usable_memory;
  }
  if (device.mig_enabled) {
    return Cause::resource_kind_mismatch;
  }
  if (device.health != DeviceHealth::ok) {
    return Cause::device_unhealthy;
  }
  if (device.cordoned) {
    return Cause::device_cordoned;
  }
  if (sampled && !found->second.sample->used.has_value()) {
    return Cause::no_usable_memory;
  }
  if (missed_.contains(id)) {
    return Cause::stale_observation;
  }
  if (rules_.max_sample_age.has_value() &&
      !(sampled && now <= found->second.sample->sampled_at + *rules_.max_sample_age)) {
    return Cause::stale_observation;
  }
  return Cause::none;
}

inline DeviceFace NaiveBooks::face(DeviceId id, Time now, bool future) const {
  const auto rest = [&](std::int64_t most, auto figure) {
    return std::max<std::int64_t>(0, most - sum(id, future, figure));
  };
  DeviceFace face;
  face.usable = usable(id);
  face.headroom =
      rest(face.usable - foreign(id), [&](const DeviceCharge& charge, const Live& live) {
        return std::max(request_of(charge, live), measured_of(id, live));
      });
  face.limit_room = rest(face.usable * rules_.limit_overcommit_percent / 100,
                         [](const DeviceCharge& charge, const Live& live) {
                           return Memory::mib(live.grant.starting ? charge.starting_limit_mib
                                                                  : charge.running_limit_mib)
                               .in_bytes();
                         });
  face.nano_left = static_cast<std::int32_t>(
      rest(kWholeNano.count(), [](const DeviceCharge& charge, const Live& live) {
        return live.grant.starting ? charge.starting_nano : charge.running_nano;
      }));
  face.compute_left = static_cast<std::int16_t>(
      rest(1000, [](const DeviceCharge& charge, const Live&) { return charge.compute_milli; }));
  const std::vector<Holder> here = holders(id, future);
  face.grants = static_cast<std::int16_t>(here.size());
  face.mode = here.empty() ? SharingMode::time_slicing : here.front().charge->mode;
  for (const Holder& holder : here) {
    face.closed = face.closed || holder.charge->mode != face.mode ||
                  (holder.live->grant.state == GrantState::promised && holder.charge->mutex);
    if (face.use != DeviceUse::whole) {
      face.use = holder.charge->exclusive ? DeviceUse::whole : DeviceUse::shared;
    }
  }
  face.blocked = blocked(id, now);
  const std::int64_t tolerated =
      rules_.whole_foreign_max
          .value_or(Memory::bytes(
              std::max(Memory::mib(512).in_bytes(),
                       fleet_.device(id).total.value_or(Memory()).in_bytes() * 2 / 100)))
          .in_bytes();
  face.idle =
      face.blocked == Cause::none && here.empty() && face.headroom > 0 && foreign(id) <= tolerated;
  return face;
}

inline NodeFuture NaiveBooks::node(NodeId id, bool future) const {
  const Node& node = fleet_.node(id);
  NodeFuture free{.cpu = node.cpu.count(), .ram = node.ram.in_bytes(), .slots = node.pod_slots};
  for (const Live& live : live_) {
    const bool gone = future && live.grant.state == GrantState::releasing;
    if (live.grant.node == id && !hidden(live) && !gone) {
      free.cpu -= live.grant.cpu.count();
      free.ram -= live.grant.ram.in_bytes();
      --free.slots;
    }
  }
  return free;
}

inline Result<void> NaiveBooks::compare(const Ledger& ledger, Time now) const {
  const auto same = [](std::string_view what, std::string_view where, auto kept,
                       auto expected) -> Result<void> {
    if (kept == expected) {
      return success();
    }
    return Error(ErrorCode::internal,
                 fmt::format("{} of {}: the ledger says {}, it should be {}", what, where,
                             static_cast<std::int64_t>(kept), static_cast<std::int64_t>(expected)));
  };
  const auto same_face = [&](const std::string& where, const DeviceFace& kept,
                             const DeviceFace& expected) -> Result<void> {
    TRY_VOID(same("usable", where, kept.usable, expected.usable));
    TRY_VOID(same("headroom", where, kept.headroom, expected.headroom));
    TRY_VOID(same("limit room", where, kept.limit_room, expected.limit_room));
    TRY_VOID(same("nano left", where, kept.nano_left, expected.nano_left));
    TRY_VOID(same("compute left", where, kept.compute_left, expected.compute_left));
    TRY_VOID(same("grants", where, kept.grants, expected.grants));
    TRY_VOID(same("use", where, kept.use, expected.use));
    TRY_VOID(same("blocked", where, kept.blocked, expected.blocked));
    TRY_VOID(same("idle", where, kept.idle, expected.idle));
    if (kept.use == DeviceUse::shared) {
      TRY_VOID(same("mode", where, kept.mode, expected.mode));
    }
    return success();
  };
  for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
    const NodeId id(i);
    const std::string& name = fleet_.node(id).name;
    const NodeFuture free = node(id, false);
    TRY_VOID(same("cpu", name, ledger.node(id).cpu_free, free.cpu));
    TRY_VOID(same("ram", name, ledger.node(id).ram_free, free.ram));
    TRY_VOID(same("slots", name, ledger.node(id).slots_free, free.slots));
    const NodeFuture later = node(id, true);
    TRY_VOID(same("future cpu", name, ledger.future(id).cpu, later.cpu));
    TRY_VOID(same("future ram", name, ledger.future(id).ram, later.ram));
    TRY_VOID(same("future slots", name, ledger.future(id).slots, later.slots));
    for (const DeviceId device : fleet_.devices_of(id)) {
      const std::string& uuid = fleet_.uuid(device);
      TRY_VOID(same("foreign", uuid, ledger.book(device).foreign, foreign(device)));
      TRY_VOID(same("requests", uuid, ledger.book(device).requests, requests(device)));
      TRY_VOID(
          same_face(uuid, ledger.faces(id)[fleet_.place_of(device)], face(device, now, false)));
      TRY_VOID(same_face(uuid + " later", ledger.future_face(device), face(device, now, true)));
    }
  }
  return success();
}

}  // namespace berth::core
