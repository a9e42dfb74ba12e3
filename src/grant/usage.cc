#include "grant/usage.h"

#include <algorithm>

#include <fmt/format.h>

namespace berth::grant {

namespace {

const SlotReading* slot_of(std::span<const SlotReading> slots, std::uint32_t pid) {
  const auto slot = std::ranges::find(slots, pid, &SlotReading::pid);
  return slot != slots.end() ? &*slot : nullptr;
}

}  // namespace

std::vector<UseFinding> compare_use(const GrantReading& reading,
                                    std::span<const ReportedUse> reported) {
  std::vector<UseFinding> findings;
  for (const ReportedUse& use : reported) {
    UseFinding finding{
        .device = use.device, .pid = use.pid, .reported = use.used, .held = {}, .guarded = false};
    finding.guarded = slot_of(reading.owners, use.pid) != nullptr;
    const auto device = std::ranges::find(reading.devices, use.device, &DeviceReading::uuid);
    if (device != reading.devices.end()) {
      if (const SlotReading* slot = slot_of(device->slots, use.pid)) finding.held = slot->held;
    }
    findings.push_back(finding);
  }
  return findings;
}

std::string meaning_of(const UseFinding& finding) {
  if (!finding.guarded) return "it runs without the guard; nothing limits it";
  const std::int64_t over = finding.reported.in_bytes() - finding.held.in_bytes();
  if (over == 0) return "agrees";
  if (over < 0) return fmt::format("{} B were charged and are not used", -over);
  return fmt::format("{} B are used that no call was charged for", over);
}

}  // namespace berth::grant
