// Following: what events and actions mean for who holds what.
#include "core/engine/naive_model_test.h"

#include <algorithm>

#include <fmt/format.h>

namespace berth::core {

namespace {

Error wrong(std::string text) { return {ErrorCode::internal, std::move(text)}; }

LedgerRules rules_of(const EngineConfig& config) {
  return {.limit_overcommit_percent = config.limit_overcommit_percent,
          .max_sample_age = config.max_sample_age,
          .whole_foreign_max = config.whole_foreign_max};
}

template <class T>
const T* as(const Event& event) {
  return std::get_if<T>(&event.body);
}

bool is_refusal(const Action& action) {
  const auto* notice = std::get_if<Notice>(&action);
  return notice != nullptr && notice->kind == Notice::Kind::refused_event;
}

}  // namespace

NaiveModel::NaiveModel(const EngineConfig& config)
    : config_(config), books_(fleet_, rules_of(config)) {}

std::vector<std::string> NaiveModel::uids() const {
  std::vector<std::string> uids;
  for (const auto& [uid, known] : known_) {
    uids.push_back(uid);
  }
  return uids;
}

NaiveModel::Known* NaiveModel::find(std::string_view uid) {
  const auto found = known_.find(uid);
  return found == known_.end() ? nullptr : &found->second;
}

Result<void> NaiveModel::follow(const Event& event, std::span<const Action> actions,
                                const Engine& engine) {
  now_ = std::max(now_.value_or(event.time), event.time);
  if (engine.now() != *now_) {
    return wrong(
        fmt::format("engine time is {} ms, it should be {}", engine.now().ms(), now_->ms()));
  }
  expire();
  const bool refused = std::ranges::any_of(actions, is_refusal);
  const bool any_ended = std::ranges::any_of(
      actions, [](const Action& action) { return std::holds_alternative<Ended>(action); });
  const std::size_t before = deadlines_before(event, actions, engine);
  for (const Action& action : actions.first(before)) {
    TRY_VOID(on(action, event, engine));
  }
  TRY_VOID(on(event, refused, any_ended));
  for (const Action& action : actions.subspan(before)) {
    TRY_VOID(on(action, event, engine));
  }
  TRY_VOID(verify(engine));
  return check_all(engine);
}

// How many actions precede the event itself: deadlines that passed end what is known, before
// anything of the same name is submitted and before a sample counts.
std::size_t NaiveModel::deadlines_before(const Event& event, std::span<const Action> actions,
                                         const Engine& engine) {
  const auto* submit = as<WorkloadSubmitted>(event);
  if (submit != nullptr && find(submit->workload.uid()) != nullptr) {
    const auto end = std::ranges::find_if(actions, [&](const Action& action) {
      const auto* ended = std::get_if<Ended>(&action);
      return ended != nullptr && engine.uid(ended->workload) == submit->workload.uid();
    });
    return end == actions.end() ? 0 : static_cast<std::size_t>(end - actions.begin()) + 1;
  }
  std::size_t count = 0;
  for (const Action& action : actions) {
    const auto* retracted = std::get_if<Retracted>(&action);
    const auto* ended = std::get_if<Ended>(&action);
    const bool deadline = (retracted != nullptr && retracted->why == Cause::wait_timed_out) ||
                          (ended != nullptr && ended->why == Cause::wait_timed_out);
    if (!deadline ||
        find(engine.uid(ended != nullptr ? ended->workload : retracted->workload)) == nullptr) {
      break;
    }
    ++count;
  }
  return count;
}

// A release that takes too long is no longer believed.
void NaiveModel::expire() {
  for (auto& [uid, known] : known_) {
    if (known.releasing_until.has_value() && *known.releasing_until <= *now_) {
      known.releasing_until.reset();
      books_.set_state(known.id, GrantState::active);
    }
  }
}

Result<void> NaiveModel::on(const Event& event, bool refused, bool any_ended) {
  const auto expect_refusal = [&](bool expected, std::string_view why) -> Result<void> {
    if (refused == expected || any_ended) {  // a deadline may have come in the same call
      return success();
    }
    return wrong(fmt::format("the event was {}: {}", refused ? "refused" : "obeyed", why));
  };
  if (const auto* upsert = as<NodeUpserted>(event)) {
    const Result<Fleet::Change> change = fleet_.upsert(upsert->node);
    for (const DeviceId gone : change.ok() ? change->removed : std::vector<DeviceId>()) {
      books_.forget(gone);
    }
    TRY_VOID(expect_refusal(!change.ok(), change.ok() ? "" : change.error().message()));
  } else if (const auto* removal = as<NodeRemoved>(event)) {
    const Result<Fleet::Change> change = fleet_.remove(removal->name);
    for (const DeviceId gone : change.ok() ? change->removed : std::vector<DeviceId>()) {
      books_.forget(gone);
    }
    TRY_VOID(expect_refusal(!change.ok(), change.ok() ? "" : change.error().message()));
  } else if (const auto* cordon = as<DeviceCordoned>(event)) {
    const DeviceId device = fleet_.find_device(cordon->uuid);
    const bool there = !device.is_none() && fleet_.present(device);
    if (there) {
      fleet_.set_cordoned(device, cordon->cordoned);
    }
    TRY_VOID(expect_refusal(!there, "device presence"));
  } else if (const auto* seen = as<DeviceObserved>(event)) {
    observe(*seen);
  } else if (const auto* submit = as<WorkloadSubmitted>(event)) {
    const Workload& workload = submit->workload;
    TRY_VOID(expect_refusal(find(workload.uid()) != nullptr, "uid known"));
    if (!refused) {
      known_.emplace(workload.uid(), Known{.workload = workload,
                                           .submitted = *now_,
                                           .queued_at = std::min(
                                               workload.options().queued_at.value_or(*now_), *now_),
                                           .id = WorkloadId::none(),
                                           .confirm_by = {},
                                           .releasing_until = {}});
    }
  } else if (const auto* adopt = as<GrantAdopted>(event); adopt != nullptr && !refused) {
    known_.emplace(adopt->workload.uid(), Known{.workload = adopt->workload,
                                                .submitted = *now_,
                                                .queued_at = *now_,
                                                .id = WorkloadId::none(),
                                                .confirm_by = {},
                                                .releasing_until = {}});
  } else if (const auto* hold = as<GrantingHeld>(event)) {
    held_ = hold->held;
  } else if (const auto* queues = as<QueuesChanged>(event)) {
    queue_cap_.reset();
    for (const QueueSpec& queue : queues->config.queues) {  // all of them stand above all work
      if (queue.device_cap.has_value()) {
        queue_cap_ = std::min(queue_cap_.value_or(*queue.device_cap), *queue.device_cap);
      }
    }
  }
  return refused ? success() : on_grant(event);
}

// What a harbour says of a grant, and was obeyed.
Result<void> NaiveModel::on_grant(const Event& event) {
  if (const auto* confirm = as<GrantConfirmed>(event)) {
    Known* known = find(confirm->uid);
    if (known == nullptr || known->grant == 0 || known->is_promise) {
      return wrong("a confirmation was obeyed without a grant");
    }
    known->confirm_by.reset();
    if (books_.find(known->id)->grant.state == GrantState::granted) {
      books_.set_state(known->id, GrantState::active);
    }
  } else if (const auto* releasing = as<GrantReleasing>(event)) {
    Known* known = find(releasing->uid);
    if (known == nullptr || known->grant == 0 || known->is_promise) {
      return wrong("a release was announced without a grant");
    }
    known->confirm_by.reset();
    if (!known->releasing_until.has_value() && config_.releasing_horizon > Duration()) {
      known->releasing_until = *now_ + config_.releasing_horizon;
      books_.set_state(known->id, GrantState::releasing);
    }
  } else if (const auto* init = as<WorkloadInitialized>(event)) {
    Known* known = find(init->uid);
    if (known == nullptr || known->grant == 0 || known->is_promise) {
      return wrong("a workload without a grant was initialized");
    }
    books_.initialized(known->id);
  }
  return success();
}

void NaiveModel::observe(const DeviceObserved& seen) {
  const DeviceId device = fleet_.find_device(seen.uuid);
  if (device.is_none() || !fleet_.present(device)) {
    return;
  }
  Sample sample;
  sample.sampled_at = std::min(seen.sampled_at, *now_);
  if (books_.last_sample(device).has_value() && sample.sampled_at < *books_.last_sample(device) &&
      !seen.restated) {
    return;
  }
  if (seen.used.has_value() && *seen.used >= Memory()) {
    sample.used = seen.used->in_bytes();
  }
  sample.attributed = seen.attributed;
  for (const DeviceObserved::Use& use : seen.uses) {
    const Known* known = find(use.uid);
    if (known != nullptr && !known->id.is_none() && use.used > Memory()) {
      sample.uses.push_back({known->id, use.used.in_bytes()});
    }
  }
  if (seen.health.has_value()) {
    fleet_.set_health(device, *seen.health);
  }
  books_.observe(device, sample);
}

void NaiveModel::give_back(Known& known) {
  if (known.grant != 0) {
    books_.unbook(known.id);
  }
  known.grant = 0;
  known.is_promise = false;
  known.confirm_by.reset();
  known.releasing_until.reset();
}

Result<void> NaiveModel::on(const Action& action, const Event& event, const Engine& engine) {
  if (const auto* grant = std::get_if<Granted>(&action)) {
    return granted(*grant, event, engine);
  }
  if (const auto* promise = std::get_if<Promised>(&action)) {
    return promised(*promise, engine);
  }
  if (const auto* wake = std::get_if<WakeAt>(&action)) {
    return wake->time > *now_ ? success() : Result<void>(wrong("wake at a time that has passed"));
  }
  if (std::holds_alternative<Notice>(action)) {
    return success();
  }
  const auto* retracted = std::get_if<Retracted>(&action);
  const auto* verdict = std::get_if<VerdictChanged>(&action);
  const auto* ended = std::get_if<Ended>(&action);
  const WorkloadId id = retracted != nullptr ? retracted->workload
                        : verdict != nullptr ? verdict->workload
                                             : ended->workload;
  const std::string uid(engine.uid(id));
  Known* known = find(uid);
  if (known == nullptr) {
    return wrong(fmt::format("an action names {}, which is not known", uid));
  }
  if (retracted != nullptr) {
    if (known->grant != retracted->grant) {
      return wrong(fmt::format("{}: grant {} was retracted, it held {}", uid, retracted->grant,
                               known->grant));
    }
    give_back(*known);
    known->outcome = Outcome::waiting;
  } else if (verdict != nullptr) {
    if (verdict->outcome == Outcome::never && known->outcome != Outcome::never) {
      ++never_;
    }
    known->outcome = verdict->outcome;
  } else {
    give_back(*known);
    known_.erase(uid);
  }
  return success();
}

Result<void> NaiveModel::granted(const Granted& action, const Event& event, const Engine& engine) {
  const std::string uid(engine.uid(action.workload));
  Known* known = find(uid);
  const Grant* grant = engine.grant(action.workload);
  if (known != nullptr && grant == nullptr) {
    // A deadline granted it and the event ended it, in one call: check_all() sees whether it is
    // gone.
    give_back(*known);
    known->grant = action.grant;
    known->outcome = Outcome::granted;
    return success();
  }
  if (known == nullptr || grant == nullptr || grant->number != action.grant ||
      grant->node != action.node) {
    return wrong(fmt::format("{} was granted something that is not there", uid));
  }
  if (known->is_promise && known->grant == action.grant) {
    give_back(*known);  // judged and booked again as a grant; later promises stand back
    books_.hide_promises_after(action.grant);
  } else if (known->grant != 0) {
    return wrong(fmt::format("{} was granted twice", uid));
  }
  const auto* adopt = as<GrantAdopted>(event);
  const bool adopted = adopt != nullptr && adopt->workload.uid() == uid;
  if (!adopted && held_) {
    return wrong(fmt::format("{} was granted while granting was held", uid));
  }
  if (!adopted) {
    TRY_VOID(check_sizes(*grant, known->workload.request()));
    TRY_VOID(check_decision(uid, *grant, When::now));
    if (known->workload.options().confirm_within.has_value()) {
      known->confirm_by = *now_ + *known->workload.options().confirm_within;
    }
  }
  books_.hide_promises_after(~std::uint64_t{0});
  known->id = action.workload;
  known->grant = action.grant;
  known->outcome = Outcome::granted;
  books_.book(known->id, *grant);
  ++granted_;
  return success();
}

Result<void> NaiveModel::promised(const Promised& action, const Engine& engine) {
  const std::string uid(engine.uid(action.workload));
  Known* known = find(uid);
  const Grant* grant = engine.grant(action.workload);
  if (known == nullptr || known->grant != 0 || grant == nullptr || grant->number != action.grant) {
    return wrong(fmt::format("{} was promised something that is not there", uid));
  }
  if (held_) {
    return wrong(fmt::format("{} was promised room while granting was held", uid));
  }
  TRY_VOID(check_sizes(*grant, known->workload.request()));
  TRY_VOID(check_decision(uid, *grant, When::later));
  known->id = action.workload;
  known->grant = action.grant;
  known->is_promise = true;
  known->outcome = Outcome::waiting;
  Grant as_promise = *grant;
  as_promise.state = GrantState::promised;
  books_.book(known->id, as_promise);
  ++promised_;
  return success();
}

}  // namespace berth::core
