// NvmlLibrary: the driver's management library, opened at run time, with one function per question.
//
//   TRY(auto library, NvmlLibrary::open("libnvidia-ml.so.1"));
//   unsigned count = 0;
//   if (const int code = library->count(count); code != nvml::kSuccess) … library->text(code) …
//
// Every function answers NVML's code. A symbol that the library lacks answers kNotSupported; of
// versioned calls the newest form that the library has and the driver accepts is used.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_abi.h"

namespace berth::gpu {

// A function of the library, or one that answers kNotSupported.
template <class... Arguments>
class NvmlCall {
 public:
  using Function = int (*)(Arguments...);

  int operator()(Arguments... arguments) const {
    return function_ == nullptr ? nvml::kNotSupported : function_(arguments...);
  }

  bool there() const { return function_ != nullptr; }

  void set(void* address) { function_ = reinterpret_cast<Function>(address); }

 private:
  Function function_ = nullptr;
};

struct NvmlMemory {
  std::uint64_t total = 0;                // bytes
  std::uint64_t used = 0;                 // with the driver's reserve if `reserved` is empty
  std::optional<std::uint64_t> reserved;  // the driver's, where this driver tells it
};

struct NvmlProcess {
  std::uint32_t pid = 0;
  std::optional<std::uint64_t> used;  // bytes; empty = the driver has no value
};

struct NvmlXid {
  nvml::Device device = nullptr;
  int xid = 0;
  std::uint32_t gpu_instance = nvml::kNoInstance;
  std::uint32_t compute_instance = nvml::kNoInstance;
};

struct NvmlMigMode {
  bool current = false;
  bool pending = false;  // after the next reset
};

class NvmlLibrary {
 public:
  // Loads and initialises. Error unavailable: what is missing and what to do about it.
  static Result<std::unique_ptr<NvmlLibrary>> open(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  std::string text(int code) const;    // "GPU is lost (15)"
  std::string driver_version() const;  // "535.261.03", empty when it cannot be told
  std::string nvml_version() const;    // "12.535.261.03", likewise
  int cuda_version() const;            // 12020 for 12.2; 0 when it cannot be told

  int count(unsigned& count) const;
  int handle(unsigned index, nvml::Device& device) const;
  int handle(const std::string& uuid, nvml::Device& device) const;
  int uuid(nvml::Device device, std::string& uuid) const;
  int name(nvml::Device device, std::string& name) const;
  int minor(nvml::Device device, unsigned& minor) const;
  int bus_id(nvml::Device device, std::string& bus_id) const;  // "00000000:0A:00.0"
  int compute_mode(nvml::Device device, int& mode) const;
  int memory(nvml::Device device, NvmlMemory& memory) const;
  int uncorrected_errors(nvml::Device device, std::uint64_t& count) const;

  // Compute, graphics and MPS clients, each process once. An error if any list is refused that
  // this driver knows.
  int processes(nvml::Device device, std::vector<NvmlProcess>& processes) const;
  // The program, without folder and arguments; empty when it cannot be told.
  std::string process_name(std::uint32_t pid) const;

  int mig_mode(nvml::Device device, NvmlMigMode& mode) const;
  int most_instances(nvml::Device device, unsigned& count) const;
  int instance(nvml::Device device, unsigned index, nvml::Device& instance) const;
  int instance_ids(nvml::Device instance, unsigned& gpu, unsigned& compute) const;
  int attributes(nvml::Device instance, nvml::Attributes& attributes) const;

  // XID events of the devices that were asked for. watch() makes the set when there is none.
  int watch(nvml::Device device);
  // The next event that has happened; kTimeout when there is none. Does not wait.
  int next_xid(NvmlXid& xid) const;
  void stop_watching();

 private:
  explicit NvmlLibrary(void* handle);
  void find_calls();

  template <class... Arguments>
  void find(NvmlCall<Arguments...>& call, std::initializer_list<const char*> names);

  void* handle_ = nullptr;
  bool initialised_ = false;
  nvml::EventSet events_ = nullptr;

  using Device = nvml::Device;
  using Word = nvml::Word;
  using LongWord = nvml::LongWord;
  using List = NvmlCall<Device, Word*, nvml::Process*>;
  using ListV1 = NvmlCall<Device, Word*, nvml::ProcessV1*>;

  // The same question about the three kinds of clients.
  struct Lists {
    List newest;
    ListV1 first;
  };

  template <class Entry>
  static int read_list(const NvmlCall<Device, Word*, Entry*>& call, Device device,
                       std::vector<NvmlProcess>& processes);

  NvmlCall<> init_;
  NvmlCall<> shutdown_;
  NvmlCall<char*, Word> driver_version_;
  NvmlCall<char*, Word> nvml_version_;
  NvmlCall<int*> cuda_version_;
  NvmlCall<Word*> count_;
  NvmlCall<Word, Device*> handle_by_index_;
  NvmlCall<const char*, Device*> handle_by_uuid_;
  NvmlCall<Device, char*, Word> uuid_;
  NvmlCall<Device, char*, Word> name_;
  NvmlCall<Device, Word*> minor_;
  NvmlCall<Device, nvml::Pci*> pci_v3_;
  NvmlCall<Device, nvml::Pci*> pci_older_;  // fills the first 16 bytes and some of ours after them
  NvmlCall<Device, int*> compute_mode_;
  NvmlCall<Device, nvml::Memory*> memory_v1_;
  NvmlCall<Device, nvml::MemoryV2*> memory_v2_;
  NvmlCall<Device, int, int, LongWord*> ecc_errors_;
  Lists compute_;
  Lists graphics_;
  Lists mps_;
  NvmlCall<Word, char*, Word> process_name_;
  NvmlCall<Device, Word*, Word*> mig_mode_;
  NvmlCall<Device, Word*> most_instances_;
  NvmlCall<Device, Word, Device*> instance_;
  NvmlCall<Device, Word*> gpu_instance_;
  NvmlCall<Device, Word*> compute_instance_;
  NvmlCall<Device, nvml::Attributes*> attributes_;
  NvmlCall<nvml::EventSet*> events_create_;
  NvmlCall<nvml::EventSet> events_free_;
  NvmlCall<Device, LongWord*> events_supported_;
  NvmlCall<Device, LongWord, nvml::EventSet> events_register_;
  NvmlCall<nvml::EventSet, nvml::Event*, Word> events_wait_;
};

}  // namespace berth::gpu
