// What `berth doctor` looks at. Each check asks the machine itself, changes nothing that stays, and
// says how to mend what it finds. Thread-safety: functions; the driver's and the guard's run in
// child processes, since a hung driver never answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace berth::cli {

enum class Health : std::uint8_t { ok, warn, fail };

struct Finding {
  std::string name;
  Health health = Health::ok;
  std::string text = {};
  std::string mend = {};  // what to do; empty if all is well
};

// GPUs of NVIDIA on the PCI bus, whether there is a driver or not.
int pci_gpu_count(const std::string& bus = "/sys/bus/pci/devices");

// `library` as for dlopen.
Finding check_driver(const std::string& library, int pci_gpus);
Finding check_device_files(int pci_gpus, const std::string& folder = "/dev");
// An empty path: none was found.
Finding check_guard(const std::string& library);

Finding check_clock();
Finding check_state_directory(const std::string& directory);
Finding check_open_files();
Finding check_cgroup(const std::string& root = "/sys/fs/cgroup");

}  // namespace berth::cli
