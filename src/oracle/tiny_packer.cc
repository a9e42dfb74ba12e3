#include "oracle/tiny_packer.h"

#include <algorithm>
#include <utility>

#include "oracle/tiny_search.h"

namespace berth::oracle {
namespace {

constexpr std::size_t kMaxDevices = 64;  // one bit each in TinyItem::allowed
constexpr std::size_t kMaxItems = 64;
// 64 items x 64 devices x 2^50 stays inside 63 bits.
constexpr std::int64_t kMaxQuantity = std::int64_t{1} << 50;

bool in_range(std::int64_t quantity) { return quantity >= 0 && quantity <= kMaxQuantity; }

Result<void> check(const TinyWorld& world) {
  std::size_t devices = 0;
  for (std::size_t n = 0; n < world.nodes.size(); ++n) {
    const TinyNode& node = world.nodes[n];
    const std::string name = "tiny packer: node " + std::to_string(n);
    if (!in_range(node.cpu.count()) || !in_range(node.ram.count())) {
      return invalid_argument(name + ": cpu and ram must be 0 to 2^50");
    }
    for (const TinyDevice& device : node.devices) {
      if (!in_range(device.free.count()) || !in_range(device.usable.count()) ||
          device.free > device.usable) {
        return invalid_argument(name + ": a device has " + std::to_string(device.free.in_bytes()) +
                                " bytes free of " + std::to_string(device.usable.in_bytes()) +
                                " usable; must be 0 <= free <= usable <= 2^50");
      }
    }
    devices += node.devices.size();
  }
  if (devices > kMaxDevices) {
    return invalid_argument("tiny packer: " + std::to_string(devices) + " devices, at most 64");
  }
  return success();
}

Result<void> check(const std::vector<TinyItem>& items) {
  if (items.size() > kMaxItems) {
    return invalid_argument("tiny packer: " + std::to_string(items.size()) + " items, at most 64");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const TinyItem& item = items[i];
    const std::string name = "tiny packer: item " + std::to_string(i);
    if (item.devices < 0 || item.devices > static_cast<int>(kMaxDevices)) {
      return invalid_argument(name + ": asks for " + std::to_string(item.devices) +
                              " devices, must be 0 to 64");
    }
    if (!in_range(item.memory.count()) || !in_range(item.cpu.count()) ||
        !in_range(item.ram.count())) {
      return invalid_argument(name + ": memory, cpu and ram must be 0 to 2^50");
    }
    if (item.devices > 0 && !item.whole && item.memory.count() == 0) {
      return invalid_argument(name + ": asks for no memory; ask for some or for whole devices");
    }
  }
  return success();
}

std::string name_of(std::size_t item) { return "item " + std::to_string(item); }

// The rules that concern one item's own placement (1 and 2).
std::optional<std::string> broken_by(const TinyItem& item, const TinyPlacement& placement,
                                     const TinyWorld& world) {
  if (placement.node < 0 || placement.node >= static_cast<int>(world.nodes.size()))
    return "is on no node of the world";
  if (static_cast<int>(placement.devices.size()) != item.devices) {
    return "has " + std::to_string(placement.devices.size()) + " devices, asked for " +
           std::to_string(item.devices);
  }
  const std::size_t node = static_cast<std::size_t>(placement.node);
  const std::vector<TinyDevice>& devices = world.nodes[node].devices;
  std::size_t first = 0;
  for (std::size_t n = 0; n < node; ++n)
    first += world.nodes[n].devices.size();
  for (std::size_t i = 0; i < placement.devices.size(); ++i) {
    const int d = placement.devices[i];
    if (d < 0 || d >= static_cast<int>(devices.size())) return "is on a device that its node lacks";
    if (i > 0 && d <= placement.devices[i - 1]) return "has a device twice or out of order";
    const std::size_t device = static_cast<std::size_t>(d);
    if ((item.allowed >> (first + device) & 1) == 0) return "is on a device that its mask forbids";
    if (item.same_group &&
        devices[device].group != devices[static_cast<std::size_t>(placement.devices[0])].group) {
      return "is spread over several groups";
    }
  }
  return std::nullopt;
}

}  // namespace

Result<PackAnswer> can_pack_all(const TinyWorld& world, const std::vector<TinyItem>& items,
                                std::int64_t max_steps) {
  TRY_VOID(check(world));
  TRY_VOID(check(items));
  TinySearch search(world, items, max_steps);
  PackAnswer answer;
  answer.outcome = search.place_all_but(0);
  answer.steps = search.steps();
  if (answer.outcome == PackOutcome::proved_possible) answer.packing = search.best();
  return answer;
}

Result<MostPackAnswer> pack_most(const TinyWorld& world, const std::vector<TinyItem>& items,
                                 std::int64_t max_steps) {
  TRY_VOID(check(world));
  TRY_VOID(check(items));
  TinySearch search(world, items, max_steps);
  const int count = static_cast<int>(items.size());
  int skips = 0;
  // Stops when a packing with `count - skips` items is known: fewer skips were ruled out before.
  while (search.best_count() < count - skips) {
    if (search.place_all_but(skips) != PackOutcome::proved_impossible) break;
    ++skips;
  }
  return MostPackAnswer{.placed = search.best_count(),
                        .at_most = count - skips,
                        .packing = search.best(),
                        .steps = search.steps()};
}

std::optional<std::string> broken_rule(const TinyWorld& world, const std::vector<TinyItem>& items,
                                       const TinyPacking& packing) {
  ASSERT(packing.size() == items.size(), packing.size(), items.size());
  TinyWorld left = world;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!packing[i]) continue;
    const TinyItem& item = items[i];
    if (auto broken = broken_by(item, *packing[i], world)) return name_of(i) + " " + *broken;
    TinyNode& node = left.nodes[static_cast<std::size_t>(packing[i]->node)];
    if (item.cpu > node.cpu) return name_of(i) + " takes CPU that its node does not have";
    if (item.ram > node.ram) return name_of(i) + " takes RAM that its node does not have";
    node.cpu -= item.cpu;
    node.ram -= item.ram;
    for (const int d : packing[i]->devices) {
      TinyDevice& device = node.devices[static_cast<std::size_t>(d)];
      if (item.whole && !device.empty)
        return name_of(i) + " takes a device whole that is not empty";
      if (!item.whole && item.memory > device.free)
        return name_of(i) + " takes memory that its device does not have";
      device.free = item.whole ? Memory() : device.free - item.memory;
      device.empty = false;
    }
  }
  return std::nullopt;
}

}  // namespace berth::oracle
