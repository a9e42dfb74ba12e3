#include "guard/preload/graphs.h"

#include <sys/mman.h>

#include "guard/preload/grant.h"
#include "guard/preload/real.h"

namespace berth::guard {

namespace {

constexpr int kMaxNesting = 16;

std::uint64_t key_of(CuHandle executable) { return reinterpret_cast<std::uint64_t>(executable); }

// Bytes of memory nodes by device ordinal; graphs work on few devices.
struct Sums {
  std::uint64_t bytes[64] = {};
};

void add_nodes(CuHandle graph, Sums& sums, int nesting);

void add_node(CuHandle node, Sums& sums, int nesting) {
  int type = -1;
  if (driver<Name::cuGraphNodeGetType>(node, &type) != kCudaSuccess) return;
  if (type == kNodeAlloc) {
    AllocNodeParams params = {};
    if (driver<Name::cuGraphMemAllocNodeGetParams>(node, &params) != kCudaSuccess) return;
    const MemLocation& location = params.pool.location;
    if (location.type != kLocationDevice || location.id < 0 || location.id >= 64) return;
    std::uint64_t& sum = sums.bytes[location.id];
    sum += round_up(params.bytes, kPoolGrain);
    if (sum > kImpossible) sum = kImpossible;
  }
  if (type == kNodeChildGraph && nesting < kMaxNesting) {
    CuHandle child = nullptr;
    if (driver<Name::cuGraphChildGraphNodeGetGraph>(node, &child) == kCudaSuccess) {
      add_nodes(child, sums, nesting + 1);
    }
  }
}

void add_nodes(CuHandle graph, Sums& sums, int nesting) {
  Size count = 0;
  if (driver<Name::cuGraphGetNodes>(graph, static_cast<CuHandle*>(nullptr), &count) !=
          kCudaSuccess ||
      count == 0 || count > (Size{1} << 28U)) {
    return;
  }
  const std::size_t bytes = count * sizeof(CuHandle);
  auto* nodes = static_cast<CuHandle*>(
      sys::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  if (nodes == nullptr) return;
  const Size room = count;
  if (driver<Name::cuGraphGetNodes>(graph, nodes, &count) == kCudaSuccess) {
    for (Size i = 0; i < count && i < room; ++i)
      add_node(nodes[i], sums, nesting);
  }
  sys::unmap(nodes, bytes);
}

// What marks an executable that has run since the last trim.
std::uint32_t ran_mark(const Local& own) {
  return 1 + own.trims.load(std::memory_order_relaxed) % 4;
}

}  // namespace

// A graph's entry, one for each device, uses the fields of Held: bytes, target (of the policy), and
// as `context` the device's ordinal, plus 64 once it has run since the trim that `trims` counts
// (modulo 4).
void enter_graph(CuHandle executable, CuHandle graph) {
  Sums sums;
  add_nodes(graph, sums, 0);
  for (CuDevice device = 0; device < 64; ++device) {
    if (sums.bytes[device] == 0) continue;
    const int target = target_of_device(device);
    if (target == kUntouched) continue;
    const std::uint64_t bytes = sums.bytes[device] < kMaxBytes ? sums.bytes[device] : kMaxBytes;
    enter(local()->graphs, key_of(executable),
          Held{.bytes = bytes, .target = target, .context = static_cast<std::uint32_t>(device)}
              .packed());
    local()->has_graphs.store(true, std::memory_order_release);
  }
}

void graph_gone(CuHandle executable) {
  Local& own = *local();
  std::uint64_t value = 0;
  {
    const Locked locked(own.lock);
    while (own.graphs.take(key_of(executable), value)) {
    }
  }
  pool_memory_freed();
  settle_dirty_pools();
}

void graph_memory_trimmed(CuDevice device) {
  Local& own = *local();
  own.trims.fetch_add(1, std::memory_order_acq_rel);
  const int target = target_of_device(device);
  if (target < 0) return;
  if (Pool* memory = graph_entry(target, device)) settle_pool(*memory);
}

GraphNeeds needs_of(CuHandle executable) {
  Local& own = *local();
  GraphNeeds needs;
  const Locked locked(own.lock);
  const std::uint32_t now = ran_mark(own);
  own.graphs.each(key_of(executable), [&](std::uint64_t value) {
    if (needs.count == kTargets) return;
    const Held entry = Held::of(value);
    needs.need[needs.count++] = {.bytes = entry.bytes,
                                 .target = entry.target,
                                 .device = static_cast<CuDevice>(entry.context & 63U),
                                 .ran = entry.context >> 6U == now};
  });
  return needs;
}

bool reserve_for(GraphNeeds& needs) {
  for (int i = 0; i < needs.count; ++i) {
    GraphNeed& need = needs.need[i];
    if (need.ran) continue;
    need.charging = charge(need.target, need.bytes, true);
    if (need.charging != Charging::refused) continue;
    Pool* memory = graph_entry(need.target, need.device);
    if (need.target != kDenied && memory != nullptr && has_slack(*memory, need.bytes)) {
      need.charging = Charging::uncounted;
      continue;
    }
    refuse(need.target, need.bytes);
    while (--i >= 0) {
      if (needs.need[i].charging == Charging::charged) {
        release(needs.need[i].target, needs.need[i].bytes);
      }
    }
    return false;
  }
  return true;
}

void settle_graph(CuHandle executable, const GraphNeeds& needs, bool ran) {
  for (int i = 0; i < needs.count; ++i) {
    const GraphNeed& need = needs.need[i];
    // The reserve grows to at most what is held for it here; then it is read.
    Reservation reservation(need.target, need.bytes, need.charging);
    if (!ran) continue;
    Pool* memory = graph_entry(need.target, need.device);
    if (memory == nullptr) continue;
    if (need.charging != Charging::charged || !settle_pool(*memory, reservation)) {
      settle_pool(*memory);
    }
  }
  if (!ran) return;
  Local& own = *local();
  const Locked locked(own.lock);
  const std::uint32_t now = ran_mark(own);
  own.graphs.each(key_of(executable), [&](std::uint64_t& value) {
    Held entry = Held::of(value);
    entry.context = (entry.context & 63U) | (now << 6U);
    value = entry.packed();
  });
}

}  // namespace berth::guard
