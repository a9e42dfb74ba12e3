// What is asked of a lease that there is: confirm, renew, release, and questions.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/suggest.h"
#include "core/ledger/ledger.h"
#include "core/placement/rules.h"
#include "core/queue/queue_tree.h"
#include "lease/reasons.h"
#include "lease/service.h"

namespace berth::lease {

namespace {

Refusal unknown_lease(std::string_view id) {
  return {.status = 404,
          .code = "unknown-lease",
          .field = "id",
          .value = std::string(id),
          .message = fmt::format("no lease has the id {}", id),
          .hint = "reserve again with the key; `berth ps` lists the leases that are known"};
}

Refusal forbidden(const Lease& lease) {
  return {.status = 403,
          .code = "forbidden",
          .field = "id",
          .value = lease.id,
          .message = fmt::format("lease {} belongs to {}", lease.id, lease.principal),
          .hint = "its holder, or the role admin, may see and end it"};
}

Refusal gone(const Lease& lease) {
  return {
      .status = 410,
      .code = "lost",
      .field = "id",
      .value = lease.id,
      .message = fmt::format("lease {} is {}{}{}", lease.id, state_name(lease.state),
                             lease.reason == Reason::none ? "" : ": ", reason_name(lease.reason)),
      .hint = "reserve again with the same key; after a loss its age is kept"};
}

bool sees(const Party& party, const Lease& lease) {
  return party.admin || party.name == lease.principal;
}

}  // namespace

Outcome<Lease*> Service::owned(const Party& party, std::string_view id) {
  Lease* lease = find_mut(id);
  if (lease == nullptr) {
    return std::unexpected(unknown_lease(id));
  }
  if (!sees(party, *lease)) {
    return std::unexpected(forbidden(*lease));
  }
  return lease;
}

// Ends a lease; with `if_gone` only when no process of it is left, and until then it is `ending`.
void Service::end_or_wait(Lease& lease, bool if_gone, Reason reason, std::string message, Now now) {
  if (lease.state == State::waiting) {
    end(lease, State::cancelled, reason, std::move(message), now);
    return;
  }
  if (if_gone && lease.proof.has_value() && witness_.alive(*lease.proof)) {
    if (lease.state != State::ending) {
      if (config_.forced != Duration(0)) {
        lease.force_by = now.time + config_.forced;
      }
      become(lease, State::ending, Reason::process_alive,
             "its end was asked for; it counts until its processes are gone");
    }
    return;
  }
  end(lease, State::released, reason, std::move(message), now);
}

Outcome<const Lease*> Service::confirm(const Party& party, std::string_view id,
                                       const local::Confirmation& confirmation, Now now) {
  const Outcome<Lease*> found = owned(party, id);
  if (!found) {
    return std::unexpected(found.error());
  }
  Lease& lease = **found;
  if (lease.state == State::waiting) {
    return std::unexpected(Refusal{.status = 409,
                                   .code = "not-granted",
                                   .field = "id",
                                   .value = lease.id,
                                   .message = fmt::format("lease {} still waits", lease.id),
                                   .hint = "wait until its state is granted; nothing may start"});
  }
  if (!holds(lease.state) || lease.state == State::ending) {
    return std::unexpected(gone(lease));
  }
  const bool proves =
      confirmation.pid.has_value() || !confirmation.cgroup.empty() || !confirmation.pod_uid.empty();
  if (proves && lease.wants_gpu()) {
    local::Confirmation asked = confirmation;
    asked.lease = lease.id;
    asked.uid = lease.uid;
    asked.journal = config_.journal_id;
    Result<local::Proof> proof = witness_.prove(asked);
    if (!proof) {
      return std::unexpected(Refusal{
          .status = proof.error().code() == ErrorCode::conflict ? 403 : 400,
          .code = proof.error().code() == ErrorCode::conflict ? "forbidden" : "invalid-field",
          .field = confirmation.pid.has_value()  ? "pid"
                   : confirmation.cgroup.empty() ? "pod_uid"
                                                 : "cgroup",
          .value = confirmation.pid.has_value() ? std::to_string(*confirmation.pid)
                                                : confirmation.cgroup + confirmation.pod_uid,
          .message = proof.error().message(),
          .hint = "name a process of this machine that lives and belongs to the caller"});
    }
    lease.proof = std::move(*proof);
    peopled_.erase(lease.number);
    look_for_guard(lease);
  }
  renewed(lease, now);
  if (lease.state == State::granted) {
    lease.confirm_by.reset();
    become(lease, State::active, Reason::none);
    run(core::GrantConfirmed{lease.id}, now);
  } else {
    touched(lease);
  }
  return &lease;
}

// A sign of life of what holds.
void Service::renewed(Lease& lease, Now now) {
  if (!lease.wants_gpu()) {
    lease.forget_at = now.time + config_.keep_ended;
    return;
  }
  lease.renew_by = now.time + lease.ask.ttl.value_or(config_.ttl);
  lease.force_by.reset();
  if (lease.state == State::suspect) {
    become(lease, State::active, Reason::none);
  }
}

Outcome<const Lease*> Service::renew(const Party& party, std::string_view id, Now now) {
  const Outcome<Lease*> found = owned(party, id);
  if (!found) {
    return std::unexpected(found.error());
  }
  Lease& lease = **found;
  switch (lease.state) {
    case State::waiting:
      lease.heard_by = now.time + config_.silence;
      set_due(lease);
      break;
    case State::granted: break;  // only a confirmation prolongs it
    case State::active:
    case State::suspect:
      renewed(lease, now);
      touched(lease);
      break;
    default: return std::unexpected(gone(lease));
  }
  return &lease;
}

Outcome<Service::Release> Service::release(const Party& party, std::string_view id, bool if_gone,
                                           std::string_view reason, Now now) {
  Lease* lease = find_mut(id);
  if (lease == nullptr) {
    return Release{};
  }
  if (!sees(party, *lease)) {
    return std::unexpected(forbidden(*lease));
  }
  if (!is_live(lease->state) || (lease->state == State::ending && if_gone)) {
    return Release{lease, false};
  }
  end_or_wait(*lease, if_gone, Reason::none, std::string(reason), now);
  flush(now);
  return Release{lease, true};
}

Outcome<Service::Release> Service::release_key(const Party& party, std::string_view key,
                                               bool if_gone, std::string_view reason, Now now) {
  const Lease* lease = by_key(party.name, key);
  if (lease == nullptr && party.admin) {
    // An administrator's hook knows the task only; its key may be anybody's, but not of two.
    const Lease* only = nullptr;
    for (const auto& [name, number] : by_key_) {
      if (name.second == key && is_live(leases_.at(number).state)) {
        if (only != nullptr) {
          return std::unexpected(Refusal{.status = 409,
                                         .code = "key-conflict",
                                         .field = "key",
                                         .value = std::string(key),
                                         .message = "the key is used by several owners",
                                         .hint = "release by id; `berth ps` lists them"});
        }
        only = &leases_.at(number);
      }
    }
    lease = only;
  }
  if (lease == nullptr) {
    return Release{};
  }
  return release(party, std::string(lease->id), if_gone, reason, now);
}

Outcome<const Lease*> Service::read(const Party& party, std::string_view id, Now now) {
  const Outcome<Lease*> found = owned(party, id);
  if (!found) {
    return std::unexpected(found.error());
  }
  Lease& lease = **found;
  if (lease.state == State::waiting && party.name == lease.principal) {
    lease.heard_by = now.time + config_.silence;
    set_due(lease);
  }
  return &lease;
}

void Service::watching(std::string_view id, bool open, Now now) {
  Lease* lease = find_mut(id);
  if (lease == nullptr) {
    return;
  }
  if (open) {
    ++watchers_[lease->number];
  } else if (const auto at = watchers_.find(lease->number); at != watchers_.end()) {
    if (--at->second == 0) {
      watchers_.erase(at);
    }
  }
  if (lease->state == State::waiting) {
    lease->heard_by = now.time + config_.silence;
  }
  set_due(*lease);
}

std::vector<const Lease*> Service::list(const Party& party, const Filter& filter) const {
  const auto wanted = [&](const Lease& lease) {
    return sees(party, lease) &&
           (filter.states.empty() ||
            std::ranges::find(filter.states, lease.state) != filter.states.end()) &&
           (filter.owner.empty() || lease.ask.owner == filter.owner) &&
           lease.ask.key.starts_with(filter.key_prefix) &&
           (filter.node.empty() || lease.node == filter.node) &&
           (filter.queue.empty() || lease.ask.queue == filter.queue) &&
           (filter.device.empty() || std::ranges::any_of(lease.devices, [&](const Held& held) {
              return held.uuid == filter.device;
            }));
  };
  std::vector<const Lease*> waiting;
  std::vector<const Lease*> others;
  for (const auto& [number, lease] : leases_) {
    if (wanted(lease)) {
      (lease.state == State::waiting ? waiting : others).push_back(&lease);
    }
  }
  std::unordered_map<std::string_view, std::size_t> places;
  const std::vector<core::WaitingItem> order =
      waiting.empty() ? std::vector<core::WaitingItem>() : engine_->waiting();
  for (std::size_t i = 0; i < order.size(); ++i) {
    places.emplace(order[i].uid, i);
  }
  const auto place = [&](const Lease* lease) {
    const auto at = places.find(lease->id);
    return at == places.end() ? order.size() : at->second;
  };
  std::ranges::stable_sort(waiting, {}, place);
  waiting.insert(waiting.end(), others.begin(), others.end());
  return waiting;
}

Outcome<core::Verdict> Service::explain(const Party& party, std::string_view id) const {
  const Lease* lease = find(id);
  if (lease == nullptr) {
    return std::unexpected(unknown_lease(id));
  }
  if (!sees(party, *lease)) {
    return std::unexpected(forbidden(*lease));
  }
  Result<core::Verdict> verdict = engine_->explain(id);
  if (!verdict) {
    core::Verdict ended;
    ended.outcome = core::Outcome::ended;
    ended.summary = lease->message;
    return ended;
  }
  if (held_ && lease->state == State::waiting) {
    verdict->summary = held_because();
  }
  return std::move(*verdict);
}

}  // namespace berth::lease
