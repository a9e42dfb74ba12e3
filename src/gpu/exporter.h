// Exporter series: what NVIDIA's dcgm-exporter says of GPUs, whoever carried it here, put together
// into a report.
//
//   std::vector<ExporterSample> samples = …;        // dcgm.h or prometheus.h
//   const Report report = report_of(samples, {.node = "n1", .wall_ms = now});
//
// Rules of leases.md 5: series are joined by UUID, never by place or index; of several samples of
// one series the newest counts; what is no measurement makes the memory unknown; only the UUID
// label is needed. The order of the samples makes no difference. A series carries no processes, so
// nothing here is `attributed`. `xids` and `app_xids` hold the last XID that the exporter has seen,
// at every reading: exporter_source.h tells what is new. Thread-safety: functions of their
// arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "gpu/source.h"

namespace berth::gpu {

enum class ExporterMetric : std::uint8_t { free, used, reserved, xid };

// "DCGM_FI_DEV_FB_FREE".
std::string_view exporter_metric_name(ExporterMetric metric);
std::optional<ExporterMetric> exporter_metric(std::string_view name);

struct ExporterLabels {
  std::string uuid;      // UUID, older exporters: uuid
  std::string host;      // hostname, older exporters: Hostname
  std::string gpu;       // index on its node
  std::string model;     // modelName
  std::string bus_id;    // pci_bus_id
  std::string instance;  // GPU_I_ID; the UUID is then the GPU's
  std::string profile;   // GPU_I_PROFILE
  std::string mig_uuid;  // dra_mig_device_uuid
  auto operator<=>(const ExporterLabels&) const = default;
};

// Takes a label that means something here; others are passed over.
void set_label(ExporterLabels& labels, std::string_view name, std::string_view value);

struct ExporterSample {
  ExporterMetric metric = ExporterMetric::free;
  ExporterLabels labels;
  std::string value;                     // as it was written
  std::optional<std::int64_t> stamp_ms;  // wall clock; empty = none, so it is as old as its text
  bool stamp_bad = false;                // there is one that cannot be read
};

struct ExporterOptions {
  std::string node;                         // for series without a host name
  Memory safety_margin = Memory::mib(128);  // kept back beside the driver's reserve
  std::int64_t wall_ms = 0;                 // now; ages are against it
  // UUIDs of MIG instances, "GPU-…/7" -> "MIG-…": exporters name the GPU and the instance's number,
  // and an instance can be handed out by its own UUID only.
  std::map<std::string, std::string, std::less<>> instances = {};
};

// A report of all devices that any sample names, ordered by node, index and UUID. Down when no
// sample is one of memory: an exporter that has nothing to say has not seen devices vanish.
Report report_of(std::span<const ExporterSample> samples, const ExporterOptions& options);

}  // namespace berth::gpu
