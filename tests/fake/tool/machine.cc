#include "fake/tool/machine.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "fake/state/layout.h"
#include "fake/tool/instances.h"
#include "fake/tool/models.h"
#include "scenario/fleet_spec.h"
#include "scenario/script.h"

namespace berth::fake::tool {

namespace {

// Driver lines in the field and the CUDA version that each brings. "future" is a driver that nobody
// has seen: it has names and forms that no table knows.
constexpr DriverLine kLines[] = {
    {"495", "495.29.05", 11050}, {"535", "535.261.03", 12020}, {"570", "570.172.08", 12080},
    {"580", "580.65.06", 13000}, {"615", "615.71.09", 13040},  {"future", "999.10.01", 15000},
};

constexpr std::uint64_t kDefaultContextBytes = std::uint64_t{128} << 20;

Result<core::Node> node_of(const Machine& machine) {
  const bool is_file = access(machine.spec.c_str(), R_OK) == 0;
  auto fleet = [&]() -> Result<std::vector<core::Node>> {
    if (!is_file) return scenario::fleet_from_spec(machine.spec);
    std::ifstream file(machine.spec);
    std::stringstream text;
    text << file.rdbuf();
    return scenario::parse_fleet(text.str(), machine.spec);
  }();
  if (!fleet.ok()) return std::move(fleet).error();
  if (fleet->empty()) return invalid_argument("the fleet has no node");
  if (machine.node.empty()) return fleet->front();
  std::string names;
  for (core::Node& node : *fleet) {
    if (node.name == machine.node) return std::move(node);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", node.name);
  }
  return invalid_argument(
      fmt::format("--node '{}' is not in the fleet, which has {}", printable(machine.node), names));
}

// What a driver keeps for itself: 0.7 %, in whole MiB.
std::uint64_t default_reserved(std::uint64_t total) { return ((total / 1000 * 7) >> 20U) << 20U; }

Result<void> fill_device(const Machine& machine, const core::Device& device, DeviceEntry& entry) {
  if (!device.total) {
    return invalid_argument(fmt::format("device {} has no known memory", device.uuid));
  }
  fill_uuid(entry, device.uuid);
  const ModelFacts facts = model_facts(device.model);
  (void)std::snprintf(entry.name, sizeof entry.name, "%s", facts.name.c_str());
  const std::string bus =
      device.pci_bus_id.empty() ? scenario::derived_bus_id(device.index) : device.pci_bus_id;
  (void)std::snprintf(entry.bus_id, sizeof entry.bus_id, "%.19s", bus.c_str());
  (void)std::snprintf(entry.profile, sizeof entry.profile, "%.27s", device.mig_profile.c_str());
  entry.total = static_cast<std::uint64_t>(device.total->in_bytes());
  entry.reserved = machine.reserved.value_or(default_reserved(entry.total));
  if (entry.reserved >= entry.total) {
    return invalid_argument(fmt::format("the driver's reserve of {} bytes leaves nothing of {}",
                                        entry.reserved, device.uuid));
  }
  entry.context_bytes = machine.context_bytes.value_or(kDefaultContextBytes);
  entry.index = static_cast<std::uint32_t>(device.index);
  entry.parent = -1;
  entry.multiprocessors = facts.multiprocessors;
  entry.major = facts.major;
  entry.minor = facts.minor;
  entry.numa = static_cast<std::uint32_t>(device.numa < 0 ? 0 : device.numa);
  entry.mig_mode.store(device.mig_enabled ? 1 : 0);
  entry.mig_pending.store(device.mig_enabled ? 1 : 0);
  entry.persistence.store(1);
  entry.power_limit_mw.store(facts.power_limit_mw);
  entry.used = 1;
  return success();
}

// Instances that a fleet file describes belong to the GPU that it names, or to the last one before
// them.
Result<void> join_instances(State& state, const core::Node& node, int count) {
  int gpu = -1;
  for (int device = 0; device < count; ++device) {
    DeviceEntry& entry = state.devices[device];
    const core::Device& described = node.devices[static_cast<std::size_t>(device)];
    if (described.mig_profile.empty()) {
      gpu = device;
      continue;
    }
    int parent = gpu;
    for (int other = 0; other < count; ++other) {
      if (described.mig_parent == state.devices[other].uuid_text) parent = other;
    }
    if (parent < 0) {
      return invalid_argument(
          fmt::format("MIG instance {} has no GPU; list its GPU before it", described.uuid));
    }
    adopt_instance(state, device, parent);
    entry.reserved = 0;
  }
  return success();
}

Result<void> fill(State& state, const Machine& machine, const core::Node& node,
                  const DriverLine& line) {
  Header& header = state.header;
  header.layout = kLayout;
  header.bytes = sizeof(State);
  set_driver(header, line);
  (void)std::snprintf(header.node, sizeof header.node, "%s", node.name.c_str());
  header.flags.store(machine.fork_works ? static_cast<std::uint32_t>(kForkWorks) : 0U);
  header.epoch.store(1);
  int gpus = 0;
  int count = 0;
  for (const core::Device& device : node.devices) {
    if (count == kMaxDevices || (device.mig_profile.empty() && ++gpus > kMaxGpus)) {
      return invalid_argument(
          fmt::format("node {} has {} devices; the fake driver has up to {} GPUs", node.name,
                      node.devices.size(), kMaxGpus));
    }
    TRY_VOID(fill_device(machine, device, state.devices[count]));
    ++count;
  }
  if (count == 0) return invalid_argument(fmt::format("node {} has no device", node.name));
  TRY_VOID(join_instances(state, node, count));
  header.device_count = static_cast<std::uint32_t>(count);
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  return success();
}

Error system_error(const std::string& path, const char* doing) {
  return {ErrorCode::unavailable, fmt::format("{}: {}: {}", path, doing, std::strerror(errno))};
}

// A file of the right size, mapped; unlinked unless kept.
class NewFile {
 public:
  static Result<std::unique_ptr<NewFile>> create(const std::string& path) {
    const std::string temporary = fmt::format("{}.new.{}", path, getpid());
    const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return system_error(temporary, "cannot be written");
    (void)fchmod(fd, 0666);
    void* memory = MAP_FAILED;
    if (ftruncate(fd, sizeof(State)) == 0) {
      memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    const Error error = system_error(temporary, "cannot be sized and mapped");
    (void)close(fd);
    if (memory == MAP_FAILED) {
      (void)unlink(temporary.c_str());
      return error;
    }
    return std::unique_ptr<NewFile>(new NewFile(temporary, static_cast<State*>(memory)));
  }
  ~NewFile() {
    (void)munmap(static_cast<void*>(state_), sizeof(State));
    if (!kept_) (void)unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  State& state() { return *state_; }
  Result<void> keep_as(const std::string& path) {
    if (rename(temporary_.c_str(), path.c_str()) != 0)
      return system_error(path, "cannot be written");
    kept_ = true;
    return success();
  }

 private:
  NewFile(std::string temporary, State* state) : temporary_(std::move(temporary)), state_(state) {}
  std::string temporary_;
  State* state_;
  bool kept_ = false;
};

}  // namespace

void fill_uuid(DeviceEntry& entry, const std::string& text) {
  (void)std::snprintf(entry.uuid_text, sizeof entry.uuid_text, "%s", text.c_str());
  std::string digits;
  for (const char c : text.substr(text.find('-') == std::string::npos ? 0 : text.find('-'))) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  if (digits.size() == 32) {
    for (std::size_t place = 0; place < 16; ++place) {
      entry.uuid[place] =
          static_cast<std::uint8_t>(std::stoul(digits.substr(place * 2, 2), nullptr, 16));
    }
    return;
  }
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (std::uint8_t& byte : entry.uuid) {
    for (const char c : text)
      hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001B3ULL;
    byte = static_cast<std::uint8_t>(hash >> 56U);
  }
}

Result<DriverLine> driver_line(const std::string& text) {
  std::string known;
  for (const DriverLine& line : kLines) {
    if (text == line.line || text == line.version) return line;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", line.line);
  }
  return invalid_argument(
      fmt::format("unknown driver line '{}'; known are {}", printable(text), known));
}

void set_driver(Header& header, const DriverLine& line) {
  header.cuda_version = line.cuda;
  header.driver_major = static_cast<std::uint32_t>(std::strtoul(line.version, nullptr, 10));
  (void)std::snprintf(header.driver, sizeof header.driver, "%s", line.version);
}

Result<std::string> make_machine(const Machine& machine) {
  TRY(const DriverLine line, driver_line(machine.driver));
  TRY(const core::Node node, node_of(machine));
  TRY(std::unique_ptr<NewFile> file, NewFile::create(machine.path));
  TRY_VOID(fill(file->state(), machine, node, line));
  TRY_VOID(file->keep_as(machine.path));
  return fmt::format("{}: node {}, {} device{}, driver {} (CUDA {}.{})\n", machine.path, node.name,
                     node.devices.size(), node.devices.size() == 1 ? "" : "s", line.version,
                     line.cuda / 1000, line.cuda % 1000 / 10);
}

}  // namespace berth::fake::tool
