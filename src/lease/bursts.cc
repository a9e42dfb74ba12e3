// Use between request and limit: lent room, which a waiting claim takes back.
#include <algorithm>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "lease/service.h"

namespace berth::lease {

std::vector<Service::Burst> Service::bursts_on(core::DeviceId device) const {
  std::vector<Burst> bursts;
  for (const core::Holding& holding : engine_->ledger().book(device).holdings) {
    const Lease* lease = find(engine_->uid(holding.workload));
    if (lease != nullptr && holding.measured > holding.request) {
      bursts.push_back({lease->number, holding.measured - holding.request});
    }
  }
  std::ranges::stable_sort(bursts, std::greater(), &Burst::over);
  return bursts;
}

// It has no room there, and would if nobody used more than was asked for.
bool Service::would_fit_without(const Lease& lease, core::DeviceId device) const {
  const core::DeviceAsk& gpu = lease.ask.gpu();
  if (lease.state != State::waiting || lease.reason != Reason::no_room || !gpu.is_share()) {
    return false;
  }
  const core::Device& described = engine_->fleet().device(device);
  const auto named = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
  };
  if (!named(gpu.filter.use_uuids, described.uuid) || !named(gpu.filter.models, described.model) ||
      !named(lease.ask.request.nodes().names,
             engine_->fleet().node(engine_->fleet().node_of(device)).name)) {
    return false;
  }
  const core::DeviceBook& book = engine_->ledger().book(device);
  const std::int64_t claim =
      Memory::mib(core::request_mib_on(gpu, described.usable_mib(), 0)).in_bytes();
  return claim > book.usable - book.committed() &&
         claim <= book.usable - book.foreign - book.requests;
}

std::string Service::bursts_in_the_way(const Lease& lease) const {
  const core::Fleet& fleet = engine_->fleet();
  for (const auto& [uuid, seen] : seen_) {
    const core::DeviceId device = fleet.find_device(uuid);
    if (device.is_none() || !fleet.present(device) || !would_fit_without(lease, device)) {
      continue;
    }
    std::string text;
    for (const Burst& burst : bursts_on(device)) {
      text += fmt::format("{}{} uses {} MiB above its request", text.empty() ? "" : ", ",
                          leases_.at(burst.number).id, Memory::bytes(burst.over).ceil_mib());
    }
    return text;
  }
  return {};
}

// Who keeps a waiting claim out by a burst, and longer than burst_grace, is reported or has to go.
void Service::check_bursts(Now now) {
  for (auto& [uuid, seen] : seen_) {
    const core::DeviceId device = engine_->fleet().find_device(uuid);
    if (device.is_none() || !engine_->fleet().present(device)) {
      continue;
    }
    const std::vector<Burst> bursts = bursts_on(device);
    const Lease* kept_out = nullptr;
    if (!bursts.empty()) {
      for (const std::uint64_t number : live_) {
        if (would_fit_without(leases_.at(number), device)) {
          kept_out = &leases_.at(number);
          break;
        }
      }
    }
    if (kept_out == nullptr) {
      seen.burst_since.reset();
      continue;
    }
    if (!seen.burst_since.has_value()) {
      seen.burst_since = now.time;
      events_.push_back({"burst-in-the-way", kept_out->id, uuid, bursts_in_the_way(*kept_out)});
    }
    if (config_.burst != BurstPolicy::end || now.time - *seen.burst_since < config_.burst_grace) {
      continue;
    }
    Lease& largest = leases_.at(bursts.front().number);
    if (!largest.evicting.has_value()) {
      largest.evicting =
          Eviction{.beneficiary = kept_out->id,
                   .rule = core::Evicted::Rule::guarantee,
                   .deadline = now.time + config_.grace,
                   .text = fmt::format(
                       "it uses {} MiB above its request, which {} has waited for since {} s; "
                       "ask for more, or stay below the request",
                       Memory::bytes(bursts.front().over).ceil_mib(), kept_out->id,
                       (now.time - *seen.burst_since).count() / 1000)};
      events_.push_back({"evicting", largest.id, uuid, largest.evicting->text});
      changed(largest);
    }
  }
  flush(now);
}

void Service::count_uses(const Uses& uses, Now now) {
  for (const auto& [uuid, by_lease] : uses) {
    const auto seen = seen_.find(uuid);
    const core::DeviceId device = engine_->fleet().find_device(uuid);
    if (seen == seen_.end() || device.is_none() || !engine_->fleet().present(device)) {
      continue;
    }
    core::DeviceObserved observed = observation(seen->second);
    bool more = false;
    for (const auto& [lease, bytes] : by_lease) {
      auto use = std::ranges::find(observed.uses, lease, &core::DeviceObserved::Use::uid);
      if (use == observed.uses.end()) {
        observed.uses.push_back({.uid = lease, .used = Memory()});
        use = observed.uses.end() - 1;
      }
      if (bytes > use->used.in_bytes()) {
        if (observed.used.has_value()) {
          observed.used = Memory::bytes(observed.used->in_bytes() + bytes - use->used.in_bytes());
        }
        use->used = Memory::bytes(bytes);
        more = true;
      }
    }
    if (!more) {
      continue;
    }
    run(std::move(observed), now);
    // The newest first: who was granted earlier in the batch asked earlier.
    const core::DeviceBook& book = engine_->ledger().book(device);
    while (book.committed() > book.usable) {
      std::optional<std::uint64_t> newest;
      for (const std::uint64_t number : granted_) {
        const Lease& lease = leases_.at(number);
        if (lease.state == State::granted &&
            std::ranges::any_of(lease.devices, [&](const Held& h) { return h.uuid == uuid; })) {
          newest = number;
        }
      }
      if (!newest.has_value()) {
        break;
      }
      granted_.erase(*newest);
      wait_again(leases_.at(*newest), "a burst had taken its room", now);
    }
  }
}

}  // namespace berth::lease
