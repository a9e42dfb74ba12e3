// An exhaustive packer for tiny worlds: the proof behind "this does not fit".
//
//   TinyWorld world{.nodes = {{.cpu = Milli(8000), .ram = Memory::mib(32768),
//                              .devices = {{.usable = Memory::mib(16000), .free =
//                              Memory::mib(9000)}}}}};
//   std::vector<TinyItem> items(3, TinyItem{.memory = Memory::mib(4000)});
//   can_pack_all(world, items)->outcome;   // PackOutcome::proved_impossible
//   pack_most(world, items)->placed;       // 2
//
// It searches all placements by branch and bound, so that its answer owes nothing to the engine's
// heuristics. Three things keep it quick on the worlds it is for (up to about four nodes, sixteen
// devices, a dozen items): equal items are not permuted, devices and nodes that are interchangeable
// in the present state are tried once, and states that failed are remembered up to renaming. What
// it cannot finish within the step budget it says so: "budget ended" is never reported as
// "impossible".
//
// Rules of a packing, the same as the ledger's (they restate, they do not share code):
//   1. All devices of an item are distinct and on one node; with `same_group` they are also in one
//   group.
//   2. A device is used only if the item's mask allows it.
//   3. The memory asked from a device, summed over items, never exceeds what was free there.
//   4. An item that asks for whole devices takes empty ones and shares them with nobody.
//   5. CPU and RAM asked on a node, summed over items, never exceed what was free there.
//
// Thread-safety: pure functions of their arguments. Deterministic, including the step count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::oracle {

struct TinyDevice {
  Memory usable{};
  Memory free{};      // 0..usable: what may still be promised
  bool empty = true;  // no grant lives here, so the device may be taken whole (whatever little
                      // foreign use it shows)
  int group = 0;  // e.g. NUMA node or NVLink island; a label that has meaning within its node only
};

struct TinyNode {
  Milli cpu{};   // free
  Memory ram{};  // free
  std::vector<TinyDevice> devices{};
};

struct TinyWorld {
  std::vector<TinyNode> nodes;
};

inline constexpr std::uint64_t kAnyDevice = ~std::uint64_t{0};

struct TinyItem {
  int devices = 1;     // 0 = CPU and RAM only
  Memory memory{};     // of each device; ignored for whole devices, else at least one byte
  bool whole = false;  // takes its devices alone
  Milli cpu{};
  Memory ram{};
  bool same_group = false;
  std::uint64_t allowed =
      kAnyDevice;  // bit d: device d of the world, counted through the nodes in order
};

// Where an item went: its node and the indices of its devices within the node, ascending.
struct TinyPlacement {
  int node = 0;
  std::vector<int> devices{};
};

// One per item, in the order of the items; nothing where an item was left out.
using TinyPacking = std::vector<std::optional<TinyPlacement>>;

enum class PackOutcome {
  proved_possible,    // the packing is a witness
  proved_impossible,  // every placement was ruled out
  budget_ended,       // neither
};

struct PackAnswer {
  PackOutcome outcome = PackOutcome::budget_ended;
  TinyPacking packing;  // complete if proved_possible, else empty
  std::int64_t steps = 0;
};

struct MostPackAnswer {
  int placed = 0;       // items in the packing
  int at_most = 0;      // no packing holds more than this
  TinyPacking packing;  // a witness for `placed`
  std::int64_t steps = 0;

  // False only if the step budget ended first.
  bool is_proved() const { return placed == at_most; }
};

// One step is one state entered; a million take one to three seconds.
inline constexpr std::int64_t kDefaultSteps = 2'000'000;

// Both fail with `invalid_argument` outside of the limits: 64 devices, 64 items, quantities from 0
// to 2^50, free <= usable, `memory` > 0 unless whole or without devices.
Result<PackAnswer> can_pack_all(const TinyWorld& world, const std::vector<TinyItem>& items,
                                std::int64_t max_steps = kDefaultSteps);
Result<MostPackAnswer> pack_most(const TinyWorld& world, const std::vector<TinyItem>& items,
                                 std::int64_t max_steps = kDefaultSteps);

// The first rule that a packing breaks, as a sentence; nothing if it keeps all of them. It checks a
// witness without trusting the search. Requires a valid world and items, and one entry per item.
std::optional<std::string> broken_rule(const TinyWorld& world, const std::vector<TinyItem>& items,
                                       const TinyPacking& packing);

}  // namespace berth::oracle
