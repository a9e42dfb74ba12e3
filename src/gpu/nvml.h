// The NVML source: this machine's GPUs as NVIDIA's driver reports them.
//
//   TRY(auto source, make_nvml_source({.node = "n1"}));
//   const Report report = source->read();
//
// The driver is looked for at every read until it is there, so a driver that is loaded later, or
// reloaded, needs no restart; until then the report is down and says what to do.
// A call into a hung driver never returns, and neither does read(): it belongs on a thread of its
// own, and whoever waits for samples must see them grow old.
// A GPU whose driver says that it is lost stays in the report as lost. One that the driver does not
// know any more is not in it.
// Memory: `used` is without the driver's reserve and `reserve` the driver's plus the margin, where
// the driver tells them apart (second form of the call). Older drivers count the reserve as used;
// there core::default_reserve is kept back besides, which is more than needed, never less.
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/quantity.h"
#include "base/result.h"
#include "gpu/source.h"

namespace berth::gpu {

struct NvmlOptions {
  std::string node;                           // name of this machine's node
  std::string library = "libnvidia-ml.so.1";  // for dlopen: a name or a path
  Memory safety_margin = Memory::mib(128);    // kept back beside the driver's reserve
  Duration quiet{300'000};                    // after a critical XID until the GPU is used again
  std::string pci_folder = "/sys/bus/pci/devices";  // where NUMA nodes are read
  std::function<Time()> now = {};                   // monotonic; empty = the steady clock
};

// Error invalid_argument: no node name, a negative margin or quiet period.
Result<std::unique_ptr<Source>> make_nvml_source(NvmlOptions options);

}  // namespace berth::gpu
