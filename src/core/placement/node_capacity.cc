// How many equal members one node can take together.
#include <algorithm>
#include <bit>
#include <limits>

#include "core/placement/container_search.h"
#include "core/placement/member_counts.h"
#include "core/placement/pick_places.h"

namespace berth::core {

namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int32_t>::max();

// How often `each` fits into `room`; nothing asked for = as often as one likes.
std::int64_t times(std::int64_t room, std::int64_t each) {
  return each <= 0 ? kAny : std::min(kAny, std::max<std::int64_t>(0, room) / each);
}

// The largest t with sum over d of min(c_d, t) >= k t, at most `most`. The left side grows ever
// slower with t and the right one steadily, so that the answer is where they cross.
std::int64_t members_of(std::span<const std::int64_t> capacities, std::int64_t k,
                        std::int64_t most) {
  const auto holds = [&](std::int64_t t) {
    std::int64_t places = 0;
    for (const std::int64_t capacity : capacities) {
      places += std::min(capacity, t);
    }
    return places >= k * t;
  };
  std::int64_t low = 0;
  std::int64_t high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

std::int64_t members_for(const DeviceAsk& ask, const AskFit& fit,
                         std::span<const DeviceFace> devices, std::uint64_t allowed,
                         const LinkGraph* links, std::int64_t most) {
  std::array<std::int64_t, kMaxDevicesPerNode> capacities{};
  const std::uint64_t usable = fit.eligible & allowed;
  for (std::size_t place = 0; place < devices.size(); ++place) {
    if ((usable >> place & 1U) != 0) {
      capacities[place] = device_capacity(fit.needs[place], devices[place]);
    }
  }
  if (links == nullptr) {
    return members_of({capacities.data(), devices.size()}, ask.count, most);
  }
  // Link sets that do not overlap share no device, so their members add up.
  std::int64_t members = 0;
  std::uint64_t left = usable;
  while (left != 0 && members < most) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    const std::uint64_t set = left & (links->joined_to(place) | std::uint64_t{1} << place);
    left &= ~set;
    std::vector<std::int64_t> inside;
    for_each_place(set, [&](std::size_t at) { inside.push_back(capacities[at]); });
    members += members_of(inside, ask.count, most - members);
  }
  return members;
}

// Link sets that can be counted one by one; null: links bound nothing that is counted here.
const LinkGraph* countable_links(const DeviceAsk& ask, const StaticFit& fit) {
  return ask.links == LinkRule::required && ask.count > 1 && fit.links->is_disjoint()
             ? fit.links.get()
             : nullptr;
}

// One app container without a NUMA rule, whose link sets do not overlap if it needs one.
bool is_countable(const Shape& shape, const StaticFit& fit) {
  if (shape.simple || fit.asks.empty()) {
    return true;
  }
  const ContainerAsk& container = shape.request.containers()[shape.gpu_containers.front()];
  return fit.asks.size() == 1 && container.kind == ContainerKind::app && !container.gpu.numa_bind &&
         (container.gpu.links != LinkRule::required || fit.links->is_disjoint());
}

}  // namespace

std::int64_t device_capacity(const DeviceNeed& need, const DeviceFace& face) {
  if (device_refusal(need, face) != Cause::none) {
    return 0;
  }
  if (need.exclusive || need.mutex || need.compute >= 1000) {
    return 1;
  }
  const std::int64_t grants = need.cap == 0 ? kAny : need.cap - face.grants;
  return std::min({grants, times(face.headroom, need.request), times(face.limit_room, need.limit),
                   times(face.nano_left, need.nano), times(face.compute_left, need.compute)});
}

NodeCapacity count_on_node(const Shape& shape, const NodeFace& face,
                           std::span<const DeviceFace> devices, const StaticFit& fit,
                           std::uint64_t allowed) {
  NodeCapacity capacity{.members = 0, .exact = true};
  if (node_refusal(shape, face) != Cause::none) {
    return capacity;
  }
  capacity.members = std::min({times(face.slots_free, 1), times(face.cpu_free, shape.cpu),
                               times(face.ram_free, shape.ram)});
  // Each container on its own bounds the whole; with one simple container there is nothing else.
  for (std::size_t i = 0; i < fit.asks.size() && capacity.members > 0; ++i) {
    capacity.members = members_for(shape.ask(i), fit.asks[i], devices, allowed,
                                   countable_links(shape.ask(i), fit), capacity.members);
  }
  capacity.exact = capacity.members == 0 || is_countable(shape, fit);
  return capacity;
}

}  // namespace berth::core
