#include "gpu/nvml.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpu/health.h"
#include "gpu/nvml_device.h"
#include "gpu/nvml_library.h"
#include "gpu/problems.h"
#include "gpu/xid.h"

namespace berth::gpu {

namespace {

Time steady_now() {
  return Time(std::chrono::duration_cast<std::chrono::milliseconds>(
                  std::chrono::steady_clock::now().time_since_epoch())
                  .count());
}

// The session with the driver has ended; a new one may work.
bool is_session_over(int code) {
  return code == nvml::kUninitialized || code == nvml::kVersionMismatch;
}

class NvmlSource final : public Source {
 public:
  explicit NvmlSource(NvmlOptions options)
      : options_(std::move(options)), health_(options_.quiet) {}

  std::string_view name() const override { return "nvml"; }

  Report read() override;

 private:
  // A GPU with its instances, as last seen.
  struct Known {
    DeviceReport gpu;
    std::vector<DeviceReport> instances;
  };

  int look(Report& report);
  int poll_events(Report& report);
  std::string watch(const NvmlReading& gpu);
  void add_gpu(const NvmlGpu& gpu, Report& report);
  void add_instances(const NvmlReading& gpu, Known& known, Report& report);
  void add_unseen(const std::set<std::string>& seen, Report& report);
  void add_from_memory(const Known& known, int code, Report& report);
  void judge(DeviceReport& report, const DevicePlace& place) const;

  NvmlOptions options_;
  std::unique_ptr<NvmlLibrary> library_;
  HealthBook health_;
  std::map<std::string, Known> known_;           // by the GPU's UUID
  std::map<nvml::Device, std::string> watched_;  // handle -> UUID
  int wait_failures_ = 0;                        // in a row
};

Report NvmlSource::read() {
  constexpr int kTries = 2;
  Report report;
  for (int round = 0; round < kTries; ++round) {
    report = Report{};
    if (library_ == nullptr) {
      auto opened = NvmlLibrary::open(options_.library);
      if (!opened.ok()) {
        report.up = false;
        report.why_down = opened.error().message();
        return report;
      }
      library_ = std::move(opened).value();
      report.about = fmt::format("driver {}", library_->driver_version());
    }
    const int code = look(report);
    if (code == nvml::kSuccess) return report;
    report = Report{};
    report.up = false;
    report.why_down = fmt::format("the NVIDIA driver does not answer: NVML says {}; see `dmesg`",
                                  library_->text(code));
    library_.reset();
    watched_.clear();
    if (!is_session_over(code)) return report;
    health_.clear();  // loading the driver has reset the GPUs
  }
  return report;
}

int NvmlSource::look(Report& report) {
  unsigned count = 0;
  if (const int code = library_->count(count); code != nvml::kSuccess) return code;
  report.about = fmt::format("driver {}", library_->driver_version());
  health_.begin();
  if (const int code = poll_events(report); code != nvml::kSuccess) return code;
  std::set<std::string> seen;
  for (unsigned index = 0; index < count; ++index) {
    NvmlGpu gpu{.handle = nullptr, .uuid = {}, .index = index};
    int code = library_->handle(index, gpu.handle);
    if (code == nvml::kSuccess) code = library_->uuid(gpu.handle, gpu.uuid);
    if (is_session_over(code)) return code;
    if (code != nvml::kSuccess) {
      report.problems.push_back(
          fmt::format("GPU {}: NVML says {}; reset it (nvidia-smi -r) or reboot, and see `dmesg`",
                      index, library_->text(code)));
    } else if (seen.insert(gpu.uuid).second) {
      add_gpu(gpu, report);
    }
  }
  add_unseen(seen, report);
  return nvml::kSuccess;
}

// Every event since the last look. An error of the wait itself says nothing about any GPU: the set
// is made anew, and only if that fails again is health not watched (nvidia-node.md X3, X4).
int NvmlSource::poll_events(Report& report) {
  constexpr int kMostEvents = 4096;
  const Time now = options_.now();
  int code = nvml::kSuccess;
  for (int taken = 0; taken < kMostEvents && code == nvml::kSuccess; ++taken) {
    NvmlXid xid;
    code = library_->next_xid(xid);
    if (code != nvml::kSuccess) break;
    const auto device = watched_.find(xid.device);
    if (device == watched_.end()) {
      report.problems.push_back(fmt::format("XID {} of a GPU that cannot be named", xid.xid));
      continue;
    }
    health_.note({.uuid = device->second,
                  .gpu_instance = xid.gpu_instance,
                  .compute_instance = xid.compute_instance,
                  .xid = xid.xid},
                 now);
  }
  if (is_session_over(code)) return code;
  if (code == nvml::kSuccess || code == nvml::kTimeout) {
    wait_failures_ = 0;
    return nvml::kSuccess;
  }
  ++wait_failures_;
  report.problems.push_back(
      fmt::format("waiting for XID events fails: NVML says {}", library_->text(code)));
  library_->stop_watching();
  watched_.clear();
  return nvml::kSuccess;
}

// Why the health of a GPU is not watched; empty = it is, or the GPU is too old to be.
std::string NvmlSource::watch(const NvmlReading& gpu) {
  const auto [known, fresh] = watched_.emplace(gpu.handle, gpu.report.device.uuid);
  if (fresh) {
    const int code = library_->watch(gpu.handle);
    if (code != nvml::kSuccess && code != nvml::kNotSupported) {
      watched_.erase(known);
      return fmt::format("its health cannot be watched: NVML says {}", library_->text(code));
    }
  } else {
    known->second = gpu.report.device.uuid;
  }
  return wait_failures_ > 1 ? "its health cannot be watched: waiting for XID events fails" : "";
}

void NvmlSource::judge(DeviceReport& report, const DevicePlace& place) const {
  DeviceFaults faults = health_.of(place);
  report.xids = std::move(faults.xids);
  report.app_xids = std::move(faults.app_xids);
  if (faults.lost) {
    add_problem(
        report.problem,
        fmt::format("critical XID {} ({}): not used until it answers and has been quiet for "
                    "{} s",
                    faults.cause, xid_class_name(classify_xid(faults.cause)),
                    options_.quiet.count() / 1000));
  }
  report.lost = report.lost || faults.lost;
  if (report.lost) report.device.health = core::DeviceHealth::unhealthy;
}

void NvmlSource::add_gpu(const NvmlGpu& gpu, Report& report) {
  NvmlReading reading = read_gpu(*library_, options_, gpu);
  health_.settle(gpu.uuid, reading.probe, options_.now());
  if (const std::string why = watch(reading); !why.empty() && !reading.report.lost) {
    add_problem(reading.report.problem, why);
    reading.report.device.health = core::DeviceHealth::unhealthy;
  }
  judge(reading.report, {.gpu = gpu.uuid});
  Known& known = known_[gpu.uuid];
  const std::size_t place = report.devices.size();
  report.devices.push_back(reading.report);
  if (reading.report.device.mig_enabled) {
    add_instances(reading, known, report);
  } else {
    known.instances.clear();
  }
  known.gpu = report.devices[place];
}

void NvmlSource::add_instances(const NvmlReading& gpu, Known& known, Report& report) {
  std::vector<NvmlReading> instances;
  const int code = read_instances(*library_, options_, gpu, instances);
  std::vector<DeviceReport> before = std::exchange(known.instances, {});
  for (NvmlReading& instance : instances) {
    DeviceReport& mine = instance.report;
    if (gpu.report.device.health != core::DeviceHealth::ok) {
      mine.device.health = core::DeviceHealth::unhealthy;
      add_problem(mine.problem, "its GPU is unhealthy");
    }
    mine.lost = mine.lost || gpu.report.lost;
    judge(mine, {.gpu = gpu.report.device.uuid,
                 .gpu_instance = instance.gpu_instance,
                 .compute_instance = instance.compute_instance});
    known.instances.push_back(mine);
    report.devices.push_back(mine);
  }
  if (code == nvml::kSuccess) return;
  report.problems.push_back(fmt::format("GPU {}: its MIG instances cannot be listed: NVML says {}",
                                        gpu.report.device.index, library_->text(code)));
  // The list is cut short: what is missing in it has not gone.
  for (DeviceReport& old : before) {
    const bool listed = std::ranges::any_of(known.instances, [&old](const DeviceReport& mine) {
      return mine.device.uuid == old.device.uuid;
    });
    if (listed) continue;
    add_from_memory({.gpu = old, .instances = {}}, code, report);
    known.instances.push_back(std::move(old));
  }
}

// GPUs that were there and are not among the listed: lost, hidden by an error, or gone.
void NvmlSource::add_unseen(const std::set<std::string>& seen, Report& report) {
  for (auto known = known_.begin(); known != known_.end();) {
    if (seen.contains(known->first)) {
      ++known;
      continue;
    }
    nvml::Device handle = nullptr;
    const int code = library_->handle(known->first, handle);
    if (code == nvml::kNotFound || code == nvml::kInvalidArgument) {
      known = known_.erase(known);
      continue;
    }
    health_.settle(known->first, {.answers = false}, options_.now());
    add_from_memory(known->second, code, report);
    ++known;
  }
}

// What is known of devices that cannot be looked at now. Only the driver's word makes them lost.
void NvmlSource::add_from_memory(const Known& known, int code, Report& report) {
  std::vector<DeviceReport> remembered = known.instances;
  remembered.insert(remembered.begin(), known.gpu);
  for (DeviceReport& mine : remembered) {
    mine.used.reset();
    mine.attributed = false;
    mine.processes.clear();
    mine.lost = code == nvml::kGpuIsLost;
    mine.device.health = core::DeviceHealth::unhealthy;
    mine.problem.clear();
    const std::string says =
        code == nvml::kSuccess ? "that it is there, yet does not list it" : library_->text(code);
    add_problem(mine.problem, fmt::format("it cannot be looked at: NVML says {}; reset the GPU "
                                          "(nvidia-smi -r) or reboot",
                                          says));
    judge(mine, {.gpu = mine.device.is_mig() ? mine.device.mig_parent : mine.device.uuid});
    report.devices.push_back(std::move(mine));
  }
}

}  // namespace

Result<std::unique_ptr<Source>> make_nvml_source(NvmlOptions options) {
  if (options.node.empty()) {
    return invalid_argument("node is empty: the GPUs belong to a node; give its name");
  }
  if (options.safety_margin < Memory()) {
    return invalid_argument(fmt::format("safety_margin is {} bytes: it is kept back, so 0 or above",
                                        options.safety_margin.in_bytes()));
  }
  if (options.quiet < Duration()) {
    return invalid_argument(
        fmt::format("quiet is {} ms: a time to wait, so 0 or above", options.quiet.count()));
  }
  if (!options.now) options.now = steady_now;
  return std::unique_ptr<Source>(std::make_unique<NvmlSource>(std::move(options)));
}

}  // namespace berth::gpu
