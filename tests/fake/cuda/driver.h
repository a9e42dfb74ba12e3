// The fake driver inside one process: its view of the devices, contexts, and the road that every
// entry point takes (`enter`). One lock protects everything in here; it is never held while
// sleeping.
//
// State that dies with the process is here; what other processes see is in the state file (Books).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "fake/cuda/abi.h"
#include "fake/cuda/address_space.h"
#include "fake/cuda/slab.h"
#include "fake/state/books.h"

#define BERTH_CUDA extern "C" __attribute__((visibility("default"))) CUresult

// First line of an entry point: the driver must be up, and nobody has asked for this call to fail.
// What follows the name are the out-parameters that an injected failure may poison.
#define ENTER(name, ...)                                                                  \
  if (const CUresult stop = ::berth::fake::cuda::enter(#name __VA_OPT__(, ) __VA_ARGS__); \
      stop != ::berth::fake::cuda::kSuccess)                                              \
  return stop

namespace berth::fake::cuda {

class Driver {
 public:
  // Brings the driver up: opens the state, takes a slot, looks at CUDA_VISIBLE_DEVICES.
  CUresult start();
  bool is_up() const { return up_.load(std::memory_order_acquire); }
  // After a fork: the child's copy answers "not initialised" unless the state allows more.
  void after_fork();

  Books& books() { return *books_; }
  // Null before start; opened also for what needs no cuInit (the driver's version).
  Books* books_if_any();
  Header& header() { return books_->state().header; }

  int count() const { return static_cast<int>(visible_.size()); }
  bool is_device(CUdevice device) const { return device >= 0 && device < count(); }
  // Place in the state file of a device as the program numbers it.
  int entry_of(CUdevice device) const { return visible_[static_cast<std::size_t>(device)]; }
  CUdevice device_of(int entry) const;
  DeviceEntry& device(CUdevice device) { return entry(entry_of(device)); }
  DeviceEntry& entry(int entry) { return books_->state().devices[entry]; }

  std::mutex lock;
  AddressSpace space;
  AddressSpace low_space;  // below 4 GiB
  Block* find(std::uint64_t address) {
    return low_space.contains(address) ? low_space.find(address) : space.find(address);
  }
  std::vector<Context*> contexts;
  Context* primary[kMaxDevices] = {};

 private:
  void choose_visible();
  std::atomic<bool> up_{false};
  std::atomic<bool> forked_{false};
  CUresult failed_ = 0;
  Books* books_ = nullptr;
  std::vector<int> visible_;
};

Driver& driver();

using Guard = std::lock_guard<std::mutex>;

// Counts, delays and fails calls as the state file says; also refuses on a lost device or after a
// reload. Called only when Header::special is not 0. `poison` becomes true if the out-parameters
// are to be overwritten with garbage.
CUresult enter_slowly(const char* name, bool* poison);

template <class T>
void poison_one(T* out) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): handles are pointers
  if (out != nullptr) std::memset(static_cast<void*>(out), 0xA5, sizeof(T));
}

template <class... Outs>
[[gnu::always_inline]] inline CUresult enter(const char* name, Outs*... outs) {
  if (!driver().is_up()) [[unlikely]]
    return kNotInitialized;
  if (driver().header().special.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    bool poison = false;
    const CUresult code = enter_slowly(name, &poison);
    if (poison) (poison_one(outs), ...);
    return code;
  }
  return kSuccess;
}

}  // namespace berth::fake::cuda
