// Hypothesis: the books as they would be if some grants left and others came.
//
//   Hypothesis what_if(ledger);
//   what_if.take_out(victim, grant);
//   what_if.put(claimant, planned);
//   …                                 // the pages and faces are those of that world
//                                     // leaving the scope puts every page back as it was
//
// It works on the real pages, so whoever reads faces or follows the change log sees the supposed
// world and pays only for the nodes that differ. Steps are undone in reverse, down to any mark, to
// the byte and to the order of holdings. No event may reach the ledger while one is open.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/ledger/ledger.h"

namespace berth::core {

class Hypothesis {
 public:
  explicit Hypothesis(Ledger& ledger) : ledger_(ledger) { ++ledger_.hypotheses_; }

  ~Hypothesis() {
    undo_to(0);
    --ledger_.hypotheses_;
  }

  Hypothesis(const Hypothesis&) = delete;
  Hypothesis& operator=(const Hypothesis&) = delete;

  // As if the grant had ended and its processes were gone: its measured use goes with it, and
  // nothing of it turns up as foreign use.
  void take_out(WorkloadId workload, const Grant& grant);
  // As if it had been granted and ran.
  void put(WorkloadId workload, const Grant& grant);
  // As if so much of what is in use on the device were not.
  void free_memory(DeviceId device, std::int64_t bytes);

  std::size_t mark() const { return steps_.size(); }

  // Takes back every step after the mark.
  void undo_to(std::size_t mark);

 private:
  struct Step {
    NodeId node;
    Ledger::NodePage page;
    std::vector<std::pair<DeviceId, DeviceBook>> books;
  };

  void remember(const Grant& grant);

  Ledger& ledger_;
  std::vector<Step> steps_;
};

}  // namespace berth::core
