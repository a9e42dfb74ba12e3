#include "core/model/request.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/wide.h"
#include "core/model/device.h"

namespace berth::core {

bool DeviceFilter::empty() const {
  return models.empty() && use_types.empty() && avoid_types.empty() && use_uuids.empty() &&
         avoid_uuids.empty();
}

DeviceAsk DeviceAsk::memory_mib(std::int64_t mib, int count) {
  DeviceAsk ask;
  ask.kind = AskKind::memory;
  ask.mib = mib;
  ask.count = count;
  return ask;
}

DeviceAsk DeviceAsk::fraction_nano(std::int64_t nano, int count) {
  DeviceAsk ask;
  ask.kind = AskKind::fraction;
  ask.nano = nano;
  ask.count = count;
  return ask;
}

DeviceAsk DeviceAsk::replica_part() {
  DeviceAsk ask;
  ask.kind = AskKind::replica;
  ask.count = 1;
  return ask;
}

DeviceAsk DeviceAsk::whole_devices(int count) {
  DeviceAsk ask;
  ask.kind = AskKind::whole;
  ask.count = count;
  return ask;
}

DeviceAsk DeviceAsk::mig_instances(std::string profile, int count) {
  DeviceAsk ask;
  ask.kind = AskKind::mig;
  ask.mig_profile = std::move(profile);
  ask.count = count;
  return ask;
}

namespace {

Error field_error(const ContainerAsk& container, std::string_view field, std::int64_t value,
                  std::string_view rule) {
  return invalid_argument(
      fmt::format("container {}: {} is {}; {}", container.name, field, value, rule));
}

Result<void> check_sizes(const ContainerAsk& container) {
  const DeviceAsk& gpu = container.gpu;
  if (gpu.kind == AskKind::memory && (gpu.mib < 1 || gpu.mib > kMaxAskMib)) {
    return field_error(container, "GPU memory (MiB)", gpu.mib,
                       "it must lie between 1 and 8796093022207");
  }
  if (gpu.kind == AskKind::fraction && (gpu.nano < 1 || gpu.nano >= kWholeNano.count())) {
    return field_error(container, "GPU fraction (10^-9)", gpu.nano,
                       "it must lie above 0 and below 1; ask for whole devices instead of 1");
  }
  if (gpu.limit_mib.has_value() && (*gpu.limit_mib < 1 || *gpu.limit_mib > kMaxAskMib)) {
    return field_error(container, "GPU memory limit (MiB)", *gpu.limit_mib,
                       "it must lie between 1 and 8796093022207");
  }
  if (gpu.kind == AskKind::memory && gpu.limit_mib.has_value() && *gpu.limit_mib < gpu.mib) {
    return field_error(container, "GPU memory limit (MiB)", *gpu.limit_mib,
                       "it must not be below the request");
  }
  if (gpu.limit_nano.has_value() &&
      (*gpu.limit_nano < 1 || *gpu.limit_nano > kWholeNano.count() ||
       (gpu.kind == AskKind::fraction && *gpu.limit_nano < gpu.nano))) {
    return field_error(container, "GPU fraction limit (10^-9)", *gpu.limit_nano,
                       "it must be at least the fraction asked for and at most 1");
  }
  return success();
}

Result<void> check_container(const ContainerAsk& container) {
  const DeviceAsk& gpu = container.gpu;
  if (container.name.empty()) {
    return invalid_argument("a container has an empty name; every container needs one");
  }
  if (!gpu.wants_gpu()) {
    return success();
  }
  if (gpu.count < 1 || gpu.count > kMaxAskCount) {
    return field_error(container, "device count", gpu.count, "it must lie between 1 and 1024");
  }
  TRY_VOID(check_sizes(container));
  if (gpu.compute_milli < 0 || gpu.compute_milli > 1000) {
    return field_error(container, "compute share (milli)", gpu.compute_milli,
                       "it must lie between 0 and 1000");
  }
  if (gpu.kind == AskKind::mig && gpu.mig_profile.empty()) {
    return invalid_argument(fmt::format(
        "container {}: the MIG profile is empty; name one, e.g. 1g.5gb", container.name));
  }
  if (gpu.is_exclusive() && (gpu.limit_mib.has_value() || gpu.limit_nano.has_value())) {
    return invalid_argument(fmt::format(
        "container {}: a whole device has no memory limit; leave the limit out", container.name));
  }
  return success();
}

}  // namespace

Result<Request> Request::create(RequestSpec spec) {
  if (spec.cpu < Milli() || spec.cpu > Milli(kMaxCpuMilli)) {
    return invalid_argument(fmt::format("cpu is {} millicores; it must lie between 0 and {}",
                                        spec.cpu.count(), kMaxCpuMilli));
  }
  if (spec.ram < Memory() || spec.ram > Memory::mib(kMaxMemoryMib)) {
    return invalid_argument(fmt::format("ram is {} bytes; it must lie between 0 and {} MiB",
                                        spec.ram.in_bytes(), kMaxMemoryMib));
  }
  if (spec.containers.size() > kMaxContainers) {
    return invalid_argument(fmt::format("{} containers; at most {} are supported",
                                        spec.containers.size(), kMaxContainers));
  }
  for (ContainerAsk& container : spec.containers) {
    TRY_VOID(check_container(container));
    container.gpu.long_name = container.gpu.is_share() && container.name.size() > kLongestKeyName;
  }
  return Request(std::move(spec));
}

bool Request::wants_gpu() const {
  return std::ranges::any_of(spec_.containers,
                             [](const ContainerAsk& c) { return c.gpu.wants_gpu(); });
}

namespace {

std::int64_t fraction_of(std::int64_t nano, std::int64_t usable_mib) {
  const auto product = static_cast<Int128>(nano) * usable_mib;
  return static_cast<std::int64_t>(product / kWholeNano.count());
}

}  // namespace

std::int64_t request_mib_on(const DeviceAsk& ask, std::int64_t usable_mib, int gpu_replicas) {
  switch (ask.kind) {
    case AskKind::none: return 0;
    case AskKind::memory: return ask.mib;
    case AskKind::fraction: return fraction_of(ask.nano, usable_mib);
    case AskKind::replica: return gpu_replicas > 0 ? usable_mib / gpu_replicas : 0;
    case AskKind::whole:
    case AskKind::mig: return usable_mib;
  }
  return 0;
}

std::int64_t limit_mib_on(const DeviceAsk& ask, std::int64_t usable_mib, int gpu_replicas) {
  const std::int64_t request = request_mib_on(ask, usable_mib, gpu_replicas);
  if (ask.limit_mib.has_value()) {
    return std::max(request, *ask.limit_mib);
  }
  if (ask.limit_nano.has_value()) {
    return std::max(request, fraction_of(*ask.limit_nano, usable_mib));
  }
  return request;
}

}  // namespace berth::core
