// Batches: what is to be written down, and what follows when it was, or could not be.
#include <algorithm>
#include <utility>

#include "lease/reasons.h"
#include "lease/record.h"
#include "lease/service.h"

namespace berth::lease {

Batch Service::take_batch() {
  forget_surplus();
  Batch batch;
  batch.records.reserve(dirty_.size());
  for (const auto& [kind, id] : dirty_) {
    Record record{.kind = kind, .id = id, .body = {}};
    if (kind == "lease") {
      if (const Lease* lease = find(id)) {
        record.body = lease_record(*lease);
      }
    } else if (kind == "node") {
      if (const auto node = nodes_.find(id); node != nodes_.end()) {
        record.body = node_record(node->second);
      }
    } else if (kind == "drained") {
      if (drained_.contains(id)) {
        record.body = "{}";
      }
    } else if (kind == "service") {
      record.body = id == "journal" ? config_.journal_id : std::to_string(numbers_promised_);
    }
    batch.records.push_back(std::move(record));
  }
  for (const std::uint64_t number : rose_) {
    if (const auto lease = leases_.find(number); lease != leases_.end()) {
      batch.changed.push_back(lease->second.id);
    }
  }
  std::ranges::sort(batch.changed);
  const auto twice = std::ranges::unique(batch.changed);
  batch.changed.erase(twice.begin(), twice.end());
  batch.events = std::exchange(events_, {});
  return batch;
}

void Service::settle(Now now) {
  dirty_.clear();
  rose_.clear();
  granted_.clear();
  // What became impossible within the batch that brought it is told now that it was answered.
  for (const std::uint64_t number : std::exchange(created_, {})) {
    const auto found = leases_.find(number);
    if (found != leases_.end() && found->second.state == State::waiting &&
        engine_->outcome(found->second.id) == core::Outcome::never) {
      on_verdict(found->second, core::Outcome::never, engine_->cause(found->second.id), now);
    }
  }
  flush(now);
  if (!writable_) {
    writable_ = true;
    set_hold(now);
  }
}

// A grant of which nobody has heard.
void Service::wait_again(Lease& lease, std::string_view why, Now now) {
  if (!holds(lease.state)) {
    return;
  }
  // Before the engine is told: a lease that waits has lost nothing when its grant is taken back.
  lease.proof.reset();
  lease.renew_by.reset();
  lease.node.clear();
  lease.devices.clear();
  lease.granted_at.reset();
  lease.confirm_by.reset();
  lease.heard_by = now.time + config_.silence;
  count_waiting(lease, 1);
  lease.state = State::waiting;
  run(core::GrantLost{.uid = lease.id, .why = std::string(why), .requeue = true}, now);
  if (lease.state == State::waiting) {  // else it has found another place
    lease.reason = waiting_reason(engine_->cause(lease.id));
    changed(lease);
  }
}

void Service::undo(Now now) {
  writable_ = false;
  set_hold(now);
  const std::set<std::uint64_t> created = std::exchange(created_, {});
  const std::set<std::uint64_t> granted = std::exchange(granted_, {});
  for (const std::uint64_t number : granted) {
    const auto found = leases_.find(number);
    if (found == leases_.end() || created.contains(number)) {
      continue;
    }
    wait_again(found->second, "it could not be written down", now);
  }
  for (const std::uint64_t number : created) {
    const auto found = leases_.find(number);
    if (found == leases_.end()) {
      continue;
    }
    const std::string id = found->second.id;
    if (engine_->workload(id).has_value()) {
      run(core::WorkloadCancelled{id}, now);
    }
    forget(number);
    dirty_.erase({"lease", id});
  }
}

}  // namespace berth::lease
