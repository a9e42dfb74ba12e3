#include "gpu/nvml_device.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpu/mig_name.h"
#include "gpu/problems.h"

namespace berth::gpu {

namespace {

int numa_node(const std::string& folder, std::string_view bus_id) {
  if (bus_id.empty()) return -1;
  std::ifstream file(fmt::format("{}/{}/numa_node", folder, sysfs_bus_id(bus_id)));
  int node = -1;
  return file >> node ? std::max(node, -1) : -1;
}

// What the driver says of a memory figure that no device can have is no figure.
void set_memory(DeviceReport& report, const NvmlMemory& memory, Memory margin) {
  constexpr auto kMost = static_cast<std::uint64_t>(core::kMaxMemoryMib);
  if (memory.total == 0 || memory.total / Memory::kBytesPerMib >= kMost) {
    add_problem(report.problem, fmt::format("total memory is {} bytes, which no device has; the "
                                            "driver is out of order",
                                            memory.total));
    return;
  }
  const Memory total = Memory::bytes(static_cast<std::int64_t>(memory.total));
  report.device.total = total;
  report.device.reserve = std::max(core::default_reserve(total), margin);
  if (memory.reserved && *memory.reserved <= memory.total) {
    report.device.reserve = Memory::bytes(static_cast<std::int64_t>(*memory.reserved)) + margin;
  }
  if (memory.used > memory.total) {
    add_problem(report.problem,
                fmt::format("used memory is {} bytes of {}; the driver is out of order",
                            memory.used, memory.total));
    return;
  }
  report.used = Memory::bytes(static_cast<std::int64_t>(memory.used));
}

// True if the device answers.
bool read_memory(const NvmlLibrary& library, const NvmlOptions& options, nvml::Device handle,
                 DeviceReport& report) {
  NvmlMemory memory;
  const int code = library.memory(handle, memory);
  if (code == nvml::kSuccess) {
    set_memory(report, memory, options.safety_margin);
    return true;
  }
  report.lost = report.lost || code == nvml::kGpuIsLost;
  std::string problem = fmt::format("its memory cannot be read: NVML says {}", library.text(code));
  if (code == nvml::kGpuIsLost) problem += "; reset the GPU (nvidia-smi -r) or reboot";
  if (code == nvml::kNoPermission && report.device.is_mig()) {
    problem += "; with MIG on, a container needs NVIDIA_MIG_MONITOR_DEVICES=all";
  }
  add_problem(report.problem, problem);
  return code == nvml::kNotSupported;
}

void read_processes(const NvmlLibrary& library, nvml::Device handle, DeviceReport& report) {
  std::vector<NvmlProcess> processes;
  const int code = library.processes(handle, processes);
  report.attributed = code == nvml::kSuccess;
  if (code != nvml::kSuccess && !report.lost) {
    add_problem(report.problem,
                fmt::format("its processes cannot be listed: NVML says {}", library.text(code)));
  }
  for (const NvmlProcess& process : processes) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60U;
    const bool known = process.used.has_value() && *process.used < kMost;
    report.processes.push_back(
        {.pid = process.pid,
         .used = known ? Memory::bytes(static_cast<std::int64_t>(*process.used)) : Memory(),
         .used_known = known,
         .name = library.process_name(process.pid)});
    report.attributed = report.attributed && known;
  }
}

void read_compute_mode(const NvmlLibrary& library, nvml::Device handle, DeviceReport& report) {
  int mode = nvml::kComputeDefault;
  if (library.compute_mode(handle, mode) != nvml::kSuccess) return;
  if (mode == nvml::kComputeProhibited) {
    report.compute_mode = ComputeMode::prohibited;
    report.device.health = core::DeviceHealth::unhealthy;
    add_problem(report.problem,
                "its compute mode is Prohibited: nothing may run on it; `nvidia-smi -c 0` as root");
  } else if (mode != nvml::kComputeDefault) {
    report.compute_mode = ComputeMode::exclusive;
    add_problem(report.problem,
                "its compute mode is Exclusive: the driver refuses a second process; "
                "`nvidia-smi -c 0` as root");
  }
}

// "NVIDIA A100-SXM4-80GB MIG 3g.40gb" -> "3g.40gb"; empty when the name does not end so.
std::string profile_in_name(std::string_view name) {
  constexpr std::string_view kMark = " MIG ";
  const std::size_t at = name.rfind(kMark);
  return at == std::string_view::npos ? std::string() : std::string(name.substr(at + kMark.size()));
}

std::string profile_of(const NvmlLibrary& library, nvml::Device handle, const MigSizes& sizes) {
  std::string name;
  if (library.name(handle, name) == nvml::kSuccess) {
    if (std::string profile = profile_in_name(name); !profile.empty()) return profile;
  }
  nvml::Attributes attributes{};
  if (library.attributes(handle, attributes) != nvml::kSuccess || attributes.gpu_slices == 0) {
    return mig_profile_name(sizes);
  }
  return mig_profile_name(sizes, {.gpu = static_cast<int>(attributes.gpu_slices),
                                  .compute = static_cast<int>(attributes.compute_slices)});
}

NvmlReading read_instance(const NvmlLibrary& library, const NvmlOptions& options,
                          const NvmlReading& gpu, const NvmlGpu& instance) {
  const core::Device& parent = gpu.report.device;
  NvmlReading reading{
      .report = {.node = options.node, .device = {}}, .handle = instance.handle, .probe = {}};
  DeviceReport& report = reading.report;
  report.device.uuid = instance.uuid;
  report.device.index = static_cast<int>(instance.index);
  report.device.model = parent.model;
  report.device.numa = parent.numa;
  report.device.pci_bus_id = parent.pci_bus_id;
  report.device.mig_parent = parent.uuid;
  report.device.mig_profile = "unknown";  // so that errors below know it for an instance
  (void)library.instance_ids(instance.handle, reading.gpu_instance, reading.compute_instance);
  reading.probe.answers = read_memory(library, options, instance.handle, report);
  report.device.mig_profile = profile_of(library, instance.handle,
                                         {.total = parent.total.value_or(Memory()),
                                          .instance = report.device.total.value_or(Memory())});
  read_processes(library, instance.handle, report);
  return reading;
}

}  // namespace

std::string sysfs_bus_id(std::string_view bus_id) {
  constexpr std::size_t kDomainDigits = 4;
  std::size_t colon = bus_id.find(':');
  while (colon != std::string_view::npos && colon > kDomainDigits && bus_id.front() == '0') {
    bus_id.remove_prefix(1);
    --colon;
  }
  std::string text(bus_id);
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

NvmlReading read_gpu(const NvmlLibrary& library, const NvmlOptions& options, const NvmlGpu& gpu) {
  NvmlReading reading{
      .report = {.node = options.node, .device = {}}, .handle = gpu.handle, .probe = {}};
  DeviceReport& report = reading.report;
  report.device.uuid = gpu.uuid;
  report.device.index = static_cast<int>(gpu.index);
  (void)library.name(gpu.handle, report.device.model);
  (void)library.bus_id(gpu.handle, report.device.pci_bus_id);
  report.device.numa = numa_node(options.pci_folder, report.device.pci_bus_id);
  if (unsigned minor = 0; library.minor(gpu.handle, minor) == nvml::kSuccess) {
    report.minor = static_cast<int>(minor);
  }
  NvmlMigMode mig;
  if (library.mig_mode(gpu.handle, mig) == nvml::kSuccess) {
    report.device.mig_enabled = mig.current;
    if (mig.current != mig.pending) {
      add_problem(report.problem,
                  fmt::format("MIG will be {} after the next reset of the GPU (nvidia-smi -r), "
                              "which ends what runs on it",
                              mig.pending ? "on" : "off"));
    }
  }
  reading.probe.answers = read_memory(library, options, gpu.handle, report);
  if (std::uint64_t errors = 0; library.uncorrected_errors(gpu.handle, errors) == nvml::kSuccess) {
    reading.probe.errors = errors;
  }
  read_compute_mode(library, gpu.handle, report);
  // The processes of a GPU in MIG mode are its instances'.
  if (!report.device.mig_enabled) read_processes(library, gpu.handle, report);
  return reading;
}

int read_instances(const NvmlLibrary& library, const NvmlOptions& options, const NvmlReading& gpu,
                   std::vector<NvmlReading>& instances) {
  unsigned most = 0;
  if (const int code = library.most_instances(gpu.handle, most); code != nvml::kSuccess)
    return code;
  for (unsigned index = 0; index < most; ++index) {
    NvmlGpu instance{.handle = nullptr, .uuid = {}, .index = index};
    int code = library.instance(gpu.handle, index, instance.handle);
    if (code == nvml::kNotFound || code == nvml::kInvalidArgument) continue;  // an empty place
    if (code == nvml::kSuccess) code = library.uuid(instance.handle, instance.uuid);
    if (code != nvml::kSuccess) return code;
    instances.push_back(read_instance(library, options, gpu, instance));
  }
  return nvml::kSuccess;
}

}  // namespace berth::gpu
