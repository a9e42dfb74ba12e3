// Scratch: a whole plan tried on the engine's own state and taken back.
//
//   Scratch scratch(impl);
//   scratch.take_out(victim);                     // books and queues as if it had ended
//   if (scratch.put(member, std::move(grant))) …  // books and queues as if it ran
//   std::vector<Planned> plan = scratch.planned();
//                                                 // leaving the scope leaves nothing
//
// Steps are undone in reverse, down to any mark. Nothing outside the engine sees any of it, and
// only what differs is paid for. Thread-safety: none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/engine/engine.h"
#include "core/ledger/hypothesis.h"
#include "core/model/ids.h"
#include "core/model/workload.h"

namespace berth::core {

// A grant that was found for a workload and is booked nowhere.
struct Planned {
  WorkloadId workload;
  std::unique_ptr<Grant> grant;
};

class Scratch {
 public:
  explicit Scratch(Engine::Impl& engine);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The workload holds a grant.
  void take_out(WorkloadId workload);
  void put(WorkloadId workload, std::unique_ptr<Grant> grant);

  std::size_t mark() const { return steps_.size(); }
  void undo_to(std::size_t mark);

  bool is_out(WorkloadId workload) const;
  // The grant put for the workload, or null.
  const Grant* planned_for(WorkloadId workload) const;
  // Those put after the mark, in order.
  std::vector<WorkloadId> planned_since(std::size_t mark) const;

  // While it lives, what was put for these workloads is not in the queues' books.
  class Aside {
   public:
    Aside(Scratch& scratch, std::span<const WorkloadId> workloads);
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    Scratch& scratch_;
    std::span<const WorkloadId> workloads_;
  };

  // Everything put, in order. The scratch is undone by it.
  std::vector<Planned> take_planned();

 private:
  struct Step {
    WorkloadId workload;
    std::unique_ptr<Grant> grant;  // put; null: taken out
    std::size_t books = 0;         // mark in the hypothesis
  };

  Engine::Impl& engine_;
  Hypothesis books_;
  std::vector<Step> steps_;
};

}  // namespace berth::core
