// One look at one device through NVML: everything a report says of it, except what events tell.
//
// Thread-safety: functions of their arguments, on the library's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/health.h"
#include "gpu/nvml.h"
#include "gpu/nvml_library.h"
#include "gpu/source.h"

namespace berth::gpu {

struct NvmlReading {
  DeviceReport report;
  nvml::Device handle = nullptr;
  std::uint32_t gpu_instance = kWholeGpu;  // of a MIG instance
  std::uint32_t compute_instance = kWholeGpu;
  GpuProbe probe;
};

// The GPU behind `handle`; `uuid` and `index` are the caller's knowledge.
struct NvmlGpu {
  nvml::Device handle = nullptr;
  std::string uuid;
  unsigned index = 0;
};
NvmlReading read_gpu(const NvmlLibrary& library, const NvmlOptions& options, const NvmlGpu& gpu);

// The MIG instances of a GPU in MIG mode. A code other than kSuccess: the list is not complete.
int read_instances(const NvmlLibrary& library, const NvmlOptions& options, const NvmlReading& gpu,
                   std::vector<NvmlReading>& instances);

// Where sysfs keeps what it knows about a bus id of NVML: "00000000:0A:00.0" -> "0000:0a:00.0".
std::string sysfs_bus_id(std::string_view bus_id);

}  // namespace berth::gpu
