// The state file of the fake driver: one machine's GPUs and what every process holds on them.
//
// The file is mapped by every client (libcuda.so.1, libnvidia-ml.so.1) and by berth-fake-gpu. It is
// the truth that tests compare other accounts with, so it is kept so simple that it cannot be
// wrong:
//
// 1. A process owns one slot and is the only writer of its figures. There is no shared counter.
// 2. A device's use is the sum of the figures of the slots whose owner lives (owner.h says who
// does),
//    plus foreign processes, plus what importers keep alive. A dead process's memory needs no
//    clean-up.
// 3. All words are naturally aligned and written whole; nothing is ever half true after a SIGKILL.
//
// Little-endian, version 1. The file is sparse: what nobody uses takes no room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::fake {

inline constexpr char kMagic[8] = {'B', 'E', 'R', 'T', 'H', 'F', 'K', '1'};
inline constexpr std::uint32_t kLayout = 1;

inline constexpr int kMaxGpus = 16;
inline constexpr int kMaxDevices = 128;  // GPUs and the MIG instances cut from them
inline constexpr int kMaxSlots = 2048;
inline constexpr int kMaxForeign = 64;
inline constexpr int kMaxFaults = 32;
inline constexpr int kMaxShares = 4096;
inline constexpr int kMaxImporters = 30;
inline constexpr int kMaxLimits = 256;
inline constexpr int kMaxCounters = 1280;
inline constexpr int kMaxLog = 1024;
inline constexpr int kUtilisationBuckets = 64;
inline constexpr std::uint64_t kBucketNs = 50'000'000;

using Word = std::atomic<std::uint64_t>;
using HalfWord = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// What memory is held for. The order is that of the words in `dump`.
enum class Family : std::uint32_t {
  linear,
  pitched,
  managed,
  array,
  vmm,
  pool,
  graph,
  context,
  module,
  heap,  // device heap, stacks, printf buffers: cuCtxSetLimit
};
inline constexpr int kFamilies = 10;
inline constexpr const char* kFamilyNames[kFamilies] = {
    "linear", "pitched", "managed", "array", "vmm", "pool", "graph", "context", "module", "heap"};

// Why the quick path of an entry point must look closer. Bits of Header::special.
enum Special : std::uint32_t {
  kSpecialFaults = 1U << 0U,
  kSpecialCount = 1U << 1U,   // every call is counted
  kSpecialCost = 1U << 2U,    // every call takes Header::call_cost_ns
  kSpecialReload = 1U << 3U,  // the driver was reloaded at least once
  kSpecialLost = 1U << 4U,    // a device is or was lost
  kSpecialLog = 1U << 5U,     // requests to cuGetProcAddress are written down
};
// Why a charge must look closer. Bits of Header::charge_special.
enum ChargeSpecial : std::uint32_t {
  kChargeShares = 1U << 0U,  // memory shared between processes exists
  kChargeLimits = 1U << 1U,  // kernel limits per cgroup exist
};

enum HeaderFlag : std::uint32_t {
  kForkWorks = 1U << 0U,   // a forked child may go on using the driver (a real one answers 3)
  kMiscLimits = 1U << 1U,  // kernel limits by the misc controller
  kNoLimits = 1U << 2U,    // kernel limits switched off (RmMemacctMode=0)
};

struct Bucket {
  Word epoch;    // number of the time slice
  Word busy_ns;  // of it
};

struct alignas(64) DeviceEntry {
  std::uint8_t uuid[16];
  char uuid_text[48];
  char name[64];
  char bus_id[20];
  char profile[28];  // "1g.10gb" of a MIG instance
  std::uint64_t total;
  std::uint64_t reserved;       // by the driver: counted in v2's `reserved` and v1's `used`
  std::uint64_t context_bytes;  // physical size of one context
  std::uint32_t used;           // 0 = free entry
  std::int32_t parent;          // entry of the GPU an instance is cut from, -1 = a GPU
  std::uint32_t index;          // the driver's number of a GPU; of an instance its place on the GPU
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
  std::uint32_t multiprocessors;
  std::uint32_t major;
  std::uint32_t minor;
  std::uint32_t numa;
  HalfWord mig_mode;      // of a GPU: 1 = its instances are used, it is not
  HalfWord mig_pending;   // takes effect at the next reload
  HalfWord lost;          // 1 = lost, 2 = fallen off the bus
  HalfWord compute_mode;  // 0 default, 2 prohibited, 3 exclusive process
  HalfWord persistence;
  Word ecc_corrected;
  Word ecc_uncorrected;
  Word last_xid;
  Word xid_count;   // rises with each xid: event sets wait for it
  Word lost_epoch;  // contexts older than this are gone for good
  Word busy_until;  // CLOCK_MONOTONIC ns: end of the last kernel on the device's time line
  Word busy_total;  // ns of kernel time since init
  Word power_limit_mw;
  Word foreign_bytes;  // sum over State::foreign for this device
  Bucket buckets[kUtilisationBuckets];
};
static_assert(sizeof(DeviceEntry) % 64 == 0);

// What one process holds on one device. Written by the slot's owner only.
struct alignas(64) Figures {
  Word total;
  Word family[kFamilies];
  Word busy_ns;
  Word last_busy;  // CLOCK_MONOTONIC ns, end of the process's last kernel
  Word attempt;    // not 0: `total` holds a charge that may still be withdrawn
  Word spare[2];
};
static_assert(sizeof(Figures) == 128);

struct alignas(64) Owner {
  HalfWord ready;  // 1 = the words below are whole
  std::uint32_t pid;
  std::uint64_t pid_namespace;  // inode
  std::uint64_t start_time;     // field 22 of /proc/PID/stat
  std::uint64_t generation;     // rises with each claim of the slot: names the claim in imports
  std::uint64_t driver_epoch;
  Word contexts;  // bit per device entry below 64: the process has a context there
  Word contexts_high;
  char command[64];
  char cgroup[256];
};
static_assert(sizeof(Owner) == 384);

struct Foreign {
  HalfWord used;
  std::uint32_t pid;
  std::uint32_t device;
  std::uint32_t graphics;
  Word bytes;
  char command[40];
};

// Memory that one process exported and others may have imported.
struct alignas(64) Share {
  HalfWord used;  // 0 free, 1 being written, 2 live
  std::uint32_t device;
  std::uint32_t family;
  std::uint32_t exporter_slot;
  std::uint64_t exporter_generation;
  std::uint64_t bytes;
  std::uint64_t id;
  Word released;                 // the exporter has let go (its figures no longer hold the bytes)
  Word importer[kMaxImporters];  // generation << 16 | slot + 1; 0 = free place
};

// A hard and a soft limit of one cgroup on one GPU (driver 615 and later).
struct MemoryLimit {
  HalfWord used;
  std::uint32_t device;
  Word soft;
  Word hard;
  Word uncharged;  // misc: what the group held before the limit existed and is never charged
  char cgroup[256];
};

enum class FaultAction : std::uint32_t { code, delay, hang, kill, poison };

// "The nth call (or each with a probability) of FUNCTION does ACTION."
struct Fault {
  HalfWord used;
  std::uint32_t action;
  char function[64];          // export name, or "*"
  std::int64_t code;          // returned without calling
  std::uint64_t delay_ns;     // before the call goes on
  std::uint64_t nth;          // 1 = the next call; 0 = by probability
  std::uint64_t times;        // how many calls are hit from the nth on; 0 = all
  std::uint64_t per_million;  // probability
  std::uint64_t seed;
  Word calls;
  Word hits;
};

struct LogLine {
  char symbol[64];
  std::int32_t version;
  std::int32_t status;
  std::uint64_t flags;
};

struct Header {
  char magic[8];
  std::uint32_t layout;
  std::uint32_t device_count;  // entries in use or once used
  std::uint64_t bytes;         // of the file
  char driver[32];             // "535.261.03"
  char node[64];
  std::uint32_t cuda_version;  // 12020
  std::uint32_t driver_major;
  HalfWord special;
  HalfWord charge_special;
  HalfWord flags;
  HalfWord slots_high;  // slots below this may be in use
  Word epoch;           // of the driver: rises with each reload
  Word call_cost_ns;
  Word launch_ns;  // of a kernel that declares none
  Word share_ids;
  Word claims;
  Word log_count;
  Word spare[16];
};

struct State {
  alignas(4096) Header header;
  alignas(4096) DeviceEntry devices[kMaxDevices];
  alignas(4096) Owner owners[kMaxSlots];
  Foreign foreign[kMaxForeign];
  Fault faults[kMaxFaults];
  MemoryLimit limits[kMaxLimits];
  Share shares[kMaxShares];
  alignas(4096) Word cuda_calls[kMaxCounters];  // by line of cuda/symbols.txt
  Word cuda_refused[kMaxCounters];              // calls of what the fake does not do
  Word nvml_calls[kMaxCounters];                // by line of nvml/symbols.txt
  Word nvml_refused[kMaxCounters];
  alignas(4096) LogLine log[kMaxLog];
  alignas(4096) Figures figures[kMaxDevices][kMaxSlots];
};

// Places of the file's advisory locks, beyond its data.
inline constexpr std::int64_t kBooksLock = (std::int64_t{1} << 40) - 1;
inline constexpr std::int64_t kSlotLocks = std::int64_t{1} << 40;

}  // namespace berth::fake
