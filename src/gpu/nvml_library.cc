#include "gpu/nvml_library.h"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::gpu {

namespace {

constexpr std::size_t kTextSize = 96;  // NVML's own names and UUIDs are at most this long
constexpr std::size_t kCommandSize = 1024;

// Codes by which a library or a driver says that it does not know this form of a call.
bool is_unknown_form(int code) {
  return code == nvml::kNotSupported || code == nvml::kFunctionNotFound ||
         code == nvml::kArgumentVersionMismatch;
}

std::string terminated(const char* text, std::size_t room) {
  const std::string_view all(text, room);
  return std::string(all.substr(0, all.find('\0')));
}

const char* code_name(int code) {
  switch (code) {
    case nvml::kSuccess: return "success";
    case nvml::kUninitialized: return "not initialised";
    case nvml::kInvalidArgument: return "invalid argument";
    case nvml::kNotSupported: return "not supported";
    case nvml::kNoPermission: return "no permission";
    case nvml::kNotFound: return "not found";
    case nvml::kInsufficientSize: return "insufficient size";
    case nvml::kDriverNotLoaded: return "driver not loaded";
    case nvml::kTimeout: return "timeout";
    case nvml::kFunctionNotFound: return "function not found";
    case nvml::kGpuIsLost: return "GPU is lost";
    case nvml::kVersionMismatch: return "driver and library versions differ";
    case nvml::kArgumentVersionMismatch: return "argument version mismatch";
    default: return "error";
  }
}

// Why the library is of no use, and what helps.
std::string why_not(int code, const std::string& text) {
  switch (code) {
    case nvml::kDriverNotLoaded:
      return "the NVIDIA driver is not loaded: run `modprobe nvidia` or `nvidia-smi` as root, and "
             "see `dmesg` if that fails";
    case nvml::kNoPermission:
      return "no permission to talk to the NVIDIA driver: the daemon needs to read and write "
             "/dev/nvidiactl and /dev/nvidia*";
    case nvml::kVersionMismatch:
      return "the NVIDIA library and the loaded kernel module are of different versions: the "
             "driver "
             "was upgraded; reload the nvidia modules or reboot";
    default: return fmt::format("the NVIDIA driver does not start: NVML says {}", text);
  }
}

}  // namespace

template <class... Arguments>
void NvmlLibrary::find(NvmlCall<Arguments...>& call, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* address = dlsym(handle_, name); address != nullptr) {
      call.set(address);
      return;
    }
  }
}

NvmlLibrary::NvmlLibrary(void* handle) : handle_(handle) { find_calls(); }

void NvmlLibrary::find_calls() {
  find(init_, {"nvmlInit_v2", "nvmlInit"});
  find(shutdown_, {"nvmlShutdown"});
  find(driver_version_, {"nvmlSystemGetDriverVersion"});
  find(nvml_version_, {"nvmlSystemGetNVMLVersion"});
  find(cuda_version_, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  find(count_, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  find(handle_by_index_, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  find(handle_by_uuid_, {"nvmlDeviceGetHandleByUUID"});
  find(uuid_, {"nvmlDeviceGetUUID"});
  find(name_, {"nvmlDeviceGetName"});
  find(minor_, {"nvmlDeviceGetMinorNumber"});
  find(pci_v3_, {"nvmlDeviceGetPciInfo_v3"});
  find(pci_older_, {"nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"});
  find(compute_mode_, {"nvmlDeviceGetComputeMode"});
  find(memory_v1_, {"nvmlDeviceGetMemoryInfo"});
  find(memory_v2_, {"nvmlDeviceGetMemoryInfo_v2"});
  find(ecc_errors_, {"nvmlDeviceGetTotalEccErrors"});
  find(compute_.newest,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  find(compute_.first, {"nvmlDeviceGetComputeRunningProcesses"});
  find(graphics_.newest,
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  find(graphics_.first, {"nvmlDeviceGetGraphicsRunningProcesses"});
  find(mps_.newest, {"nvmlDeviceGetMPSComputeRunningProcesses_v3",
                     "nvmlDeviceGetMPSComputeRunningProcesses_v2"});
  find(mps_.first, {"nvmlDeviceGetMPSComputeRunningProcesses"});
  find(process_name_, {"nvmlSystemGetProcessName"});
  find(mig_mode_, {"nvmlDeviceGetMigMode"});
  find(most_instances_, {"nvmlDeviceGetMaxMigDeviceCount"});
  find(instance_, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  find(gpu_instance_, {"nvmlDeviceGetGpuInstanceId"});
  find(compute_instance_, {"nvmlDeviceGetComputeInstanceId"});
  find(attributes_, {"nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"});
  find(events_create_, {"nvmlEventSetCreate"});
  find(events_free_, {"nvmlEventSetFree"});
  find(events_supported_, {"nvmlDeviceGetSupportedEventTypes"});
  find(events_register_, {"nvmlDeviceRegisterEvents"});
  find(events_wait_, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
}

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Error(ErrorCode::unavailable,
                 fmt::format("the NVIDIA library cannot be loaded ({}): install the NVIDIA driver, "
                             "or say where its libnvidia-ml.so.1 lies",
                             printable(why == nullptr ? path : why)));
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(handle));
  if (!library->init_.there() || !library->count_.there()) {
    return Error(ErrorCode::unavailable,
                 fmt::format("{} is no NVIDIA management library: it has no nvmlInit_v2; name the "
                             "libnvidia-ml.so.1 of the driver",
                             printable(path)));
  }
  if (const int code = library->init_(); code != nvml::kSuccess) {
    return Error(ErrorCode::unavailable, why_not(code, library->text(code)));
  }
  library->initialised_ = true;
  return library;
}

NvmlLibrary::~NvmlLibrary() {
  stop_watching();
  if (initialised_) (void)shutdown_();
  (void)dlclose(handle_);
}

std::string NvmlLibrary::text(int code) const {
  return fmt::format("{} ({})", code_name(code), code);
}

std::string NvmlLibrary::driver_version() const {
  std::array<char, kTextSize> buffer{};
  if (driver_version_(buffer.data(), buffer.size()) != nvml::kSuccess) return {};
  return printable(terminated(buffer.data(), buffer.size()));
}

std::string NvmlLibrary::nvml_version() const {
  std::array<char, kTextSize> buffer{};
  if (nvml_version_(buffer.data(), buffer.size()) != nvml::kSuccess) return {};
  return printable(terminated(buffer.data(), buffer.size()));
}

int NvmlLibrary::cuda_version() const {
  int version = 0;
  return cuda_version_(&version) == nvml::kSuccess ? version : 0;
}

int NvmlLibrary::count(unsigned& count) const { return count_(&count); }

int NvmlLibrary::handle(unsigned index, nvml::Device& device) const {
  return handle_by_index_(index, &device);
}

int NvmlLibrary::handle(const std::string& uuid, nvml::Device& device) const {
  return handle_by_uuid_(uuid.c_str(), &device);
}

int NvmlLibrary::uuid(nvml::Device device, std::string& uuid) const {
  std::array<char, kTextSize> buffer{};
  const int code = uuid_(device, buffer.data(), buffer.size());
  if (code == nvml::kSuccess) uuid = terminated(buffer.data(), buffer.size());
  return code;
}

int NvmlLibrary::name(nvml::Device device, std::string& name) const {
  std::array<char, kTextSize> buffer{};
  const int code = name_(device, buffer.data(), buffer.size());
  if (code == nvml::kSuccess) name = printable(terminated(buffer.data(), buffer.size()));
  return code;
}

int NvmlLibrary::minor(nvml::Device device, unsigned& minor) const {
  return minor_(device, &minor);
}

int NvmlLibrary::bus_id(nvml::Device device, std::string& bus_id) const {
  nvml::Pci pci{};
  if (const int code = pci_v3_(device, &pci); code == nvml::kSuccess) {
    bus_id = terminated(pci.bus_id, sizeof pci.bus_id);
    return code;
  }
  pci = {};
  const int code = pci_older_(device, &pci);
  if (code == nvml::kSuccess) {
    bus_id = terminated(pci.bus_id_legacy, sizeof pci.bus_id_legacy);
    // "0000:0A:00.0" of old forms; all others write the domain with eight digits.
    if (bus_id.find(':') == 4) bus_id.insert(0, "0000");
  }
  return code;
}

int NvmlLibrary::compute_mode(nvml::Device device, int& mode) const {
  return compute_mode_(device, &mode);
}

int NvmlLibrary::memory(nvml::Device device, NvmlMemory& memory) const {
  nvml::MemoryV2 second{};
  second.version = nvml::kMemoryV2;
  int code = memory_v2_(device, &second);
  if (code == nvml::kSuccess) {
    memory = {.total = second.total, .used = second.used, .reserved = second.reserved};
    return code;
  }
  if (!is_unknown_form(code)) return code;
  nvml::Memory first{};
  code = memory_v1_(device, &first);
  if (code == nvml::kSuccess) {
    memory = {.total = first.total, .used = first.used, .reserved = std::nullopt};
  }
  return code;
}

int NvmlLibrary::uncorrected_errors(nvml::Device device, std::uint64_t& count) const {
  constexpr int kUncorrected = 1;
  constexpr int kSinceLoad = 0;
  LongWord value = 0;
  const int code = ecc_errors_(device, kUncorrected, kSinceLoad, &value);
  if (code == nvml::kSuccess) count = value;
  return code;
}

// Asks for the size, then for the list; processes may come in between, so it is asked again.
template <class Entry>
int NvmlLibrary::read_list(const NvmlCall<Device, Word*, Entry*>& call, Device device,
                           std::vector<NvmlProcess>& processes) {
  constexpr int kTries = 5;
  constexpr Word kSpare = 8;
  std::vector<Entry> entries(kSpare);
  int code = nvml::kInsufficientSize;
  Word count = 0;
  for (int round = 0; round < kTries && code == nvml::kInsufficientSize; ++round) {
    count = static_cast<Word>(entries.size());
    code = call(device, &count, entries.data());
    if (code == nvml::kInsufficientSize) entries.resize(std::size_t{count} + kSpare);
  }
  if (code != nvml::kSuccess) return code;
  for (std::size_t place = 0; place < std::min<std::size_t>(count, entries.size()); ++place) {
    NvmlProcess process{.pid = entries[place].pid, .used = std::nullopt};
    if (entries[place].used != nvml::kNotAvailable) process.used = entries[place].used;
    const auto known = std::ranges::find(processes, process.pid, &NvmlProcess::pid);
    if (known == processes.end()) {
      processes.push_back(process);
    } else {
      // In two lists: both say what the process holds as a whole.
      known->used = std::max(known->used, process.used);
    }
  }
  return code;
}

int NvmlLibrary::processes(nvml::Device device, std::vector<NvmlProcess>& processes) const {
  processes.clear();
  bool any = false;
  for (const Lists* lists : {&compute_, &graphics_, &mps_}) {
    int code = read_list(lists->newest, device, processes);
    if (is_unknown_form(code)) code = read_list(lists->first, device, processes);
    if (code == nvml::kSuccess) any = true;
    if (code != nvml::kSuccess && !is_unknown_form(code)) return code;
  }
  return any ? nvml::kSuccess : nvml::kNotSupported;
}

std::string NvmlLibrary::process_name(std::uint32_t pid) const {
  std::array<char, kCommandSize> buffer{};
  if (process_name_(pid, buffer.data(), buffer.size()) != nvml::kSuccess) return {};
  std::string command = terminated(buffer.data(), buffer.size());
  command.resize(std::min(command.size(), command.find(' ')));
  const std::size_t slash = command.rfind('/');
  return printable(slash == std::string::npos ? command : command.substr(slash + 1));
}

int NvmlLibrary::mig_mode(nvml::Device device, NvmlMigMode& mode) const {
  Word current = 0;
  Word pending = 0;
  const int code = mig_mode_(device, &current, &pending);
  if (code == nvml::kSuccess) mode = {.current = current == 1, .pending = pending == 1};
  return code;
}

int NvmlLibrary::most_instances(nvml::Device device, unsigned& count) const {
  return most_instances_(device, &count);
}

int NvmlLibrary::instance(nvml::Device device, unsigned index, nvml::Device& instance) const {
  return instance_(device, index, &instance);
}

int NvmlLibrary::instance_ids(nvml::Device instance, unsigned& gpu, unsigned& compute) const {
  const int code = gpu_instance_(instance, &gpu);
  return code == nvml::kSuccess ? compute_instance_(instance, &compute) : code;
}

int NvmlLibrary::attributes(nvml::Device instance, nvml::Attributes& attributes) const {
  return attributes_(instance, &attributes);
}

int NvmlLibrary::watch(nvml::Device device) {
  if (events_ == nullptr) {
    if (const int code = events_create_(&events_); code != nvml::kSuccess) {
      events_ = nullptr;
      return code;
    }
  }
  LongWord supported = 0;
  if (const int code = events_supported_(device, &supported); code != nvml::kSuccess) return code;
  if ((supported & nvml::kXidEvent) == 0) return nvml::kNotSupported;
  return events_register_(device, nvml::kXidEvent, events_);
}

int NvmlLibrary::next_xid(NvmlXid& xid) const {
  if (events_ == nullptr) return nvml::kTimeout;
  nvml::Event event{};
  event.gpu_instance = nvml::kNoInstance;
  event.compute_instance = nvml::kNoInstance;
  const int code = events_wait_(events_, &event, 0);
  if (code != nvml::kSuccess) return code;
  constexpr LongWord kMostXid = 99'999;
  xid = {.device = event.device,
         .xid = static_cast<int>(std::min(event.data, kMostXid)),
         .gpu_instance = event.gpu_instance,
         .compute_instance = event.compute_instance};
  return code;
}

void NvmlLibrary::stop_watching() {
  if (events_ != nullptr) (void)events_free_(events_);
  events_ = nullptr;
}

}  // namespace berth::gpu
