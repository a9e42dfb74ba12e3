#include "fake/nvml/library.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "fake/nvml/names.h"
#include "fake/nvml/refuse.h"
#include "fake/state/faults.h"
#include "fake/state/visible.h"

namespace berth::fake::nvml {

namespace {

void complain(const char* why) {
  static bool said = false;
  if (said) return;
  said = true;
  char line[256];
  const int size = std::snprintf(line, sizeof line, "berth fake driver: no device: %s\n", why);
  const int kept_errno = errno;
  (void)!write(STDERR_FILENO, line, static_cast<std::size_t>(size));
  errno = kept_errno;
}

nvmlReturn_t injected(const char* name) {
  const std::uint32_t special = library().header().special.load(std::memory_order_relaxed);
  if ((special & kSpecialCount) != 0) {
    for (int number = 0; number < kNameCount; ++number) {
      if (std::strcmp(kNames[number], name) == 0) library().state().nvml_calls[number].fetch_add(1);
    }
  }
  if ((special & kSpecialFaults) != 0) {
    const FaultOutcome outcome = apply_faults(library().state(), name);
    if (outcome.hit) return outcome.code;
  }
  return kSuccess;
}

}  // namespace

Library& library() {
  static Library& the_library = *new Library;
  return the_library;
}

nvmlReturn_t Library::init() {
  const std::lock_guard<std::mutex> guard(lock);
  if (books_ == nullptr) {
    const char* why = nullptr;
    books_ = Books::open_from_environment(&why);
    if (books_ == nullptr) {
      complain(why);
      return kDriverNotLoaded;
    }
    for (int entry = 0; entry < kMaxDevices; ++entry)
      devices_[entry].entry = entry;
  }
  if (const nvmlReturn_t code = injected("nvmlInit_v2"); code != kSuccess) return code;
  count_ = existing_gpus(state(), std::getenv("BERTH_FAKE_DEVICES"), gpus_);
  epoch_ = header().epoch.load();
  read_own_cgroup(cgroup_);
  ++users_;
  return kSuccess;
}

nvmlReturn_t Library::shut_down() {
  const std::lock_guard<std::mutex> guard(lock);
  if (users_ == 0) return kUninitialized;
  --users_;
  return kSuccess;
}

Device* Library::by_index(unsigned int index) {
  return index < static_cast<unsigned int>(count_) ? &devices_[gpus_[index]] : nullptr;
}

bool Library::sees(int entry) const {
  return exists(books_->state(), entry, std::getenv("BERTH_FAKE_DEVICES"));
}

nvmlReturn_t enter(const char* name) {
  Library& the_library = library();
  if (!the_library.is_up()) return kUninitialized;
  if (the_library.header().epoch.load(std::memory_order_relaxed) != the_library.epoch()) {
    return kVersionMismatch;
  }
  if (the_library.header().special.load(std::memory_order_relaxed) != 0) return injected(name);
  return kSuccess;
}

nvmlReturn_t enter_device(const char* name, const Device* handle) {
  if (const nvmlReturn_t code = enter(name); code != kSuccess) return code;
  if (!library().is_handle(handle)) return kInvalidArgument;
  const DeviceEntry& entry = entry_of(handle);
  const DeviceEntry& gpu = entry.parent >= 0 ? library().state().devices[entry.parent] : entry;
  return gpu.lost.load(std::memory_order_relaxed) != 0 ? kGpuIsLost : kSuccess;
}

nvmlReturn_t give_text(const char* text, char* out, unsigned int length) {
  if (out == nullptr) return kInvalidArgument;
  const std::size_t size = std::strlen(text) + 1;
  if (size > length) return kInsufficientSize;
  std::memcpy(out, text, size);
  return kSuccess;
}

int refuse(int name) {
  if (Books* books = library().books_if_any(); books != nullptr) {
    books->state().nvml_refused[name].fetch_add(1);
  }
  if (const nvmlReturn_t code = enter(kNames[name]); code != kSuccess) return code;
  return kNotSupported;
}

}  // namespace berth::fake::nvml
