#include "kube/objects/amounts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "request/phases.h"
#include "request/units.h"

namespace berth::kube {

namespace {

constexpr std::string_view kCpu = "cpu";

// Resources that a pod may state as a whole; others of `spec.resources` Kubernetes ignores.
bool is_pod_level(std::string_view resource) {
  return resource == kCpu || resource == "memory" || resource.starts_with("hugepages-");
}

Result<std::int64_t> amount_at(std::string_view where, std::string_view resource,
                               std::string_view quantity) {
  auto amount = read_amount(resource, quantity);
  if (!amount.ok()) {
    return invalid_argument(fmt::format("{}[{}]={}: {}", where, printable(resource),
                                        printable(shortened(quantity, 80)),
                                        amount.error().message()));
  }
  return amount;
}

Result<Amounts> amounts_at(std::string_view where, const Labels& quantities) {
  Amounts amounts;
  for (const auto& [resource, quantity] : quantities) {
    TRY(amounts[resource], amount_at(where, resource, quantity));
  }
  return amounts;
}

void raise(Amounts& amounts, const Amounts& to) {
  for (const auto& [resource, amount] : to) {
    std::int64_t& held = amounts[resource];
    held = std::max(held, amount);
  }
}

// What one container asks for, or holds while its resources change in place.
Result<Amounts> of_container(const Pod& pod, const request::ContainerWords& container) {
  const std::string where = fmt::format("spec.containers[{}].resources.requests", container.name);
  TRY(Amounts asked, amounts_at(where, container.requests));
  const auto given = pod.given.find(container.name);
  if (given == pod.given.end() || container.kind == core::ContainerKind::init) {
    return asked;
  }
  const std::string status = fmt::format("status.containerStatuses[{}]", container.name);
  TRY(const Amounts actual, amounts_at(status, given->second.requests));
  TRY(const Amounts allocated, amounts_at(status, given->second.allocated));
  Amounts held = pod.resize_infeasible ? Amounts{} : std::move(asked);
  raise(held, actual);
  raise(held, allocated);
  return held;
}

}  // namespace

Result<std::int64_t> read_amount(std::string_view resource, std::string_view quantity) {
  if (resource == kCpu) {
    const auto cpu = request::parse_cpu(quantity);
    if (!cpu) {
      return invalid_argument(cpu.error().rule);
    }
    return cpu->count();
  }
  const auto amount = request::parse_ram(quantity);  // bytes or units: the grammar is one
  if (!amount) {
    return invalid_argument("a quantity, zero or more, e.g. 2, 16Gi or 512M");
  }
  return amount->in_bytes();
}

Amounts read_capacity(const Labels& allocatable) {
  Amounts amounts;
  for (const auto& [resource, quantity] : allocatable) {
    if (const auto amount = read_amount(resource, quantity); amount.ok()) {
      amounts.emplace(resource, *amount);
    }
  }
  return amounts;
}

Result<Amounts> effective_request(const Pod& pod) {
  std::map<std::string, std::vector<request::PhaseUse>> uses;
  for (const request::ContainerWords& container : pod.words.containers) {
    TRY(const Amounts asked, of_container(pod, container));
    for (const auto& [resource, amount] : asked) {
      uses[resource].push_back({.kind = container.kind, .amount = amount});
    }
  }
  Amounts total;
  for (const auto& [resource, containers] : uses) {
    total[resource] = request::peak_use(containers);
  }
  for (const auto& [resource, quantity] : pod.pod_requests) {
    if (is_pod_level(resource)) {
      TRY(total[resource], amount_at("spec.resources.requests", resource, quantity));
    }
  }
  TRY(const Amounts overhead, amounts_at("spec.overhead", pod.overhead));
  for (const auto& [resource, amount] : overhead) {
    total[resource] += amount;
  }
  std::erase_if(total, [](const auto& entry) { return entry.second == 0; });
  total["pods"] = 1;
  return total;
}

}  // namespace berth::kube
