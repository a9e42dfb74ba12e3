// What one process knows of itself: its slot, what it holds, and which objects it holds it for.
//
// All of it lies in one region that the kernel wipes in a forked child (MADV_WIPEONFORK, from the
// opening of the grant on; an atfork handler where the kernel is older than 4.14). A child so
// begins without a slot and with empty tables, whatever its parent's threads were doing; what it
// inherited stays its parent's charge. Zero bytes are the valid first state of everything here.
// Thread-safety: `lock` guards what is not atomic; it is never held across a driver or system call.
#pragma once

#include <atomic>
#include <cstdint>

#include "guard/preload/table.h"
#include "guard/slots.h"

// What the constructor runs lies together and reads no constants from elsewhere: a start is charged
// for every stretch of the library that it is the first to touch.
#define GUARD_AT_START [[gnu::section(".text.startup")]]

namespace berth::guard {

// Targets: devices that the policy names, by their place in it; one more for devices that a closed
// policy does not name.
inline constexpr int kUntouched = -1;
inline constexpr int kDenied = static_cast<int>(kMaxDevices);
inline constexpr int kTargets = kDenied + 1;

// A lock of this process. Waiting threads give the processor away instead of spinning.
class SpinLock {
 public:
  void lock() {
    if (!held_.exchange(true, std::memory_order_acquire)) [[likely]] {
      return;
    }
    lock_slowly();
  }

  void unlock() { held_.store(false, std::memory_order_release); }

  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }

 private:
  [[gnu::noinline]] void lock_slowly() {
    for (unsigned turn = 1;; ++turn) {
      while (held_.load(std::memory_order_relaxed)) {
        if (turn++ < 64) continue;
        if (turn < 256) {
          sys::call(SYS_sched_yield);
        } else {
          sys::sleep_until(sys::monotonic_ns() + 50'000);
        }
      }
      if (!held_.exchange(true, std::memory_order_acquire)) return;
    }
  }

  std::atomic<bool> held_;
};

class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }

  ~Locked() { lock_.unlock(); }

  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

// A context of the driver. `handle` is published last.
struct Context {
  std::atomic<std::uint64_t> handle;
  std::atomic<std::int32_t> target;
  std::int32_t ordinal;
  std::uint64_t charged;     // for the context itself
  std::uint64_t limits[3];   // for raised context limits, by CU_LIMIT_*
  std::uint64_t initial[3];  // their values before the first change, plus one; 0: none yet
  bool created_here;         // by a visible cuCtxCreate, so not a primary one
  std::uint32_t attached;    // further users, by cuCtxAttach
  // A pair of events around one launch (launch.h).
  std::atomic<std::uint8_t> sample;
  void* start;
  void* end;
  void* sampled;  // the function between them
};
inline constexpr std::uint32_t kContexts = 512;  // what a table value can name

// Memory that the driver reserves and keeps: a stream-ordered pool, or a device's graph memory.
struct Pool {
  std::uint64_t handle;  // 0: graph memory
  std::int32_t target;   // kUntouched: imported or in host memory, never charged
  std::int32_t ordinal;
  std::uint64_t charged;
  bool live;
  SpinLock lock;
  // A pool that was destroyed while blocks of it live: the driver may not be asked about it any
  // more, so its blocks are counted down.
  bool orphan;
  std::uint64_t used;
  std::uint64_t threshold;
};
inline constexpr std::uint32_t kPoolsPerChunk = 64;
struct PoolChunk {
  Pool pools[kPoolsPerChunk];
  PoolChunk* next;
};

// Physical memory made by cuMemCreate: lives while handles or mappings refer to it.
struct Backing {
  std::uint64_t bytes;
  std::int32_t target;  // kUntouched: imported, or not device memory
  std::uint32_t references;
  std::uint32_t next_free;  // index + 1 while unused
};

struct Messages {
  std::uint64_t last_ns;  // 0: none yet
  std::uint64_t silent;   // refusals since
};

// What launches of a function cost, by a moving average.
struct alignas(64) Estimate {
  std::atomic<std::uint64_t> measured;  // the function again, once its cost was measured
  std::atomic<std::int64_t> cost_ns;
  std::atomic<std::uint64_t> function;
  std::atomic<std::int64_t> last_ns[2];  // the last two measurements
};
inline constexpr std::uint32_t kEstimates = 1024;

struct Local {
  std::uint64_t magic;
  std::atomic<std::uint32_t> slot;  // 0: none yet, else slot + 1; kSlotless: none to be had
  std::atomic<bool> claiming;
  std::atomic<std::uint64_t> last_claim_ns;
  SpinLock lock;
  Identity self;
  std::uint64_t held[kTargets];
  Messages messages[kTargets];
  std::atomic<std::uint64_t> last_sweep_ns;
  std::atomic<bool> sweeping;

  Table pointers;  // pointers and arrays -> Held (books.h)
  Table handles;   // allocation handles -> index of a Backing
  Table mappings;  // mapped addresses -> index of a Backing and size in pages
  Table bindings;  // multicast objects and offsets -> index of a Backing (vmm.cc)
  Table graphs;    // executable graphs -> Held of their memory nodes
  Backing* backings;
  std::uint32_t n_backings;
  std::uint32_t backing_capacity;
  std::uint32_t free_backing;

  Context contexts[kContexts];
  std::uint32_t retains[64];  // visible retains of the primary context, by ordinal

  PoolChunk first_pools;
  std::atomic<std::uint32_t> orphans;   // pools, see Pool::orphan
  std::atomic<std::uint64_t> freed_on;  // where pool memory was freed: a FreedOn (pools.h)
  std::atomic<bool> has_graphs;         // any executable with memory nodes
  std::atomic<std::uint32_t> captures;  // in flight
  Estimate estimates[kEstimates];
  std::atomic<std::uint32_t> trims;  // of graph memory; see graphs.cc
};

inline constexpr std::uint32_t kSlotless = 0xffffffffU;

// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern std::atomic<Local*> g_local;

// Sets the region up at the first call. Null: another copy of this library works in this process,
// or there is no memory.
Local* make_local();

// From here on the region is wiped in a forked child. Before anything but its first state is kept.
void wipe_on_fork();

inline Local* local() {
  Local* known = g_local.load(std::memory_order_acquire);
  return known != nullptr ? known : make_local();
}

// The descriptor that holds the slot's lock, or -1. Not wiped: a child must close its copy.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern std::atomic<int> g_lock_fd;
void close_lock_descriptor();

// True if another copy of the library is at work and this one stays inert.
bool is_inert_copy();

}  // namespace berth::guard
