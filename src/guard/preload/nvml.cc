#include "guard/preload/nvml.h"

#include <sys/mman.h>

#include "guard/preload/local.h"
#include "guard/slots.h"

namespace berth::guard {

namespace {

struct HandleEntry {
  std::atomic<NvmlDevice> handle;
  std::atomic<int> target;
};
HandleEntry g_handles[64];

// The 16 bytes of "GPU-…" or "MIG-…". False: another form (an old MIG name).
bool parse_uuid_text(const char* text, std::uint8_t (&out)[kUuidBytes]) {
  if (text[0] == '\0' || text[3] != '-') return false;
  std::size_t nibble = 0;
  for (const char* c = text + 4; *c != '\0'; ++c) {
    if (*c == '-') continue;
    std::size_t at = 0;
    const auto digit = parse_number_at(c, 1, at, 16);
    if (at != 1 || nibble == 32) return false;
    std::uint8_t& byte = out[nibble / 2];
    byte = static_cast<std::uint8_t>((byte << 4U) | digit);
    ++nibble;
  }
  return nibble == 32;
}

// Bytes of the file's owner check: root wrote it, or, outside the fixed directory, ourselves.
std::size_t read_pids(std::uint32_t* out, std::size_t most) {
  Text<320> path;
  path.add(g_grant.directory).add("/").add(kPidsFile);
  const int fd = sys::open(path.c_str(), O_RDONLY);
  if (fd < 0) return 0;
  struct stat status = {};
  sys::Word got = 0;
  const bool fixed = same_text(g_grant.directory, kGrantDirectory);
  if (sys::fstat(fd, &status) == 0 &&
      (status.st_uid == 0 || (!fixed && status.st_uid == sys::user_id()))) {
    got = sys::read(fd, out, most * sizeof(*out));
  }
  sys::close(fd);
  return got > 0 ? static_cast<std::size_t>(got) / sizeof(*out) : 0;
}

// The private table: facts of enforcement.md 2.6.
constexpr std::uint8_t kPrivateTable[16] = {0x6c, 0x3e, 0xfe, 0xc4, 0x8f, 0xc9, 0x4e, 0x6c,
                                            0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
constexpr std::size_t kFirstListSlot = 213;
constexpr std::size_t kTableSlots = 216;
constexpr const char* kTestedDrivers[] = {"535.261.03", "580.65.06"};

struct PrivateProcess {
  std::uint32_t pid;
  std::uint8_t rest[4124];
};
static_assert(sizeof(PrivateProcess) == 4128);

using PrivateList = int (*)(NvmlDevice, unsigned*, PrivateProcess*);
PrivateList g_private_lists[3];
std::atomic<const void*> g_private_copy;

template <int kIndex>
int private_list(NvmlDevice device, unsigned* count, PrivateProcess* list) {
  const int code = g_private_lists[kIndex](device, count, list);
  if (code != kNvmlSuccess || count == nullptr || list == nullptr) return code;
  const OwnPids own;
  if (own.known()) *count = keep_own(list, *count, own);
  return code;
}

bool is_nvidia_smi() {
  char path[256] = {};
  const sys::Word length = sys::call(SYS_readlinkat, AT_FDCWD, sys::word_of("/proc/self/exe"),
                                     sys::word_of(path), sizeof(path) - 1);
  const char* name = path;
  for (sys::Word i = 0; i < length; ++i) {
    if (path[i] == '/') name = path + i + 1;
  }
  return same_text(name, "nvidia-smi");
}

bool is_tested_driver() {
  char version[96] = {};
  if (driver<Name::nvmlSystemGetDriverVersion>(version, static_cast<unsigned>(sizeof(version))) !=
      kNvmlSuccess) {
    return false;
  }
  for (const char* tested : kTestedDrivers) {
    if (same_text(version, tested)) return true;
  }
  return false;
}

}  // namespace

int target_of_handle(NvmlDevice device) {
  const auto start = (reinterpret_cast<std::uint64_t>(device) >> 4U) % 64;
  for (std::uint64_t i = 0; i < 64; ++i) {
    HandleEntry& entry = g_handles[(start + i) % 64];
    const NvmlDevice known = entry.handle.load(std::memory_order_acquire);
    if (known == device) return entry.target.load(std::memory_order_acquire);
    if (known != nullptr) continue;
    char text[96] = {};
    std::uint8_t uuid[kUuidBytes] = {};
    if (driver<Name::nvmlDeviceGetUUID>(device, text, static_cast<unsigned>(sizeof(text))) !=
        kNvmlSuccess) {
      return kUntouched;
    }
    const int target = parse_uuid_text(text, uuid) ? target_of_uuid(uuid) : kUntouched;
    // Another thread may take the place for another handle; then it is asked again next time.
    NvmlDevice none = nullptr;
    entry.target.store(target, std::memory_order_release);
    entry.handle.compare_exchange_strong(none, device, std::memory_order_acq_rel);
    return target;
  }
  return kUntouched;
}

OwnPids::OwnPids() {
  pids_ = static_cast<std::uint32_t*>(sys::map(nullptr, kMost * sizeof(std::uint32_t),
                                               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                               -1));
  if (pids_ == nullptr) return;
  count_ = static_cast<std::uint32_t>(read_pids(pids_, 1024));
  const std::uint32_t space = own_pid_namespace();
  for (std::uint32_t slot = 0; space != 0 && slot < g_grant.view.n_slots(); ++slot) {
    const Owner& owner = g_grant.view.owner(slot);
    const std::uint32_t pid = owner.pid.load(std::memory_order_acquire);
    if (pid != 0 && owner.pid_namespace.load(std::memory_order_acquire) == space) add(pid);
  }
}

OwnPids::~OwnPids() {
  if (pids_ != nullptr) sys::unmap(pids_, kMost * sizeof(std::uint32_t));
}

bool OwnPids::has(std::uint32_t pid) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (pids_[i] == pid) return true;
  }
  return false;
}

ListMemory::ListMemory(std::size_t bytes)
    : memory_(sys::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1)),
      bytes_(bytes) {}

ListMemory::~ListMemory() {
  if (memory_ != nullptr) sys::unmap(memory_, bytes_);
}

const void* private_table_for(const void* table, const void* id) {
  const auto* bytes = static_cast<const std::uint8_t*>(id);
  for (std::size_t i = 0; i < sizeof(kPrivateTable); ++i) {
    if (bytes[i] != kPrivateTable[i]) return table;
  }
  const auto size = *static_cast<const std::size_t*>(table);
  if (size < kTableSlots * sizeof(void*) || size > (1U << 20U)) return table;
  if (!is_tested_driver() || !is_nvidia_smi()) return table;
  if (const void* known = g_private_copy.load(std::memory_order_acquire)) return known;
  auto* copy = static_cast<void**>(
      sys::map(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  if (copy == nullptr) return table;
  for (std::size_t i = 0; i < size / sizeof(void*); ++i)
    copy[i] = static_cast<void* const*>(table)[i];
  for (std::size_t i = 0; i < 3; ++i) {
    if (copy[kFirstListSlot + i] == nullptr) return table;
    g_private_lists[i] = reinterpret_cast<PrivateList>(copy[kFirstListSlot + i]);
  }
  copy[kFirstListSlot] = reinterpret_cast<void*>(&private_list<0>);
  copy[kFirstListSlot + 1] = reinterpret_cast<void*>(&private_list<1>);
  copy[kFirstListSlot + 2] = reinterpret_cast<void*>(&private_list<2>);
  g_private_copy.store(copy, std::memory_order_release);
  return copy;
}

}  // namespace berth::guard
