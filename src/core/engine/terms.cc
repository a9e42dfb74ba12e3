// What a workload is placed by besides what it asks for: a policy and a cap, its own or its
// queue's (leases.md 3.2, interfaces.md 5).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"
#include "core/placement/registry.h"

namespace berth::core {

// The engine ranks by this from now on; whoever named a policy keeps it.
void Engine::Impl::rank_by(std::unique_ptr<Policy> policy) {
  index.set_policy(std::move(policy), config.policy_seed);
  for (std::size_t i = kEnginePolicy.index() + 1; i < policy_names_.size(); ++i) {
    rank_by_name(PolicyId(i));
  }
}

// One that is the engine's too shares what is kept for it.
void Engine::Impl::rank_by_name(PolicyId id) const {
  const std::string& name = policy_names_[id.index()];
  if (name == config.policy) {
    index.share_policy(id);
    return;
  }
  Result<std::unique_ptr<Policy>> policy = make_policy(name, history_);
  ASSERT(policy.ok(), name);
  index.add_policy(id, std::move(policy).value(), config.policy_seed);
}

// Names that are not registered mean the engine's: what asks for one is refused before, or was
// found running.
PolicyId Engine::Impl::policy_named(const std::string& name) const {
  if (name.empty()) {
    return kEnginePolicy;
  }
  const auto known = std::ranges::find(policy_names_, name);
  if (known != policy_names_.end()) {
    return PolicyId(static_cast<std::size_t>(known - policy_names_.begin()));
  }
  if (!make_policy(name, ClassCounts()).ok()) {
    return kEnginePolicy;
  }
  policy_names_.push_back(name);
  const PolicyId id(policy_names_.size() - 1);
  rank_by_name(id);
  return id;
}

// The workload's own policy, else that of the nearest queue that names one; the least cap of all
// that there are on the way up.
ShapeTerms Engine::Impl::terms_of(const WorkloadOptions& options, QueueId leaf) const {
  ShapeTerms terms{
      .policy = options.policy.has_value() ? policy_named(*options.policy) : kEnginePolicy,
      .device_cap = config.device_cap.value_or(0)};
  if (!queues_have_terms_) {
    return terms;
  }
  for (QueueId at = leaf; !at.is_none(); at = quotas.tree.parent(at)) {
    const QueueSpec& queue = quotas.tree.spec(at);
    if (!options.policy.has_value() && terms.policy == kEnginePolicy) {
      terms.policy = policy_named(queue.policy);
    }
    if (queue.device_cap.has_value()) {
      const auto cap =
          static_cast<int>(std::clamp<std::int64_t>(*queue.device_cap, 1, kMostDeviceCap));
      terms.device_cap = terms.device_cap == 0 ? cap : std::min(terms.device_cap, cap);
    }
  }
  return terms;
}

// Its queue says something else now.
void Engine::Impl::read_terms(WorkloadId id) {
  Entry& entry = at(id);
  const Shape& before = shapes.at(entry.shape);
  const ShapeTerms terms = terms_of(entry.options, entry.leaf);
  if (terms == before.terms) {
    return;
  }
  const auto reserved = reservations_.find(entry.pool);
  if (reserved != reservations_.end() && reserved->second.holder == id) {
    drop_reservation(entry.pool);  // it was planned for the old terms
  }
  const ShapeId fresh = shapes.acquire(before.request, terms);
  release_shape(std::exchange(entry.shape, fresh));
}

void Engine::Impl::release_shape(ShapeId shape) {
  for (const ShapeId gone : shapes.release(shape)) {
    index.forget(gone);
    quotas.forget(gone);
    if (gone.index() < pools_of_shapes_.size()) {
      pools_of_shapes_[gone.index()] = {};
    }
    shape_plans_.erase(gone);
    booked_on_emptiest_.erase(gone);
    open_once_released_.erase(gone);
    ++fleet_version_;  // whoever gets its id is somebody else
    std::erase_if(failed_moves_, [&](const auto& one) { return one.first.first == gone; });
  }
}

// Queues whose policy nobody has registered; they start nothing until that is mended.
std::vector<QueueProblem> Engine::Impl::policy_problems(const QueueConfig& queues) {
  std::vector<QueueProblem> problems;
  for (const QueueSpec& queue : queues.queues) {
    if (queue.policy.empty()) {
      continue;
    }
    if (const auto made = make_policy(queue.policy, ClassCounts()); !made.ok()) {
      problems.push_back({.queue = queue.name, .text = made.error().message(), .holds = true});
    }
  }
  return problems;
}

}  // namespace berth::core
