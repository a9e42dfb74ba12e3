// Which devices of one node the containers of a task get.
//
// A task with one GPU container needs no search: the policy chooses. A task with several is placed
// container by container, hardest first, with backtracking, so that "does not fit" is a proof
// unless the step budget ended. Charges follow annotations.md 1.4, "pod phases on one Device": on a
// device the charge is the larger of everything that runs together and of each init container with
// the sidecars started before it. Thread-safety: pure functions over const books.
#pragma once

#include <cstdint>
#include <vector>

#include "core/placement/policy.h"

namespace berth::core {

// One container's devices on a node, in grant order.
struct ContainerPlaces {
  std::uint32_t container = 0;
  Places places;
  bool linked = true;  // false: it prefers joined devices, and got others
};

struct TaskSearch {
  Cause cause = Cause::none;                // none: it fits
  std::vector<ContainerPlaces> containers;  // parallel to Shape::gpu_containers
  std::int64_t base = 0;                    // sum of the policy's bases
  std::uint64_t lost = 0;
  bool opens_idle = false;
};

struct TaskInput {
  const NodeInput& on;
  const Shape& shape;
  const StaticFit& fit;
  std::uint64_t allowed = ~std::uint64_t{0};  // device places that may be used
};

// Node rules that read the books: slots, CPU, RAM. None if the task could come here.
Cause node_refusal(const Shape& shape, const NodeFace& face);

// Device places that may take the ask now; `cause` = most advanced refusal when too few do.
struct AskPlaces {
  std::uint64_t fits = 0;
  Cause cause = Cause::none;
};

AskPlaces places_for(const DeviceAsk& ask, const AskFit& fit, std::span<const DeviceFace> devices,
                     std::uint64_t allowed);

// Places a task that is not `simple` (several containers, phases, NUMA).
// Without a policy the first devices that fit are taken.
TaskSearch search_task(const Policy* policy, const TaskInput& input);

// What the task will take of each device it was given (phases folded).
std::vector<DeviceCharge> charges_for(const Shape& shape, const StaticFit& fit,
                                      std::span<const DeviceFace> devices,
                                      std::span<const DeviceId> ids,
                                      const std::vector<ContainerPlaces>& containers);

}  // namespace berth::core
