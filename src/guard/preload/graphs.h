// Graph memory: what the memory nodes of an executable graph will take when it runs.
//
// Charged is the device's reserve of graph memory. Before an executable runs for the first time
// since the last trim, the sum of its nodes is reserved, so that it can be refused; after it the
// reserve is read. Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"
#include "guard/preload/books.h"
#include "guard/preload/pools.h"

namespace berth::guard {

// Walks the nodes of the graph, child graphs too, and remembers what they allocate.
void enter_graph(CuHandle executable, CuHandle graph);
void graph_gone(CuHandle executable);
void graph_memory_trimmed(CuDevice device);

// True once any executable with memory nodes was seen in this process.
inline bool has_graphs() {
  const Local* own = g_local.load(std::memory_order_relaxed);
  return own != nullptr && own->has_graphs.load(std::memory_order_relaxed);
}

// What running an executable needs of one device's graph memory.
struct GraphNeed {
  std::uint64_t bytes = 0;
  int target = kUntouched;
  CuDevice device = -1;
  bool ran = false;  // since the last trim: its memory is reserved already
  Charging charging = Charging::uncounted;
};

// All of it; empty for an executable without memory nodes.
struct GraphNeeds {
  GraphNeed need[kTargets];
  int count = 0;
};
GraphNeeds needs_of(CuHandle executable);

// Reserves what is needed on every device. False: refused, and nothing is reserved.
bool reserve_for(GraphNeeds& needs);
// After the call of the driver: charges what the devices' graph memory has become.
void settle_graph(CuHandle executable, const GraphNeeds& needs, bool ran);

// Runs an executable: `forward` calls the driver.
template <typename Forward>
int run_graph(CuHandle executable, Forward&& forward) {
  GraphNeeds needs = needs_of(executable);
  if (needs.count == 0) return forward();
  if (!reserve_for(needs)) return kCudaOutOfMemory;
  const int code = forward();
  settle_graph(executable, needs, code == kCudaSuccess);
  return code;
}

}  // namespace berth::guard
