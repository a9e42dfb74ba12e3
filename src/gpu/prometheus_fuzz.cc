// Whatever answers in Prometheus' place, reading it ends, and what it gives is sane. The first line
// is the answer about free memory, the rest the one about used memory.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "gpu/prometheus.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using berth::gpu::ExporterMetric;
  using berth::gpu::PrometheusAnswer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  const std::string_view rest = end == std::string_view::npos ? text : text.substr(end + 1);
  const std::array<PrometheusAnswer, 4> answers{{{ExporterMetric::free, text.substr(0, end)},
                                                 {ExporterMetric::used, rest},
                                                 {ExporterMetric::reserved, rest},
                                                 {ExporterMetric::xid, rest}}};
  constexpr std::int64_t kNow = 1'700'000'000'000;
  const berth::gpu::ExporterOptions options{.node = "n1", .wall_ms = kNow};
  const berth::gpu::Report report = berth::gpu::read_prometheus(answers, options);
  ASSERT(report.up == report.why_down.empty());
  ASSERT(report.up || report.devices.empty());
  for (const berth::gpu::DeviceReport& device : report.devices) {
    ASSERT(!device.used || *device.used <= *device.device.total, device.device.uuid);
    ASSERT(device.used || !device.problem.empty() || device.device.mig_enabled);
    ASSERT(device.device.usable_mib() >= 0);
  }
  return 0;
}
