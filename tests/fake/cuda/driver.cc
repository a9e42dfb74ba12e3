#include "fake/cuda/driver.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <string_view>
#include <unistd.h>

#include "fake/cuda/context.h"
#include "fake/cuda/names.h"
#include "fake/cuda/refuse.h"
#include "fake/state/faults.h"
#include "fake/state/visible.h"

namespace berth::fake::cuda {

namespace {

void after_fork_in_child() { driver().after_fork(); }
void before_fork() { driver().lock.lock(); }
void after_fork_in_parent() { driver().lock.unlock(); }

// Says once why there is no device; a stranger who forgot the state file would search for long.
void complain(const char* why) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  char line[256];
  const int size = std::snprintf(line, sizeof line, "berth fake driver: no device: %s\n", why);
  const int kept_errno = errno;
  (void)!write(STDERR_FILENO, line, static_cast<std::size_t>(size));
  errno = kept_errno;
}

}  // namespace

Driver& driver() {
  // Never destroyed: programs call the driver from destructors of their own.
  static Driver& the_driver = *new Driver;
  return the_driver;
}

Books* Driver::books_if_any() {
  if (books_ == nullptr) {
    const char* why = nullptr;
    books_ = Books::open_from_environment(&why);
    if (books_ == nullptr) complain(why);
  }
  return books_;
}

CUresult Driver::start() {
  const Guard guard(lock);
  if (up_.load(std::memory_order_relaxed)) return kSuccess;
  if (forked_.load(std::memory_order_relaxed)) return kNotInitialized;
  if (books_if_any() == nullptr) return kNoDevice;
  choose_visible();
  if (visible_.empty()) return kNoDevice;
  if (!space.reserve() || !books_->claim()) return kOutOfMemory;
  static std::once_flag once;
  std::call_once(
      once, [] { (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
  up_.store(true, std::memory_order_release);
  return kSuccess;
}

// The parent goes on with its slot; the child has contexts and memory that are not its own. A real
// driver answers "not initialised" from then on, so that is what happens here, unless the state
// says that a child may begin anew.
void Driver::after_fork() {
  lock.unlock();
  const bool may_begin_anew = (header().flags.load(std::memory_order_relaxed) & kForkWorks) != 0;
  up_.store(false, std::memory_order_release);
  books_->forget_slot();
  if (!may_begin_anew) {
    forked_.store(true, std::memory_order_relaxed);
    return;
  }
  for (Context*& context : primary)
    context = nullptr;
  contexts.clear();
  forget_thread();
}

void Driver::choose_visible() {
  visible_.clear();
  int chosen[kMaxDevices];
  const int count = visible_devices(books_->state(), std::getenv("CUDA_VISIBLE_DEVICES"),
                                    std::getenv("BERTH_FAKE_DEVICES"), chosen);
  visible_.assign(chosen, chosen + count);
}

CUdevice Driver::device_of(int entry) const {
  for (int device = 0; device < count(); ++device) {
    if (entry_of(device) == entry) return device;
  }
  return -1;
}

int number_of(const char* name) {
  for (int number = 0; number < kNameCount; ++number) {
    if (std::strcmp(kNames[number], name) == 0) return number;
  }
  return -1;
}

int refuse(int name) {
  Books* books = driver().books_if_any();
  if (books != nullptr) books->state().cuda_refused[name].fetch_add(1);
  if (driver().is_up() && driver().header().special.load(std::memory_order_relaxed) != 0) {
    bool poison = false;
    const CUresult code = enter_slowly(kNames[name], &poison);
    if (code != kSuccess) return code;
  }
  return kNotSupported;
}

CUresult enter_slowly(const char* name, bool* poison) {
  Header& header = driver().header();
  State& state = driver().books().state();
  const std::uint32_t special = header.special.load(std::memory_order_relaxed);
  if ((special & kSpecialCount) != 0) {
    const int number = number_of(name);
    if (number >= 0) state.cuda_calls[number].fetch_add(1, std::memory_order_relaxed);
  }
  if ((special & kSpecialCost) != 0) spin(header.call_cost_ns.load());
  if ((special & kSpecialFaults) != 0) {
    const FaultOutcome outcome = apply_faults(state, name);
    *poison = outcome.poison;
    if (outcome.hit) return outcome.code;
  }
  if ((special & kSpecialReload) != 0 &&
      driver().books().own_owner().driver_epoch != header.epoch.load()) {
    return kSystemDriverMismatch;
  }
  return kSuccess;
}

}  // namespace berth::fake::cuda
