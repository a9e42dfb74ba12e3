#include "guard/preload/local.h"

#include "guard/preload/grant.h"

// What libc's static part makes of pthread_atfork (glibc 2.3.2), called without that part, which
// would lie far from what the constructor runs. The last word names the object it is for.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the name is libc's
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* object);
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

// By the first of these symbols copies of the library know each other: it is the one of the first
// copy in the linker's order, whose functions are called. The second is always our own. Both are
// defined in resolver.cc, so that the compiler cannot take one for the other.
// NOLINTBEGIN(readability-identifier-naming): a symbol of the library
extern "C" {
__attribute__((visibility("default"))) extern const char berth_guard_copy[12];
__attribute__((visibility("hidden"))) extern const char berth_guard_own_copy[12];
}
// NOLINTEND(readability-identifier-naming)

namespace berth::guard {

std::atomic<Local*> g_local;
std::atomic<int> g_lock_fd{-1};

namespace {

// The bytes "BERTHGRD", as a number.
constexpr std::uint64_t kMagic = [] {
  std::uint64_t number = 0;
  for (const char* text = "DRGHTREB"; *text != '\0'; ++text)
    number = number << 8U | static_cast<std::uint8_t>(*text);
  return number;
}();

// Where the region lies if the address is free: so a second copy of the library in this process,
// also one in another linker namespace, meets the first. Far from what programs, sanitizers and the
// driver use, and within the smallest address space of aarch64.
constexpr std::uintptr_t kMeetingPlace = 0x3be5740000;

constexpr int kWipeOnFork = 18;

std::atomic<bool> g_inert_copy;
std::atomic<bool> g_fork_handler;

bool is_guard_at(std::uintptr_t address) {
  struct Part {
    const void* base;
    std::size_t bytes;
  };
  std::uint64_t found = 0;
  const Part to{.base = &found, .bytes = sizeof(found)};
  const Part from{.base = reinterpret_cast<const void*>(address), .bytes = sizeof(found)};
  // Reads memory that may not be there without a fault.
  const sys::Word got = sys::call(SYS_process_vm_readv, sys::process_id(), sys::word_of(&to), 1,
                                  sys::word_of(&from), 1, 0);
  return got == static_cast<sys::Word>(sizeof(found)) && found == kMagic;
}

// True if another copy comes before this one in the linker's order, whatever constructor ran first.
GUARD_AT_START bool is_second_in_scope() {
  const void* first = berth_guard_copy;
  const void* own = berth_guard_own_copy;
  // Two names may not be one object for the compiler; for the linker they may.
  asm("" : "+r"(first), "+r"(own));
  return first != own;
}

// In the child: forget the parent's slot. Closing our copy of the lock's descriptor lets the kernel
// drop the lock when the parent dies.
void after_fork_in_child() {
  close_lock_descriptor();
  forget_opening();
  Local* region = g_local.load(std::memory_order_acquire);
  if (region == nullptr) return;
  // Wiped by the kernel where it can. Without a grant nothing is there that a child may not find.
  if (region->magic != 0 && g_mode.load(std::memory_order_acquire) == Mode::active) {
    auto* bytes = reinterpret_cast<unsigned char*>(region);
    for (std::size_t i = 0; i < sizeof(Local); ++i)
      bytes[i] = 0;
  }
}

}  // namespace

// The number may meanwhile belong to the program.
void close_lock_descriptor() {
  const int fd = g_lock_fd.exchange(-1, std::memory_order_acq_rel);
  if (fd >= 0 && is_account_descriptor(fd)) sys::close(fd);
}

void wipe_on_fork() {
  if (Local* region = local()) sys::advise(region, sizeof(Local), kWipeOnFork);
}

bool is_inert_copy() { return g_inert_copy.load(std::memory_order_acquire); }

GUARD_AT_START Local* make_local() {
  if (g_inert_copy.load(std::memory_order_acquire)) return nullptr;
  if (is_second_in_scope()) {
    g_inert_copy.store(true, std::memory_order_release);
    return nullptr;
  }
  void* wanted = reinterpret_cast<void*>(kMeetingPlace);
  void* at =
      sys::map(wanted, sizeof(Local), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (at == nullptr) return nullptr;
  if (at != wanted && is_guard_at(kMeetingPlace)) {
    sys::unmap(at, sizeof(Local));
    // A thread of this very copy may have been first.
    Local* known = g_local.load(std::memory_order_acquire);
    if (known == nullptr) g_inert_copy.store(true, std::memory_order_release);
    return known;
  }
  auto* region = static_cast<Local*>(at);
  region->magic = kMagic;
  Local* none = nullptr;
  if (!g_local.compare_exchange_strong(none, region, std::memory_order_acq_rel)) {
    sys::unmap(at, sizeof(Local));
    return none;
  }
  if (!g_fork_handler.exchange(true)) {
    __register_atfork(nullptr, nullptr, after_fork_in_child, &g_fork_handler);
  }
  return region;
}

}  // namespace berth::guard
