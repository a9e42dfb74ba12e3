#include "kube/scheduler/holdings.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "kube/objects/amounts.h"
#include "kube/objects/grant.h"
#include "request/units.h"

namespace berth::kube {

namespace {

constexpr std::string_view kReserved = "run.ai/reserve_for_gpu_index";
constexpr std::string_view kReservations = "kai-resource-reservation";
constexpr std::string_view kContainer = "nvidia.com/container.";
constexpr std::string_view kDevices = ".gpus.devices";
constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::string_view kMig = "nvidia.com/mig-";

std::string_view value_of(const Labels& labels, std::string_view key) {
  const auto found = labels.find(std::string(key));
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

// "a=GPU-1,GPU-2" -> the UUIDs, without the CDI kind before them.
std::vector<std::string> uuids_in(std::string_view list) {
  std::vector<std::string> uuids;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (const std::size_t equals = one.rfind('='); equals != std::string_view::npos) {
      one.remove_prefix(equals + 1);
    }
    if (!one.empty()) {
      uuids.emplace_back(one);
    }
  }
  return uuids;
}

// The device wholly, whatever its size: nobody else gets anything of it.
void hold_whole(const std::string& uuid, Holdings& holds) {
  if (std::ranges::find(holds.shares, uuid, &core::GrantAdopted::Share::uuid) !=
      holds.shares.end()) {
    return;
  }
  holds.shares.push_back(
      {.container = static_cast<std::uint32_t>(holds.containers.size()), .uuid = uuid});
  holds.containers.push_back({.name = fmt::format("held-{}", holds.containers.size()),
                              .gpu = core::DeviceAsk::whole_devices(1)});
}

// What NvFractions keys of a container say: devices and how much of each.
bool hold_shares(const Pod& pod, std::string_view name, std::string_view list, Holdings& holds) {
  const std::string key(kContainer);
  const std::string_view wanted =
      value_of(pod.meta.annotations, fmt::format("{}{}.gpu-memory.request", key, name));
  const auto size = request::parse_quantity(wanted);
  if (!size.has_value()) {
    return false;
  }
  const std::int64_t mib = size->ceil_mib();
  const auto limit = request::parse_quantity(
      value_of(pod.meta.annotations, fmt::format("{}{}.gpu-memory.limit", key, name)));
  const std::int64_t limit_mib = limit.has_value() ? std::max(mib, limit->ceil_mib()) : mib;
  core::ContainerAsk container{.name = std::string(name),
                               .gpu = core::DeviceAsk::memory_mib(mib, 0)};
  const std::string_view mode =
      value_of(pod.meta.annotations, fmt::format("{}{}.gpu-compute.mode", key, name));
  container.gpu.mode =
      mode == "sm-sharing" ? core::SharingMode::sm_sharing : core::SharingMode::time_slicing;
  for (const std::string& uuid : uuids_in(list)) {
    ++container.gpu.count;
    holds.shares.push_back({.container = static_cast<std::uint32_t>(holds.containers.size()),
                            .uuid = uuid,
                            .request_mib = mib,
                            .limit_mib = limit_mib});
  }
  holds.containers.push_back(std::move(container));
  return true;
}

// Devices that NvFractions keys name. What has no size is held wholly.
void read_fractions(const Pod& pod, Holdings& holds) {
  for (const auto& [key, list] : pod.meta.annotations) {
    if (!key.starts_with(kContainer) || !key.ends_with(kDevices)) {
      continue;
    }
    const std::string_view name = std::string_view(key).substr(
        kContainer.size(), key.size() - kContainer.size() - kDevices.size());
    if (!hold_shares(pod, name, list, holds)) {
      for (const std::string& uuid : uuids_in(list)) {
        hold_whole(uuid, holds);
      }
    }
  }
}

// What a vendor's plug-in gave out by number.
void read_counts(const Pod& pod, Holdings& holds) {
  const Result<Amounts> amounts = effective_request(pod);
  if (!amounts.ok()) {
    return;
  }
  for (const auto& [name, count] : *amounts) {
    if (name == kGpu) {
      holds.whole = count;
    } else if (name.starts_with(kMig)) {
      std::string profile = name.substr(kMig.size());
      for (std::size_t at = profile.find(".me"); at != std::string::npos;
           at = profile.find(".me", at + 1)) {
        profile[at] = '+';  // "1g.5gb.me" stands for 1g.5gb+me
      }
      holds.mig.emplace_back(std::move(profile), count);
    }
  }
}

Holdings foreign_holdings(const Pod& pod) {
  Holdings holds;
  if (pod.meta.namespace_name == kReservations) {
    const std::vector<std::string> uuids = uuids_in(value_of(pod.meta.annotations, kReserved));
    for (const std::string& uuid : uuids) {
      hold_whole(uuid, holds);
    }
    holds.whole = uuids.empty() ? 1 : 0;
    return holds;
  }
  read_fractions(pod, holds);
  if (holds.shares.empty()) {
    read_counts(pod, holds);
  }
  return holds;
}

core::DeviceAsk ask_of(const GrantedContainer& container) {
  core::DeviceAsk ask;
  const auto count = static_cast<int>(container.devices.size());
  if (container.exclusive) {
    ask = core::DeviceAsk::whole_devices(count);
  } else if (container.nano > 0) {
    ask = core::DeviceAsk::fraction_nano(container.nano, count);
  } else {
    ask = core::DeviceAsk::memory_mib(
        container.devices.empty() ? 0 : container.devices.front().request_mib, count);
  }
  ask.mode = container.mode;
  return ask;
}

// What an unreadable grant names is somebody else's: as much as it says, or all of the device.
Holdings unreadable(const std::vector<GrantedDevice>& devices, std::string why) {
  Holdings holds;
  holds.problem = std::move(why);
  for (const GrantedDevice& device : devices) {
    if (device.request_mib <= 0 || device.request_mib > core::kMaxAskMib) {
      hold_whole(device.uuid, holds);
      continue;
    }
    holds.shares.push_back({.container = static_cast<std::uint32_t>(holds.containers.size()),
                            .uuid = device.uuid,
                            .request_mib = device.request_mib,
                            .limit_mib = std::max(device.request_mib, device.limit_mib)});
    holds.containers.push_back({.name = fmt::format("foreign-{}", holds.containers.size()),
                                .gpu = core::DeviceAsk::memory_mib(device.request_mib)});
  }
  return holds;
}

}  // namespace

Holdings holdings_from(const GrantRecord& record) {
  Holdings holds{.foreign = false};
  for (const GrantedContainer& container : record.containers) {
    const auto index = static_cast<std::uint32_t>(holds.containers.size());
    holds.containers.push_back(
        {.name = container.name, .kind = container.kind, .gpu = ask_of(container)});
    for (const GrantedDevice& device : container.devices) {
      holds.shares.push_back({.container = index,
                              .uuid = device.uuid,
                              .request_mib = device.request_mib,
                              .limit_mib = device.limit_mib});
    }
  }
  return holds;
}

Holdings holdings_of(const Pod& pod, bool ours) {
  const std::string_view text = value_of(pod.meta.annotations, kGrantAnnotation);
  if (!ours || text.empty()) {
    Holdings holds = foreign_holdings(pod);
    holds.foreign = !ours;
    return holds;
  }
  const GrantReading reading = read_grant(text);
  if (!reading.record.has_value()) {
    return unreadable(
        reading.foreign,
        fmt::format("its grant cannot be read and counts as foreign use: {}", reading.problem));
  }
  if (reading.record->node != pod.words.preset_node) {
    std::vector<GrantedDevice> devices;
    for (const GrantedContainer& container : reading.record->containers) {
      devices.insert(devices.end(), container.devices.begin(), container.devices.end());
    }
    return unreadable(devices,
                      fmt::format("its grant is for node {}, and it lies on {}; it counts as "
                                  "foreign use",
                                  reading.record->node, pod.words.preset_node));
  }
  return holdings_from(*reading.record);
}

}  // namespace berth::kube
