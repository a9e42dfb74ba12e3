#include "sim/driver.h"

#include <chrono>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/engine/decision_log.h"
#include "core/ledger/ledger.h"

namespace berth::sim {

namespace {

constexpr std::size_t kLogChunk = std::size_t{1} << 20;

}  // namespace

std::int64_t steady_nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Driver::Driver(const Scene& scene, DriverSetup setup)
    : scene_(scene), setup_(std::move(setup)), state_(scene.nodes, kPodSlotsPerNode) {
  if (setup_.hooks.now_nanos == nullptr) setup_.hooks.now_nanos = steady_nanos;
}

Result<std::unique_ptr<Driver>> Driver::create(const Scene& scene, DriverSetup setup) {
  ASSERT(setup.node_ranks.size() == scene.nodes.size(), setup.node_ranks.size());
  std::unique_ptr<Driver> driver(new Driver(scene, std::move(setup)));
  core::EngineConfig config;
  config.policy = driver->setup_.policy;
  config.policy_seed = driver->setup_.policy_seed;
  config.reservations = false;
  TRY(driver->engine_, core::Engine::create(config));
  core::append_header(driver->log_, driver->engine_->config());
  for (std::size_t i = 0; i < scene.nodes.size(); ++i) {
    TRY_VOID(driver->tell(
        core::NodeUpserted{engine_node(scene.nodes[i], driver->setup_.node_ranks[i])}));
  }
  TRY_VOID(driver->tell(scene.history));
  return driver;
}

// An event that the engine must obey and that grants nothing.
Result<void> Driver::tell(core::EventBody body) {
  const core::Event event{now_, std::move(body)};
  core::append_event(log_, event);
  const std::span<const core::Action> actions = engine_->apply(event);
  core::append_actions(log_, actions, *engine_);
  for (const core::Action& action : actions) {
    const auto* notice = std::get_if<core::Notice>(&action);
    if (notice != nullptr && notice->kind == core::Notice::Kind::refused_event) {
      return invalid_argument(notice->text);
    }
  }
  return after_event();
}

Result<void> Driver::after_event() {
  const RunHooks& hooks = setup_.hooks;
  if (hooks.events != nullptr) hooks.events->fetch_add(1, std::memory_order_relaxed);
  if (hooks.record == nullptr) {
    log_.clear();
  } else if (log_.size() >= kLogChunk) {
    TRY_VOID(hooks.record->write(log_));
    log_.clear();
  }
  if (setup_.check) TRY_VOID(core::verify(*engine_));
  if (hooks.cancelled != nullptr && hooks.cancelled->load(std::memory_order_relaxed)) {
    return Error(ErrorCode::exhausted, "cancelled");
  }
  return success();
}

Result<bool> Driver::submit(Submission submission) {
  core::WorkloadOptions options;
  options.wait_timeout = Duration(0);
  const core::Event event{
      now_, core::WorkloadSubmitted{core::Workload::task(std::move(submission.uid),
                                                         *submission.request, std::move(options))}};
  const std::int64_t begin = setup_.hooks.now_nanos();
  core::append_event(log_, event);
  const std::span<const core::Action> actions = engine_->apply(event);
  core::append_actions(log_, actions, *engine_);
  latency_.add(setup_.hooks.now_nanos() - begin);

  bool placed = false;
  for (const core::Action& action : actions) {
    const auto* granted = std::get_if<core::Granted>(&action);
    if (granted == nullptr) continue;
    Placement placement = placement_of(*granted);
    state_.take(placement);
    placed = true;
    if (keep_placements_) {
      const auto& workload = std::get<core::WorkloadSubmitted>(event.body).workload;
      placements_.insert_or_assign(workload.uid(), std::move(placement));
    }
  }
  TRY_VOID(after_event());
  return placed;
}

Result<void> Driver::release(const std::string& uid) {
  const auto found = placements_.find(uid);
  ASSERT(found != placements_.end(), uid.c_str());
  state_.give_back(found->second);
  placements_.erase(found);
  return tell(core::GrantReleased{uid});
}

Placement Driver::placement_of(const core::Granted& granted) const {
  const core::Grant* grant = engine_->grant(granted.workload);
  ASSERT(grant != nullptr, granted.workload.value());
  Placement placement{.node = grant->node.value(),
                      .parts = {},
                      .cpu_milli = grant->cpu.count(),
                      .memory_mib = grant->ram.ceil_mib()};
  for (const core::DeviceCharge& charge : grant->charges) {
    placement.parts.push_back(
        {.device = static_cast<std::uint32_t>(engine_->fleet().place_of(charge.device)),
         .milli = charge.exclusive ? kWholeDeviceMilli : static_cast<int>(charge.running_mib)});
  }
  return placement;
}

Result<void> Driver::compare_books() const {
  const core::Ledger& ledger = engine_->ledger();
  for (std::size_t i = 0; i < scene_.nodes.size(); ++i) {
    const core::NodeId id = engine_->fleet().find_node(scene_.nodes[i].name);
    const NodeState& node = state_.nodes()[i];
    const core::NodeFace& face = ledger.node(id);
    bool same = id.index() == i && face.cpu_free == node.cpu_milli &&
                face.ram_free == Memory::mib(node.memory_mib).in_bytes() &&
                face.slots_free == node.slots && face.count == node.count;
    const std::span<const std::int16_t> left = state_.devices(node);
    for (std::size_t d = 0; same && d < left.size(); ++d) {
      same = ledger.faces(id)[d].headroom == Memory::mib(left[d]).in_bytes();
    }
    if (!same) {
      return Error(ErrorCode::internal,
                   fmt::format("node {}: the engine's books differ from what its grants add up to; "
                               "please report this with the command line",
                               scene_.nodes[i].name));
    }
  }
  return success();
}

Result<void> Driver::finish() {
  if (setup_.hooks.record == nullptr) return success();
  core::append_end(log_);
  TRY_VOID(setup_.hooks.record->write(log_));
  log_.clear();
  return success();
}

}  // namespace berth::sim
