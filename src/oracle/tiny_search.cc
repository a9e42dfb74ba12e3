#include "oracle/tiny_search.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

namespace berth::oracle {
namespace {

// CPU or RAM of a node that all items together cannot use up: never counted down, so that states
// differ only in what can matter.
constexpr std::int64_t kAmple = std::numeric_limits<std::int64_t>::max();
// Remembering more states costs memory and gains little; the answer is the same without.
constexpr std::size_t kMaxRemembered = 1'000'000;

void append(std::string& key, std::int64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  key.append(bytes, sizeof bytes);
}

std::int64_t capped(std::int64_t free, std::int64_t all_demand) {
  return free >= all_demand ? kAmple : free;
}

std::int64_t less(std::int64_t free, std::int64_t taken) {
  return free == kAmple ? kAmple : free - taken;
}

std::int64_t sum_or_ample(std::int64_t sum, std::int64_t free) {
  return sum == kAmple || free == kAmple ? kAmple : sum + free;
}

std::vector<std::int64_t> running_sums(std::vector<std::int64_t> demands) {
  std::ranges::sort(demands);
  std::vector<std::int64_t> sums{0};
  for (const std::int64_t demand : demands)
    sums.push_back(sums.back() + demand);
  return sums;
}

// The most items whose least possible demand stays within `free`.
int most_within(const std::vector<std::int64_t>& sums, std::int64_t free) {
  return static_cast<int>(std::ranges::upper_bound(sums, free) - sums.begin()) - 1;
}

// Hardest first: few devices will do for them, so wrong turns show early.
auto hardness(const TinyItem& item) {
  return std::tuple(!item.whole, -item.devices, -item.memory.count(), -item.cpu.count(),
                    -item.ram.count(), !item.same_group, item.allowed);
}

// The same item, with what plays no part made equal.
TinyItem plain(TinyItem item) {
  if (item.whole || item.devices == 0) item.memory = Memory();
  if (item.devices == 0) {
    item.whole = false;
    item.allowed = kAnyDevice;
  }
  if (item.devices < 2) item.same_group = false;
  return item;
}

bool allows(const TinyItem& item, int device) { return (item.allowed >> device & 1) != 0; }

std::int64_t memory_demand(const TinyItem& item) { return item.memory.count() * item.devices; }

}  // namespace

TinySearch::TinySearch(const TinyWorld& world, const std::vector<TinyItem>& items,
                       std::int64_t max_steps)
    : current_(items.size()), best_(items.size()), max_steps_(max_steps) {
  group_items(items);
  sum_remaining_demand();
  set_up_state(world);
}

void TinySearch::group_items(const std::vector<TinyItem>& items) {
  std::vector<std::pair<TinyItem, int>> order;
  for (const TinyItem& item : items)
    order.emplace_back(plain(item), static_cast<int>(order.size()));
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return hardness(entry.first); });
  for (const auto& [item, index] : order) {
    if (classes_.empty() || hardness(classes_.back().item) != hardness(item)) {
      classes_.push_back({item, {}});
    }
    classes_.back().members.push_back(index);
    groups_matter_ |= item.same_group;
  }
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const std::size_t end = item_at_.size() + classes_[c].members.size();
    for (const int member : classes_[c].members) {
      item_at_.push_back(member);
      class_at_.push_back(c);
      class_end_.push_back(end);
    }
  }
}

void TinySearch::sum_remaining_demand() {
  for (std::size_t position = 0; position <= item_at_.size(); ++position) {
    std::vector<std::int64_t> memory, whole_devices, cpu, ram;
    for (std::size_t p = position; p < item_at_.size(); ++p) {
      const TinyItem& item = classes_[class_at_[p]].item;
      memory.push_back(memory_demand(item));
      whole_devices.push_back(item.whole ? item.devices : 0);
      cpu.push_back(item.cpu.count());
      ram.push_back(item.ram.count());
    }
    remaining_.push_back({running_sums(std::move(memory)), running_sums(std::move(whole_devices)),
                          running_sums(std::move(cpu)), running_sums(std::move(ram))});
  }
}

void TinySearch::set_up_state(const TinyWorld& world) {
  const std::int64_t all_cpu = remaining_.front().cpu.back();
  const std::int64_t all_ram = remaining_.front().ram.back();
  const bool whole_matters = remaining_.front().whole_devices.back() > 0;
  std::vector<std::vector<bool>> kinds;  // for each kind, the classes that may use it
  for (const TinyNode& node : world.nodes) {
    nodes_.push_back({.cpu = capped(node.cpu.count(), all_cpu),
                      .ram = capped(node.ram.count(), all_ram),
                      .first_device = static_cast<int>(devices_.size()),
                      .device_count = static_cast<int>(node.devices.size())});
    for (const TinyDevice& device : node.devices) {
      std::vector<bool> allowed;
      for (const ItemClass& c : classes_) {
        allowed.push_back(allows(c.item, static_cast<int>(devices_.size())));
      }
      auto kind = std::ranges::find(kinds, allowed);
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), allowed);
      devices_.push_back({.group = groups_matter_ ? device.group : 0,
                          .kind = static_cast<int>(kind - kinds.begin()),
                          .free = device.free.count(),
                          .empty = whole_matters && device.empty});
    }
  }
  for (NodeState& node : nodes_)
    refresh_key(node);
}

PackOutcome TinySearch::place_all_but(int skips) { return search(0, skips); }

PackOutcome TinySearch::search(std::size_t position, int skips) {
  if (current_count_ > best_count_) {
    best_ = current_;
    best_count_ = current_count_;
  }
  const int left = static_cast<int>(item_at_.size() - position);
  if (left == 0) return PackOutcome::proved_possible;
  if (steps_ >= max_steps_) return PackOutcome::budget_ended;
  ++steps_;
  if (left - most_placeable(position) > skips) return PackOutcome::proved_impossible;
  const std::string state = state_key(position);
  const auto known = failed_.find(state);
  const bool is_known = known != failed_.end();
  if (is_known && known->second >= skips) return PackOutcome::proved_impossible;

  std::vector<int> tried;  // nodes in equal states lead to equal states
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (std::ranges::find(tried, nodes_[n].key) != tried.end()) continue;
    tried.push_back(nodes_[n].key);
    const PackOutcome outcome = try_node({position, skips, n});
    if (outcome != PackOutcome::proved_impossible) return outcome;
  }
  const PackOutcome outcome = leave_out_rest_of_class(position, skips);
  if (outcome != PackOutcome::proved_impossible) return outcome;
  if (is_known || failed_.size() < kMaxRemembered) {
    int& failed = failed_[state];
    failed = std::max(failed, skips);
  }
  return PackOutcome::proved_impossible;
}

// Equal items are exchangeable: if one of them stays out, let it be the last ones.
PackOutcome TinySearch::leave_out_rest_of_class(std::size_t position, int skips) {
  const int left_out = static_cast<int>(class_end_[position] - position);
  if (left_out > skips) return PackOutcome::proved_impossible;
  return search(class_end_[position], skips - left_out);
}

PackOutcome TinySearch::try_node(const Choice& choice) {
  const TinyItem& item = classes_[class_at_[choice.position]].item;
  const NodeState& node = nodes_[choice.node];
  if (item.cpu.count() > node.cpu || item.ram.count() > node.ram) {
    return PackOutcome::proved_impossible;
  }
  std::vector<int> chosen;
  return choose_devices(choice, candidates_on(item, node), 0, chosen);
}

// All ways to choose the item's devices from candidates[from..] on top of those chosen, equal
// devices taken from the left only.
PackOutcome TinySearch::choose_devices(const Choice& choice, const std::vector<int>& candidates,
                                       std::size_t from, std::vector<int>& chosen) {
  const TinyItem& item = classes_[class_at_[choice.position]].item;
  if (static_cast<int>(chosen.size()) == item.devices) return place_and_go_on(choice, chosen);
  for (std::size_t i = from; i < candidates.size(); ++i) {
    const DeviceState& device = state_of(candidates[i]);
    if (i > from && device == state_of(candidates[i - 1])) continue;
    if (item.same_group && !chosen.empty() && device.group != state_of(chosen.front()).group) {
      continue;
    }
    chosen.push_back(candidates[i]);
    const PackOutcome outcome = choose_devices(choice, candidates, i + 1, chosen);
    chosen.pop_back();
    if (outcome != PackOutcome::proved_impossible) return outcome;
  }
  return PackOutcome::proved_impossible;
}

PackOutcome TinySearch::place_and_go_on(const Choice& choice, const std::vector<int>& chosen) {
  const TinyItem& item = classes_[class_at_[choice.position]].item;
  const std::size_t index = static_cast<std::size_t>(item_at_[choice.position]);
  NodeState& node = nodes_[choice.node];
  const NodeState node_before = node;
  std::vector<DeviceState> devices_before;
  TinyPlacement placement{.node = static_cast<int>(choice.node), .devices = {}};
  for (const int d : chosen) {
    DeviceState& device = state_of(d);
    devices_before.push_back(device);
    device.free = item.whole ? 0 : device.free - item.memory.count();
    device.empty = false;
    placement.devices.push_back(d - node.first_device);
  }
  std::ranges::sort(placement.devices);
  node.cpu = less(node.cpu, item.cpu.count());
  node.ram = less(node.ram, item.ram.count());
  refresh_key(node);
  current_[index] = std::move(placement);
  ++current_count_;

  const PackOutcome outcome = search(choice.position + 1, choice.skips);

  --current_count_;
  current_[index].reset();
  for (std::size_t i = 0; i < chosen.size(); ++i)
    state_of(chosen[i]) = devices_before[i];
  node = node_before;
  return outcome;
}

int TinySearch::most_placeable(std::size_t position) const {
  std::int64_t memory = 0;
  std::int64_t empty_devices = 0;
  std::int64_t cpu = 0;
  std::int64_t ram = 0;
  for (const DeviceState& device : devices_) {
    memory += device.free;
    empty_devices += device.empty ? 1 : 0;
  }
  for (const NodeState& node : nodes_) {
    cpu = sum_or_ample(cpu, node.cpu);
    ram = sum_or_ample(ram, node.ram);
  }
  const RemainingDemand& demand = remaining_[position];
  int most = std::min({most_within(demand.memory, memory),
                       most_within(demand.whole_devices, empty_devices),
                       most_within(demand.cpu, cpu), most_within(demand.ram, ram)});
  int alone = 0;  // items that would fit if they came alone
  for (std::size_t p = position; p < item_at_.size(); p = class_end_[p]) {
    if (fits_somewhere(classes_[class_at_[p]].item)) alone += static_cast<int>(class_end_[p] - p);
  }
  return std::min(most, alone);
}

bool TinySearch::fits_somewhere(const TinyItem& item) const {
  return std::ranges::any_of(nodes_, [&](const NodeState& node) {
    if (item.cpu.count() > node.cpu || item.ram.count() > node.ram) return false;
    return static_cast<int>(candidates_on(item, node).size()) >= item.devices;
  });
}

// The devices that could take their part of the item, equal ones side by side, the tightest first.
std::vector<int> TinySearch::candidates_on(const TinyItem& item, const NodeState& node) const {
  std::vector<int> candidates;
  if (item.devices == 0) return candidates;
  for (int d = node.first_device; d < node.first_device + node.device_count; ++d) {
    const DeviceState& device = state_of(d);
    const bool has_room = item.whole ? device.empty : item.memory.count() <= device.free;
    if (has_room && allows(item, d)) candidates.push_back(d);
  }
  std::ranges::stable_sort(candidates, {}, [&](int d) { return state_of(d); });
  return candidates;
}

// The node's state up to the order of its devices and the names of its groups.
void TinySearch::refresh_key(NodeState& node) {
  std::vector<DeviceState> devices(devices_.begin() + node.first_device,
                                   devices_.begin() + node.first_device + node.device_count);
  std::ranges::sort(devices);
  std::vector<std::vector<DeviceState>> groups;
  for (DeviceState device : devices) {
    if (groups.empty() || groups.back().front().group != device.group) groups.emplace_back();
    groups.back().push_back(device);
  }
  for (std::vector<DeviceState>& group : groups) {
    for (DeviceState& device : group)
      device.group = 0;
  }
  std::ranges::sort(groups);

  std::string key;
  append(key, node.cpu);
  append(key, node.ram);
  for (const std::vector<DeviceState>& group : groups) {
    append(key, static_cast<std::int64_t>(group.size()));
    for (const DeviceState& device : group) {
      append(key, device.free);
      append(key, 2 * device.kind + (device.empty ? 1 : 0));
    }
  }
  node.key =
      node_keys_.try_emplace(std::move(key), static_cast<int>(node_keys_.size())).first->second;
}

// The whole state up to the order of the nodes.
std::string TinySearch::state_key(std::size_t position) const {
  std::vector<int> keys;
  for (const NodeState& node : nodes_)
    keys.push_back(node.key);
  std::ranges::sort(keys);
  std::string state;
  append(state, static_cast<std::int64_t>(position));
  for (const int key : keys)
    append(state, key);
  return state;
}

}  // namespace berth::oracle
