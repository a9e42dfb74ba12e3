#include "core/engine/engine.h"

#include <fmt/format.h>

#include "core/engine/engine_impl.h"
#include "core/engine/unblock.h"
#include "core/placement/registry.h"

namespace berth::core {

namespace {

LedgerRules rules_of(const EngineConfig& config) {
  return {.limit_overcommit_percent = config.limit_overcommit_percent,
          .max_sample_age = config.max_sample_age,
          .whole_foreign_max = config.whole_foreign_max};
}

Result<void> check_config(const EngineConfig& config) {
  const auto refuse = [](std::string_view field, std::int64_t value, std::string_view rule) {
    return invalid_argument(fmt::format("{} is {}; {}", field, value, rule));
  };
  if (config.limit_overcommit_percent < 100 || config.limit_overcommit_percent > 100'000) {
    return refuse("limit_overcommit_percent", config.limit_overcommit_percent,
                  "it must lie between 100 (no burst beyond the device) and 100000");
  }
  if (config.device_cap.has_value() &&
      (*config.device_cap < 1 || *config.device_cap > kMostDeviceCap)) {
    return refuse("device_cap", *config.device_cap, "it must lie between 1 and 10000");
  }
  if (config.aging_step.count() < 1 || config.aging_max < 0 || config.aging_max > 1'000'000) {
    return refuse("aging step (ms)", config.aging_step.count(),
                  "steps are at least 1 ms and points lie between 0 and 1000000");
  }
  if (config.max_sample_age.has_value() && config.max_sample_age->count() < 1) {
    return refuse("max_sample_age (ms)", config.max_sample_age->count(),
                  "it must be at least 1 ms");
  }
  if (config.releasing_horizon.count() < 0) {
    return refuse("releasing_horizon (ms)", config.releasing_horizon.count(),
                  "it cannot be negative");
  }
  if (config.start_timeout.has_value() && config.start_timeout->count() < 1) {
    return refuse("start_timeout (ms)", config.start_timeout->count(), "it must be at least 1 ms");
  }
  if (config.search_budget < 1 || config.search_budget > 1'000'000'000) {
    return refuse("search_budget", config.search_budget, "it must lie between 1 and 1000000000");
  }
  if (config.exact_runners < 0) {
    return refuse("exact_runners", config.exact_runners, "it cannot be negative");
  }
  return success();
}

}  // namespace

Engine::Impl::Impl(EngineConfig the_config, std::unique_ptr<Policy> policy, Stopwatch* stopwatch)
    : config(std::move(the_config)),
      ledger(fleet, rules_of(config)),
      shapes(config.limit_overcommit_percent),
      index(fleet, ledger, types, shapes),
      quotas(fleet, ledger, types),
      waiting({.step = config.aging_step, .max = config.aging_max}),
      stages(stopwatch) {
  index.set_policy(std::move(policy), config.policy_seed);
}

Result<std::unique_ptr<Engine>> Engine::create(EngineConfig config, Stopwatch* stopwatch) {
  TRY_VOID(check_config(config));
  TRY(std::unique_ptr<Policy> policy, make_policy(config.policy, ClassCounts()));
  auto impl = std::make_unique<Impl>(std::move(config), std::move(policy), stopwatch);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() = default;

std::span<const Action> Engine::apply(const Event& event) { return impl_->apply(event); }

Time Engine::now() const { return impl_->now; }

bool Engine::granting_is_held() const { return impl_->granting_held_; }

const EngineConfig& Engine::config() const { return impl_->config; }

const Fleet& Engine::fleet() const { return impl_->fleet; }

const QueueTree& Engine::queues() const { return impl_->quotas.tree; }

const Ledger& Engine::ledger() const { return impl_->ledger; }

const Grant* Engine::grant(std::string_view uid) const {
  const Entry* entry = impl_->find(uid);
  return entry == nullptr ? nullptr : entry->grant.get();
}

const Grant* Engine::grant(WorkloadId id) const {
  return impl_->knows(id) ? impl_->entry(id).grant.get() : nullptr;
}

std::string_view Engine::uid(WorkloadId id) const {
  return impl_->knows(id) ? std::string_view(impl_->entry(id).uid) : std::string_view();
}

std::optional<Workload> Engine::workload(std::string_view uid) const {
  const Entry* entry = impl_->find(uid);
  if (entry == nullptr) {
    return std::nullopt;
  }
  return Workload::task(entry->uid, impl_->shapes.at(entry->shape).request, entry->options);
}

std::optional<Outcome> Engine::outcome(std::string_view uid) const {
  const Entry* entry = impl_->find(uid);
  return entry == nullptr ? std::nullopt : std::optional(entry->outcome());
}

Cause Engine::cause(std::string_view uid) const {
  const Entry* entry = impl_->find(uid);
  return entry == nullptr ? Cause::none : entry->cause;
}

Result<Verdict> Engine::explain(std::string_view uid, Detail detail) const {
  const Entry* entry = impl_->find(uid);
  if (entry == nullptr) {
    return Error(ErrorCode::not_found,
                 fmt::format("workload {} is not known: it never came, or it has ended", uid));
  }
  Verdict verdict = impl_->explain(*entry);
  const WorkloadId waits = impl_->searched_for(impl_->id_of(uid));
  if (detail == Detail::in_full && verdict.outcome == Outcome::waiting &&
      impl_->waiting.contains(waits) && !impl_->granting_held_) {
    verdict.unblock = UnblockSearch(*impl_, waits).find();
  }
  return verdict;
}

std::size_t Engine::waiting_count() const { return impl_->waiting.size(); }

std::vector<WaitingItem> Engine::waiting() const {
  std::vector<WaitingItem> items;
  for (const WorkloadId id : impl_->waiting.ordered(impl_->now)) {
    const Entry& entry = impl_->entry(id);
    items.push_back({.workload = id,
                     .uid = entry.uid,
                     .effective_priority = impl_->waiting.effective_priority(id, impl_->now),
                     .queued_at = entry.queued_at,
                     .cause = entry.cause});
  }
  return items;
}

std::vector<StageStats> Engine::stages() const {
  const auto& stats = impl_->stages.stats();
  return {stats.begin(), stats.end()};
}

std::int64_t Engine::steps() const { return impl_->index.steps() + impl_->wake_steps_; }

Result<void> verify(const Engine& engine) { return engine.impl().verify(); }

}  // namespace berth::core
