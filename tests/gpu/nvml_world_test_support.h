// A machine with fake GPUs and the source that looks at it. Everything that touches the driver runs
// in a process of its own: one process has one driver.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fake/checks/machine.h"
#include "gpu/nvml.h"
#include "gpu/source.h"

namespace berth::gpu::checks {

using fake::checks::Machine;

constexpr std::int64_t kReservedMib = 114;  // 0.7 % of 16 GiB, as the fake driver has it
constexpr std::int64_t kContextMib = 128;

// build/fake/LINE/libnvidia-ml.so.1; "" = the one with every name.
std::string library_of(const std::string& line);

// A source of node n1, on a clock that stands at `*now` (milliseconds).
std::unique_ptr<Source> source_on(const std::string& line = "", const std::int64_t* now = nullptr);

// What a read says of the device with this UUID, or of the GPU with this index; fails the test if
// the source is down or does not list it.
DeviceReport look(Source& source, const std::string& uuid);
DeviceReport look(Source& source, int index = 0);

// The tool's words, which must succeed.
void tell(const Machine& machine, const std::vector<std::string>& words);

}  // namespace berth::gpu::checks
