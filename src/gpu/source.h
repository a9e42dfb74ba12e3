// Source: something that says what it sees on GPUs: the driver, an exporter, or a simulation.
//
//   const Report report = source.read();       // may block: on a thread of its own
//   if (!report.up) { …nothing new is granted; report.why_down says what to do… }
//   for (const DeviceReport& device : report.devices) { … }
//
// A report is the whole picture: a device that is not in it is gone. What could not be read is
// empty, never 0, and `problem` says so. Who owns a process is another room's question.
// Thread-safety: values; read() is called from one thread at a time unless a source says more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "core/model/device.h"

namespace berth::gpu {

struct ProcessUse {
  std::int64_t pid = 0;
  Memory used;             // 0 when unknown
  bool used_known = true;  // false: the source cannot tell; the device is then not `attributed`
  std::string name = {};   // of the program where the source knows it; else empty
  bool operator==(const ProcessUse&) const = default;
};

enum class ComputeMode : std::uint8_t {
  shared,      // any number of processes, the driver's default
  exclusive,   // one process at a time: the driver refuses the second
  prohibited,  // none
};

struct DeviceReport {
  std::string node;     // the node's name
  core::Device device;  // description; total empty = unknown; health as seen
  std::optional<Memory> used =
      {};                   // in use on the device, driver reserve not included; empty = unknown
  bool attributed = false;  // `processes` is complete and every use in it known
  std::vector<ProcessUse> processes = {};
  std::int64_t age_ms = 0;  // of the sample when read() returned; below 0 = stamped in the future
  bool restated = false;    // counts even if older than the one before: that is taken back
  bool lost = false;        // a critical error: nothing on the device runs on (leases.md B34)
  std::vector<int> xids = {};      // critical ones since the last read
  std::vector<int> app_xids = {};  // the others since the last read: to log, nothing more (B35)
  int minor = -1;                  // of /dev/nvidiaN; -1 = unknown, or an instance
  ComputeMode compute_mode = ComputeMode::shared;
  std::string problem = {};  // what could not be read and why, for people; empty = nothing
  bool operator==(const DeviceReport&) const = default;
};

struct Report {
  bool up = true;
  std::string why_down = {};               // when not up: what does not answer, and what to do
  std::string about = {};                  // of the source, e.g. "driver 535.261.03"; may be empty
  std::vector<std::string> problems = {};  // that belong to no device, e.g. one without a name
  std::vector<DeviceReport> devices = {};
  bool operator==(const Report&) const = default;
};

class Source {
 public:
  virtual ~Source() = default;
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  virtual std::string_view name() const = 0;  // "nvml", "simulated", …: for people and metrics
  virtual Report read() = 0;                  // may block for as long as a driver or a network does
};

}  // namespace berth::gpu
