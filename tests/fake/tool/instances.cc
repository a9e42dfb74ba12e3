#include "fake/tool/instances.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/printable.h"
#include "fake/tool/machine.h"
#include "scenario/fleet_spec.h"

namespace berth::fake::tool {

namespace {

constexpr unsigned int kSlices = 7;

struct Profile {
  unsigned int slices = 0;
  std::uint64_t gib = 0;
};

Result<Profile> parse_profile(const std::string& text) {
  Profile profile;
  const char* end = text.data() + text.size();
  auto part = std::from_chars(text.data(), end, profile.slices);
  bool good = part.ec == std::errc{} && end - part.ptr > 2 && std::strncmp(part.ptr, "g.", 2) == 0;
  if (good) {
    part = std::from_chars(part.ptr + 2, end, profile.gib);
    good = part.ec == std::errc{} && std::string_view(part.ptr, end) == "gb";
  }
  if (!good || profile.slices < 1 || profile.slices > kSlices || profile.gib == 0) {
    return invalid_argument(
        fmt::format("'{}' is no MIG profile; for example 1g.10gb", printable(text)));
  }
  return profile;
}

unsigned int slices_of(const DeviceEntry& entry) {
  return static_cast<unsigned int>(entry.profile[0] - '0');
}

}  // namespace

void adopt_instance(State& state, int instance, int gpu) {
  DeviceEntry& entry = state.devices[instance];
  DeviceEntry& parent = state.devices[gpu];
  std::uint32_t index = 0;
  for (int other = 0; other < kMaxDevices; ++other) {
    const DeviceEntry& sibling = state.devices[other];
    if (other != instance && sibling.used != 0 && sibling.parent == gpu && sibling.index >= index) {
      index = sibling.index + 1;
    }
  }
  entry.parent = gpu;
  entry.index = index;
  entry.gpu_instance = index + 1;
  entry.compute_instance = 0;
  entry.multiprocessors = parent.multiprocessors / kSlices * slices_of(entry);
  entry.major = parent.major;
  entry.minor = parent.minor;
  entry.numa = parent.numa;
  std::memcpy(entry.bus_id, parent.bus_id, sizeof entry.bus_id);
  std::memcpy(entry.name, parent.name, sizeof entry.name);
  parent.mig_mode.store(1);
  parent.mig_pending.store(1);
}

Result<std::string> create_instance(State& state, int gpu, const std::string& profile) {
  TRY(const Profile wanted, parse_profile(profile));
  const DeviceEntry& parent = state.devices[gpu];
  if (parent.mig_mode.load() == 0) {
    return Error(ErrorCode::conflict, "the GPU is not in MIG mode; say mig DEVICE enable first");
  }
  unsigned int slices = wanted.slices;
  std::uint64_t bytes = wanted.gib << 30U;
  int free_entry = -1;
  for (int device = 0; device < kMaxDevices; ++device) {
    const DeviceEntry& entry = state.devices[device];
    if (entry.used == 0 && free_entry < 0) free_entry = device;
    if (entry.used == 0 || entry.parent != gpu) continue;
    slices += slices_of(entry);
    bytes += entry.total;
  }
  if (slices > kSlices || bytes > parent.total || free_entry < 0) {
    return Error(
        ErrorCode::exhausted,
        fmt::format("{} does not fit beside the instances that {} has", profile, parent.uuid_text));
  }
  DeviceEntry& entry = state.devices[free_entry];
  std::destroy_at(&entry);
  std::construct_at(&entry);  // what an earlier instance left there is gone
  entry.total = wanted.gib << 30U;
  entry.context_bytes = parent.context_bytes;
  (void)std::snprintf(entry.profile, sizeof entry.profile, "%s", profile.c_str());
  adopt_instance(state, free_entry, gpu);
  const int number = static_cast<int>(parent.index * kSlices + entry.index);
  fill_uuid(entry, scenario::derived_uuid(state.header.node, number, profile, true));
  entry.used = 1;
  if (state.header.device_count <= static_cast<std::uint32_t>(free_entry)) {
    state.header.device_count = static_cast<std::uint32_t>(free_entry) + 1;
  }
  return std::string(entry.uuid_text);
}

Result<void> destroy_instance(State& state, int instance) {
  DeviceEntry& entry = state.devices[instance];
  if (entry.parent < 0) {
    return invalid_argument(fmt::format("{} is a GPU, no MIG instance", entry.uuid_text));
  }
  entry.used = 0;
  return success();
}

}  // namespace berth::fake::tool
