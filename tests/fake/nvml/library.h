// The fake management library inside one process: what is open, which devices, and the road that
// every entry point takes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <mutex>

#include "fake/nvml/abi.h"
#include "fake/state/books.h"

#define BERTH_NVML extern "C" __attribute__((visibility("default"))) nvmlReturn_t

// First line of an entry point: the library must be initialised, and nobody has asked for this call
// to fail.
#define NVML_ENTER(name)                                           \
  if (const nvmlReturn_t stop = ::berth::fake::nvml::enter(#name); \
      stop != ::berth::fake::nvml::kSuccess)                       \
  return stop
// The same, and `handle` must be a device that is still there.
#define NVML_ENTER_DEVICE(name, handle)                                           \
  if (const nvmlReturn_t stop = ::berth::fake::nvml::enter_device(#name, handle); \
      stop != ::berth::fake::nvml::kSuccess)                                      \
  return stop

namespace berth::fake::nvml {

// A handle: one per place of the state file, never freed.
struct Device {
  int entry = 0;
};

class Library {
 public:
  nvmlReturn_t init();
  nvmlReturn_t shut_down();
  bool is_up() const { return users_ > 0 && books_ != nullptr; }
  Books& books() { return *books_; }
  Books* books_if_any() { return books_; }
  State& state() { return books_->state(); }
  Header& header() { return state().header; }
  std::uint64_t epoch() const { return epoch_; }

  int count() const { return count_; }
  // The device with this number among those that exist for the process; null if there is none.
  Device* by_index(unsigned int index);
  Device* by_entry(int entry) { return &devices_[entry]; }
  bool is_handle(const Device* handle) const {
    return handle >= devices_ && handle < devices_ + kMaxDevices && state_entry(handle).used != 0;
  }
  DeviceEntry& entry(const Device* handle) { return state().devices[handle->entry]; }
  bool sees(int entry) const;
  // The control group of this process.
  const char* cgroup() const { return cgroup_; }

  std::mutex lock;

 private:
  const DeviceEntry& state_entry(const Device* handle) const {
    return books_->state().devices[handle->entry];
  }
  Books* books_ = nullptr;
  int users_ = 0;
  std::uint64_t epoch_ = 0;
  Device devices_[kMaxDevices];
  int gpus_[kMaxDevices] = {};
  int count_ = 0;
  char cgroup_[256] = {};
};

Library& library();

nvmlReturn_t enter(const char* name);
nvmlReturn_t enter_device(const char* name, const Device* handle);

inline DeviceEntry& entry_of(const Device* handle) { return library().entry(handle); }

// Copies a text into a caller's buffer by the interface's rule: too small is an error.
nvmlReturn_t give_text(const char* text, char* out, unsigned int length);

}  // namespace berth::fake::nvml
