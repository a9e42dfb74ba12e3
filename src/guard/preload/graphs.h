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

// What running an executable needs: its device's graph memory.
struct GraphNeed {
  std::uint64_t bytes = 0;  // 0: no memory nodes
  int target = kUntouched;
  CuDevice device = -1;
  bool ran = false;  // since the last trim: its memory is reserved already
};
GraphNeed need_of(CuHandle executable);
void graph_ran(CuHandle executable, const GraphNeed& need);

// Runs an executable: `forward` calls the driver.
template <typename Forward>
int run_graph(CuHandle executable, Forward&& forward) {
  const GraphNeed need = need_of(executable);
  if (need.bytes == 0) return forward();
  Pool* memory = graph_entry(need.target, need.device);
  Charging charging = Charging::uncounted;
  if (!need.ran) charging = charge(need.target, need.bytes, true);
  if (charging == Charging::refused) {
    if (memory == nullptr || !has_slack(*memory, need.bytes)) {
      refuse(need.target, need.bytes);
      return kCudaOutOfMemory;
    }
    charging = Charging::uncounted;
  }
  int code = kCudaSuccess;
  {
    // The reserve grows to at most what is held for it here; then it is read.
    Reservation reservation(need.target, need.bytes, charging);
    code = forward();
    if (code == kCudaSuccess && memory != nullptr && charging == Charging::charged) {
      if (settle_pool(*memory, reservation)) memory = nullptr;
    }
  }
  if (code != kCudaSuccess) return code;
  if (memory != nullptr) settle_pool(*memory);
  graph_ran(executable, need);
  return code;
}

}  // namespace berth::guard
