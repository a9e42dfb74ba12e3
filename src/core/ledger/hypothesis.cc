#include "core/ledger/hypothesis.h"

#include <algorithm>

#include "base/assert.h"

namespace berth::core {

void Hypothesis::remember(const Grant& grant) {
  Step step{.node = grant.node, .page = ledger_.nodes_[grant.node.index()], .books = {}};
  step.books.reserve(grant.charges.size());
  for (const DeviceCharge& charge : grant.charges) {
    step.books.emplace_back(charge.device, ledger_.books_[charge.device.index()]);
  }
  steps_.push_back(std::move(step));
}

void Hypothesis::take_out(WorkloadId workload, const Grant& grant) {
  remember(grant);
  std::vector<std::int64_t> foreign;
  foreign.reserve(grant.charges.size());
  for (const DeviceCharge& charge : grant.charges) {
    foreign.push_back(ledger_.books_[charge.device.index()].foreign);
  }
  ledger_.unbook(workload, grant);
  for (std::size_t i = 0; i < grant.charges.size(); ++i) {
    const DeviceId device = grant.charges[i].device;
    ledger_.books_[device.index()].foreign = foreign[i];
    if (ledger_.fleet_.present(device)) {
      ledger_.update_use(device);
    }
  }
}

void Hypothesis::put(WorkloadId workload, const Grant& grant) {
  remember(grant);
  ledger_.book(workload, grant);
  for (std::size_t i = 0; i < grant.charges.size(); ++i) {
    // A supposed grant uses nothing yet: what is in use stays as foreign as it was.
    const auto& [device, before] = steps_.back().books[i];
    ledger_.books_[device.index()].foreign = before.foreign;
    ledger_.update_use(device);
  }
}

void Hypothesis::free_memory(DeviceId device, std::int64_t bytes) {
  const NodeId node = ledger_.fleet_.node_of(device);
  steps_.push_back({.node = node,
                    .page = ledger_.nodes_[node.index()],
                    .books = {{device, ledger_.books_[device.index()]}}});
  ledger_.books_[device.index()].foreign -= bytes;
  ledger_.update_use(device);
  ledger_.mark(node);
}

void Hypothesis::undo_to(std::size_t mark) {
  while (steps_.size() > mark) {
    Step& step = steps_.back();
    ledger_.nodes_[step.node.index()] = step.page;
    for (auto& [device, book] : step.books) {
      ledger_.books_[device.index()] = std::move(book);
      if (ledger_.fleet_.present(device)) {
        ledger_.update_use(device);
      }
    }
    ledger_.mark(step.node);
    steps_.pop_back();
  }
}

}  // namespace berth::core
