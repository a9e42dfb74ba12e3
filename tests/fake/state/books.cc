#include "fake/state/books.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace berth::fake {

namespace {

// How long a charge under the lock waits for somebody else's to be kept or withdrawn.
constexpr int kAttemptPatienceMs = 20;

std::int64_t now_ms() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

void take_books_lock(int fd, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kBooksLock;
  lock.l_len = 1;
  while (fcntl(fd, F_SETLKW, &lock) != 0 && errno == EINTR) {
  }
}

// A limit on a control group binds the group and everything below it.
bool is_inside(const char* cgroup, const char* limited) {
  const std::size_t length = std::strlen(limited);
  return std::strncmp(cgroup, limited, length) == 0 &&
         (cgroup[length] == '\0' || cgroup[length] == '/');
}

}  // namespace

Books::Books(State* state, int fd, std::string path)
    : state_(state), fd_(fd), path_(std::move(path)), own_(own_identity()) {
  struct stat info{};
  (void)fstat(fd, &info);
  file_ = {.device = info.st_dev, .inode = info.st_ino};
}

Books* Books::open_from_environment(const char** why) {
  const char* path = std::getenv("BERTH_FAKE_STATE");
  if (path == nullptr || *path == '\0') {
    *why = "BERTH_FAKE_STATE names no state file";
    return nullptr;
  }
  return open_path(path, why);
}

Books* Books::open_path(const char* path, const char** why) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    *why = errno == ENOENT ? "the state file does not exist (berth-fake-gpu init SPEC makes it)"
                           : "the state file cannot be opened for reading and writing";
    return nullptr;
  }
  struct stat info{};
  if (fstat(fd, &info) != 0 || static_cast<std::size_t>(info.st_size) != sizeof(State)) {
    *why = "the state file has the wrong size: make it anew with berth-fake-gpu init";
    (void)close(fd);
    return nullptr;
  }
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    *why = "the state file cannot be mapped";
    (void)close(fd);
    return nullptr;
  }
  auto* state = static_cast<State*>(memory);
  const Header& header = state->header;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.layout != kLayout ||
      header.device_count > kMaxDevices || header.bytes != sizeof(State)) {
    *why = "not a state file of this build: make it anew with berth-fake-gpu init";
    (void)munmap(memory, sizeof(State));
    (void)close(fd);
    return nullptr;
  }
  char* whole = realpath(path, nullptr);
  std::string stable = whole != nullptr ? whole : path;
  std::free(whole);
  return new (std::nothrow) Books(state, fd, std::move(stable));
}

int Books::fd() {
  struct stat info{};
  if (fd_ >= 0 && fstat(fd_, &info) == 0 && info.st_dev == file_.device &&
      info.st_ino == file_.inode) {
    return fd_;
  }
  fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ >= 0 && slot_ >= 0) (void)try_lock_slot(fd_, slot_);
  return fd_;
}

Books::Lock::Lock(Books& books) : books_(books) { take_books_lock(books_.fd(), F_WRLCK); }
Books::Lock::~Lock() { take_books_lock(books_.fd(), F_UNLCK); }

void Books::clear_slot(int slot) {
  state_->owners[slot].ready.store(0, std::memory_order_release);
  for (int device = 0; device < device_count(); ++device) {
    Figures& figures = state_->figures[device][slot];
    if (figures.total.load(std::memory_order_relaxed) == 0 &&
        figures.busy_ns.load(std::memory_order_relaxed) == 0 &&
        figures.family[0].load(std::memory_order_relaxed) == 0) {
      continue;  // keeps untouched pages of the sparse file untouched
    }
    figures.total.store(0, std::memory_order_release);
    for (Word& family : figures.family)
      family.store(0, std::memory_order_relaxed);
    figures.busy_ns.store(0, std::memory_order_relaxed);
    figures.last_busy.store(0, std::memory_order_relaxed);
    figures.attempt.store(0, std::memory_order_release);
  }
}

bool Books::claim() {
  if (slot_ >= 0) return true;
  own_ = own_identity();
  const int file = fd();
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    Owner& owner = state_->owners[slot];
    if (slot < slots_high() && lives(slot)) continue;
    if (!try_lock_slot(file, slot)) continue;
    if (lives(slot)) {  // claimed and its descriptors closed since we looked
      unlock_slot(file, slot);
      continue;
    }
    clear_slot(slot);
    std::uint32_t high = state_->header.slots_high.load(std::memory_order_relaxed);
    while (high < static_cast<std::uint32_t>(slot) + 1 &&
           !state_->header.slots_high.compare_exchange_weak(high,
                                                            static_cast<std::uint32_t>(slot) + 1)) {
    }
    owner.pid = own_.pid;
    owner.pid_namespace = own_.pid_namespace;
    owner.start_time = own_.start_time;
    owner.generation = state_->header.claims.fetch_add(1) + 1;
    owner.driver_epoch = state_->header.epoch.load();
    owner.contexts.store(0);
    owner.contexts_high.store(0);
    read_own_command(owner.command);
    read_own_cgroup(owner.cgroup);
    owner.ready.store(1, std::memory_order_release);
    slot_ = slot;
    return true;
  }
  return false;
}

void Books::forget_slot() {
  slot_ = -1;
  own_ = own_identity();
}

bool Books::lives(int slot) {
  const Owner& owner = state_->owners[slot];
  if (owner.ready.load(std::memory_order_acquire) == 0) return false;
  // A client of the driver before a reload may still run, but its memory is gone.
  if (owner.driver_epoch != state_->header.epoch.load(std::memory_order_relaxed)) return false;
  return slot == slot_ || owner_lives(owner, slot, fd(), file_, own_);
}

std::uint32_t Books::pid_of(int slot) {
  return visible_pid(state_->owners[slot], slot, fd(), own_);
}

// Memory whose exporter is gone or has let go lives on with the first importer that lives.
std::uint64_t Books::adopted(int slot, int device) {
  std::uint64_t sum = 0;
  for (Share& share : state_->shares) {
    if (share.used.load(std::memory_order_acquire) != 2 ||
        share.device != static_cast<std::uint32_t>(device)) {
      continue;
    }
    const auto exporter = static_cast<int>(share.exporter_slot);
    const bool exporter_holds = share.released.load() == 0 && lives(exporter) &&
                                state_->owners[exporter].generation == share.exporter_generation;
    if (exporter_holds) continue;
    for (Word& importer : share.importer) {
      const std::uint64_t word = importer.load(std::memory_order_acquire);
      if (word == 0) continue;
      const int who = static_cast<int>(word & 0xFFFFU) - 1;
      if (!lives(who) || state_->owners[who].generation != word >> 16U) continue;
      if (who == slot) sum += share.bytes;
      break;
    }
  }
  return sum;
}

std::uint64_t Books::held(int slot, int device) {
  const std::uint64_t figure = state_->figures[device][slot].total.load(std::memory_order_acquire);
  const bool shares =
      (state_->header.charge_special.load(std::memory_order_acquire) & kChargeShares) != 0;
  if ((figure == 0 && !shares) || !lives(slot)) return 0;
  return figure + (shares ? adopted(slot, device) : 0);
}

std::uint64_t Books::used(int device) {
  std::uint64_t sum = state_->devices[device].foreign_bytes.load(std::memory_order_acquire);
  const int high = slots_high();
  for (int slot = 0; slot < high; ++slot)
    sum += held(slot, device);
  if (state_->devices[device].parent >= 0) return sum;
  for (int other = 0; other < device_count(); ++other) {
    const DeviceEntry& entry = state_->devices[other];
    if (entry.used != 0 && entry.parent == device) sum += used(other);
  }
  return sum;
}

void Books::bury_dead() {
  const int file = fd();
  const int high = slots_high();
  for (int slot = 0; slot < high; ++slot) {
    if (state_->owners[slot].ready.load(std::memory_order_acquire) == 0 || lives(slot)) continue;
    if (!try_lock_slot(file, slot)) continue;
    if (!lives(slot)) clear_slot(slot);
    unlock_slot(file, slot);
  }
}

bool Books::limits_allow(int device) {
  if ((state_->header.charge_special.load(std::memory_order_relaxed) & kChargeLimits) == 0) {
    return true;
  }
  for (MemoryLimit& limit : state_->limits) {
    if (limit.used.load(std::memory_order_acquire) == 0 ||
        limit.device != static_cast<std::uint32_t>(device) || limit.hard.load() == UINT64_MAX ||
        !is_inside(own_owner().cgroup, limit.cgroup)) {
      continue;
    }
    if (group_use(device, limit.cgroup) > limit.hard.load() + limit.uncharged.load()) return false;
  }
  return true;
}

Books::View Books::view(int device, const char* cgroup) {
  View view{.total = room(device)};
  const std::uint64_t use = used(device);
  view.free = use < view.total ? view.total - use : 0;
  if ((state_->header.charge_special.load(std::memory_order_relaxed) & kChargeLimits) == 0) {
    return view;
  }
  for (MemoryLimit& limit : state_->limits) {
    if (limit.used.load(std::memory_order_acquire) != 2 ||
        limit.device != static_cast<std::uint32_t>(device) ||
        std::strcmp(limit.cgroup, cgroup) != 0) {
      continue;
    }
    const std::uint64_t hard = limit.hard.load();
    const std::uint64_t charged = group_use(device, cgroup);
    const std::uint64_t uncharged = limit.uncharged.load();
    const std::uint64_t held = charged > uncharged ? charged - uncharged : 0;
    view.total = std::min(view.total, hard);
    view.free = std::min(view.free, hard > held ? hard - held : 0);
  }
  return view;
}

std::uint64_t Books::group_use(int device, const char* cgroup) {
  std::uint64_t sum = 0;
  const int high = slots_high();
  for (int slot = 0; slot < high; ++slot) {
    if (is_inside(state_->owners[slot].cgroup, cgroup)) sum += held(slot, device);
  }
  return sum;
}

bool Books::fits_now(int device) {
  std::uint64_t sum = quick_sum(device);
  if ((state_->header.charge_special.load(std::memory_order_relaxed) & kChargeShares) != 0) {
    sum = used(device);
  }
  return sum <= room(device) && limits_allow(device);
}

bool Books::others_attempt(int device) {
  const int high = slots_high();
  for (int slot = 0; slot < high; ++slot) {
    if (slot != slot_ && state_->figures[device][slot].attempt.load(std::memory_order_acquire) != 0)
      return true;
  }
  return false;
}

bool Books::charge_slowly(int device, std::uint64_t bytes) {
  const Lock lock(*this);
  bury_dead();
  Figures& own = own_figures(device);
  const std::uint64_t before = own.total.load(std::memory_order_relaxed);
  const std::int64_t give_up = now_ms() + kAttemptPatienceMs;
  while (true) {
    own.total.store(before + bytes, std::memory_order_seq_cst);
    if (fits_now(device)) return true;
    const bool may_change = others_attempt(device);
    own.total.store(before, std::memory_order_seq_cst);
    if (!may_change || now_ms() > give_up) return false;
    (void)sched_yield();
  }
}

}  // namespace berth::fake
