#include "core/engine/scratch.h"

#include <algorithm>

#include "core/engine/engine_impl.h"

namespace berth::core {

Scratch::Scratch(Engine::Impl& engine) : engine_(engine), books_(engine.ledger) {
  ++engine_.suppositions;
}

Scratch::~Scratch() {
  undo_to(0);
  --engine_.suppositions;
}

void Scratch::take_out(WorkloadId workload) {
  const Entry& entry = engine_.entry(workload);
  ASSERT(entry.holds() && !is_out(workload), workload.value());
  steps_.push_back({.workload = workload, .grant = nullptr, .books = books_.mark()});
  engine_.at(workload).supposed_gone = true;
  books_.take_out(workload, *entry.grant);
  engine_.unbook_queue(workload);
}

void Scratch::put(WorkloadId workload, std::unique_ptr<Grant> grant) {
  steps_.push_back({.workload = workload, .grant = std::move(grant), .books = books_.mark()});
  books_.put(workload, *steps_.back().grant);
  engine_.book_queue(workload, *steps_.back().grant);
}

void Scratch::undo_to(std::size_t mark) {
  while (steps_.size() > mark) {
    const Step& step = steps_.back();
    const Entry& entry = engine_.entry(step.workload);
    if (step.grant != nullptr) {
      engine_.unbook_queue(step.workload);
    } else {
      engine_.at(step.workload).supposed_gone = false;
      engine_.book_queue(step.workload, *entry.grant);
    }
    books_.undo_to(step.books);
    steps_.pop_back();
  }
}

bool Scratch::is_out(WorkloadId workload) const { return engine_.entry(workload).supposed_gone; }

const Grant* Scratch::planned_for(WorkloadId workload) const {
  for (const Step& step : steps_) {
    if (step.workload == workload && step.grant != nullptr) {
      return step.grant.get();
    }
  }
  return nullptr;
}

std::vector<WorkloadId> Scratch::planned_since(std::size_t mark) const {
  std::vector<WorkloadId> planned;
  for (std::size_t i = mark; i < steps_.size(); ++i) {
    if (steps_[i].grant != nullptr) {
      planned.push_back(steps_[i].workload);
    }
  }
  return planned;
}

Scratch::Aside::Aside(Scratch& scratch, std::span<const WorkloadId> workloads)
    : scratch_(scratch), workloads_(workloads) {
  for (const WorkloadId id : workloads_) {
    scratch_.engine_.unbook_queue(id);
  }
}

Scratch::Aside::~Aside() {
  for (const WorkloadId id : workloads_) {
    scratch_.engine_.book_queue(id, *scratch_.planned_for(id));
  }
}

std::vector<Planned> Scratch::take_planned() {
  std::vector<Planned> planned;
  while (!steps_.empty()) {
    Step& step = steps_.back();
    std::unique_ptr<Grant> grant;
    if (step.grant != nullptr) {
      grant = std::make_unique<Grant>(*step.grant);
      planned.push_back({.workload = step.workload, .grant = std::move(grant)});
    }
    undo_to(steps_.size() - 1);
  }
  std::ranges::reverse(planned);
  return planned;
}

}  // namespace berth::core
