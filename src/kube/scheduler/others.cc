#include "kube/scheduler/others.h"

#include <algorithm>
#include <array>

#include "kube/objects/amounts.h"
#include "kube/scheduler/pod_plan.h"

namespace berth::kube {

bool is_other_resource(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOwn{"cpu",
                                                 "memory",
                                                 "pods",
                                                 "nvidia.com/gpu",
                                                 "nvidia.com/gpu.shared",
                                                 "nvidia.com/gpumem",
                                                 "nvidia.com/gpumem-percentage",
                                                 "nvidia.com/gpucores"};
  constexpr std::array<std::string_view, 2> kOwnToo{"nvidia.com/mig-", "nvidia.com/priority"};
  return std::ranges::find(kOwn, name) == kOwn.end() &&
         std::ranges::none_of(kOwnToo,
                              [&](std::string_view start) { return name.starts_with(start); });
}

std::map<std::string, std::int64_t, std::less<>> offered_by(const Node& node) {
  Labels others;
  for (const auto& [name, quantity] : node.allocatable) {
    if (is_other_resource(name)) {
      others.emplace(name, quantity);
    }
  }
  const Amounts amounts = read_capacity(others);
  return {amounts.begin(), amounts.end()};
}

Result<Footprint> footprint_of(const Pod& pod) {
  TRY(const Amounts amounts, effective_request(pod));
  Footprint takes;
  for (const auto& [name, amount] : amounts) {
    if (name == "cpu") {
      takes.cpu_milli = amount;
    } else if (name == "memory") {
      takes.ram_bytes = amount;
    } else if (is_other_resource(name) && amount > 0) {
      takes.others.emplace_back(name, amount);
    }
  }
  return takes;
}

}  // namespace berth::kube
