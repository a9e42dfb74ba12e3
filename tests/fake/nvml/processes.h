// The processes on a device, as every process list of the interface needs them.
#pragma once

#include <cstdint>
#include <vector>

namespace berth::fake::nvml {

inline constexpr unsigned int kNoInstance = 0xFFFFFFFF;

struct Process {
  unsigned int pid = 0;
  std::uint64_t used = 0;
  unsigned int gpu_instance = kNoInstance;
  unsigned int compute_instance = kNoInstance;
  int slot = -1;  // -1: a foreign process
  char command[64] = {};
};

// Own processes by slot, then foreign ones. Of a GPU in MIG mode those of its instances.
std::vector<Process> processes_on(int entry, bool graphics);

}  // namespace berth::fake::nvml
