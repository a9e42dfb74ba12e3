// Whatever a page of metrics holds, reading it ends, and what it gives is sane.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "gpu/dcgm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using berth::Memory;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::int64_t kNow = 1'700'000'000'000;
  const berth::gpu::ExporterOptions options{.node = "n1", .wall_ms = kNow};
  const berth::gpu::Report report = berth::gpu::read_dcgm(text, options);
  ASSERT(report.up == report.why_down.empty());
  ASSERT(report.up || report.devices.empty());
  for (const berth::gpu::DeviceReport& device : report.devices) {
    ASSERT(!device.node.empty() && !device.device.uuid.empty());
    ASSERT(!device.used || device.device.total, device.device.uuid);
    if (device.used) {
      ASSERT(*device.used >= Memory() && *device.used <= *device.device.total);
      ASSERT(device.device.usable_mib() >= 0);
    }
    ASSERT(device.used || !device.problem.empty() || device.device.mig_enabled);
    ASSERT(!device.attributed && device.processes.empty());
  }
  ASSERT(berth::gpu::read_dcgm(text, options) == report);
  return 0;
}
