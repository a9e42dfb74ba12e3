// Taking over what was kept: the books as they were, nothing new until the machine was seen.
#include <algorithm>

#include <fmt/format.h>

#include "lease/record.h"
#include "lease/service.h"

namespace berth::lease {

namespace {

core::GrantAdopted adoption(const core::Workload& workload, const Lease& lease) {
  core::GrantAdopted adopted{.workload = workload,
                             .node = lease.node,
                             .shares = {},
                             .confirmed = lease.state != State::granted};
  for (const Held& held : lease.devices) {
    adopted.shares.push_back({.container = 0,
                              .uuid = held.uuid,
                              .request_mib = held.request_mib,
                              .limit_mib = held.limit_mib});
  }
  return adopted;
}

}  // namespace

Result<void> Service::restore(const std::vector<Record>& records, Now now) {
  std::vector<Lease> leases;
  std::vector<core::Node> nodes;
  const std::string drawn = config_.journal_id;
  for (const Record& record : records) {
    const auto named = [&](const Error& error) {
      return invalid_argument(
          fmt::format("record {} {} of the journal: {}", record.kind, record.id, error.message()));
    };
    if (!record.body.has_value()) {
      continue;
    }
    if (record.kind == "lease") {
      Result<Lease> lease = read_lease(*record.body);
      if (!lease) {
        return named(lease.error());
      }
      next_number_ = std::max(next_number_, lease->number + 1);
      leases.push_back(std::move(*lease));
    } else if (record.kind == "node") {
      Result<core::Node> node = read_node(*record.body);
      if (!node) {
        return named(node.error());
      }
      nodes.push_back(std::move(*node));
    } else if (record.kind == "drained") {
      drained_.insert(record.id);
    } else if (record.kind == "service" && record.id == "journal") {
      config_.journal_id = *record.body;
    } else if (record.kind == "service") {
      const auto parsed = std::strtoull(record.body->c_str(), nullptr, 10);
      next_number_ = std::max<std::uint64_t>(next_number_, parsed);
    }
  }
  for (core::Node& node : nodes) {
    for (core::Device& device : node.devices) {
      device.cordoned = drained_.contains(device.uuid);
    }
    put_node(std::move(node), now);
  }
  // Those that hold in the order in which they were granted, those that wait in that of their age.
  std::ranges::sort(leases, {}, [](const Lease& lease) {
    return std::tuple(lease.granted_at.value_or(Time()), lease.queued_at, lease.number);
  });
  for (Lease& lease : leases) {
    if (lease.state == State::waiting) {
      lease.heard_by = now.time + config_.silence;
    }
    adopt(add(std::move(lease)), now);
  }
  if (config_.journal_id == drawn && !drawn.empty()) {
    dirty_.emplace("service", "journal");
  }
  // What the restart itself changed is written down with the next batch; the rest is there already.
  std::erase_if(dirty_, [](const auto& item) { return item.first == "node"; });
  return {};
}

void Service::adopt(Lease& lease, Now now) {
  if (!lease.wants_gpu()) {
    return;
  }
  if (holds(lease.state)) {
    run(adoption(workload_of(lease), lease), now);
    if (engine_->grant(lease.id) == nullptr) {
      events_.push_back({"lost", lease.id, lease.devices.front().uuid,
                         "its device is not known after the restart"});
      end(lease, State::lost, Reason::device_lost, "its device is not known after a restart", now);
      flush(now);
    }
  } else if (lease.state == State::waiting) {
    run(core::WorkloadSubmitted{workload_of(lease)}, now);
  }
}

// The engine as it is, without its history: nodes, samples, what holds and what waits. For
// questions whose answer may change nothing.
Result<std::unique_ptr<core::Engine>> Service::copy_engine(Now now) const {
  TRY(std::unique_ptr<core::Engine> copy, core::Engine::create(config_.engine));
  const Time time = std::max(now.time, engine_->now());
  const auto tell = [&](core::EventBody body) { copy->apply({time, std::move(body)}); };
  tell(core::GrantingHeld{true});
  if (config_.queues.has_value()) {
    tell(core::QueuesChanged{*config_.queues});
  }
  for (const auto& [name, node] : nodes_) {
    tell(core::NodeUpserted{node});
  }
  std::vector<const Lease*> live;
  for (const std::uint64_t number : live_) {
    const Lease& lease = leases_.at(number);
    if (lease.wants_gpu()) {
      live.push_back(&lease);
    }
  }
  std::ranges::sort(live, {}, [](const Lease* lease) {
    return std::tuple(!holds(lease->state), lease->queued_at, lease->number);
  });
  for (const Lease* lease : live) {
    if (holds(lease->state)) {
      tell(adoption(workload_of(*lease), *lease));
    } else {
      tell(core::WorkloadSubmitted{workload_of(*lease)});
    }
  }
  for (const auto& [uuid, seen] : seen_) {
    if (seen.present) {
      tell(observation(seen));
    }
  }
  tell(core::GrantingHeld{held_});
  return copy;
}

Outcome<core::Verdict> Service::dry_run(const Party& party, const Ask& ask, Now now) const {
  Lease lease;
  lease.id = "dry-run";
  lease.ask = ask;
  lease.principal = party.name;
  lease.queued_at = now.time;
  Result<std::unique_ptr<core::Engine>> copy = copy_engine(now);
  if (!copy) {
    return std::unexpected(
        Refusal{.status = 500, .code = "internal", .message = copy.error().message()});
  }
  core::Engine& engine = **copy;
  engine.apply({std::max(now.time, engine.now()), core::WorkloadSubmitted{workload_of(lease)}});
  if (engine.cause(lease.id) == core::Cause::unknown_queue ||
      engine.cause(lease.id) == core::Cause::not_a_leaf_queue) {
    return std::unexpected(bad_queue(ask.queue));
  }
  Result<core::Verdict> verdict = engine.explain(lease.id);
  if (!verdict) {
    return std::unexpected(
        Refusal{.status = 500, .code = "internal", .message = verdict.error().message()});
  }
  if (held_ && verdict->outcome == core::Outcome::waiting) {
    verdict->summary = held_because();
  }
  return std::move(*verdict);
}

}  // namespace berth::lease
