#include "guard/preload/grant.h"

#include <cstdlib>
#include <sys/mman.h>

#include "guard/preload/depth.h"
#include "guard/preload/real.h"

namespace berth::guard {

// All constant-initialised: a library whose constructor runs before ours may have opened the grant.
constinit std::atomic<Mode> g_mode{Mode::unknown};
constinit Grant g_grant{};

namespace {

enum class Place : std::uint8_t { unknown, fixed, elsewhere };
std::atomic<Place> g_place{Place::unknown};

// Not among the constants (see GUARD_AT_START), and yet read-only once the program runs.
[[gnu::section(".data.rel.ro")]] char g_fixed_directory[sizeof(kGrantDirectory)] =
    "/run/berth/grant";
std::atomic<const char*> g_reason{""};
std::atomic<std::int32_t> g_targets[64];  // by ordinal: 0 unknown, else target + 2

// One thread fills the grant; it opens two files and calls nobody, and others that come at that
// moment wait for it, at most 50 ms in all.
std::atomic<bool> g_opening;

struct Opened {
  Mode mode = Mode::inert;
  const char* reason = "";
};

using Path = Text<320>;

void copy_text(char (&to)[256], const char* from) {
  std::size_t i = 0;
  for (; from[i] != '\0' && i + 1 < sizeof(to); ++i)
    to[i] = from[i];
  to[i] = '\0';
}

// The directory of the grant; false: there is none.
bool find_directory(bool& fixed) {
  if (g_place.load(std::memory_order_acquire) == Place::unknown) look_for_grant();
  fixed = g_place.load(std::memory_order_acquire) == Place::fixed;
  if (fixed) {
    copy_text(g_grant.directory, kGrantDirectory);
    return true;
  }
  const char* named = secure_getenv("BERTH_GRANT_DIR");
  if (named == nullptr || named[0] == '\0') return false;
  Path path;
  if (named[0] != '/') {
    char here[256] = {};
    if (sys::call(SYS_getcwd, sys::word_of(here), sizeof(here)) > 0) path.add(here).add("/");
  }
  path.add(named);
  copy_text(g_grant.directory, path.c_str());
  return sys::exists(g_grant.directory);
}

// What is wrong with the grant's policy; nullptr: nothing, and it is mapped.
const char* open_policy(bool fixed) {
  Path path;
  path.add(g_grant.directory).add("/").add(kPolicyFile);
  const int fd = sys::open(path.c_str(), O_RDONLY);
  if (fd == -ENOENT) return "its policy is missing";
  if (fd == -EMFILE || fd == -ENFILE) return "no file descriptor is left to open its policy";
  if (fd < 0) return "its policy cannot be opened";
  struct stat status = {};
  const char* wrong = nullptr;
  if (sys::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    wrong = "its policy is no file that can be read";
  } else if (status.st_size < static_cast<off_t>(sizeof(Policy))) {
    wrong = "its policy is truncated";
  } else if (status.st_uid != 0 && (fixed || status.st_uid != sys::user_id())) {
    wrong = "its policy belongs to a stranger";
  } else {
    void* at = sys::map(nullptr, sizeof(Policy), PROT_READ, MAP_SHARED, fd);
    g_grant.policy = static_cast<const Policy*>(at);
    if (at == nullptr) wrong = "its policy cannot be mapped";
  }
  sys::close(fd);
  if (wrong == nullptr && !is_policy(*g_grant.policy)) {
    wrong = "its policy is damaged or of another layout";
  }
  return wrong;
}

const char* map_account() {
  const int fd = open_account();
  if (fd == -EMFILE || fd == -ENFILE) return "no file descriptor is left to open its account";
  if (fd < 0) return "its account cannot be opened";
  struct stat status = {};
  const char* wrong = "its account is damaged or of another layout";
  if (sys::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size >= static_cast<off_t>(kHeaderBytes) && status.st_size < (off_t{1} << 32)) {
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* at = sys::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    g_grant.view = AccountView::over(at, bytes);
    g_grant.account_inode = status.st_ino;
    g_grant.account_device = status.st_dev;
    if (g_grant.view.valid()) wrong = nullptr;
    if (wrong != nullptr && at != nullptr) sys::unmap(at, bytes);
  }
  sys::close(fd);
  return wrong;
}

bool same_uuid(const std::uint8_t* a, const std::uint8_t* b) {
  for (std::size_t i = 0; i < kUuidBytes; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

void match_devices() {
  for (int target = 0; target < kTargets; ++target) {
    g_grant.account_index[target] = -1;
    if (target >= static_cast<int>(g_grant.policy->n_devices)) continue;
    for (std::uint32_t i = 0; i < g_grant.view.n_devices(); ++i) {
      if (same_uuid(g_grant.view.device(i).uuid, g_grant.policy->device[target].uuid)) {
        g_grant.account_index[target] = static_cast<std::int32_t>(i);
        break;
      }
    }
  }
}

Opened open_all() {
  bool fixed = false;
  const bool ready = local() != nullptr;
  if (is_inert_copy() || !find_directory(fixed)) return {.mode = Mode::inert};
  if (!ready) return {.mode = Mode::closed, .reason = "there is no memory to count in"};
  wipe_on_fork();
  // Until the flag was read, everything counts as closed.
  if (const char* wrong = open_policy(fixed)) return {.mode = Mode::closed, .reason = wrong};
  g_grant.fails_closed = (g_grant.policy->flags.load() & policy_closed) != 0;
  const auto level = static_cast<Level>(g_grant.policy->level);
  g_grant.lists_only = level == Level::hardware || level == Level::driver;
  if (const char* wrong = map_account()) {
    return {.mode = g_grant.fails_closed ? Mode::closed : Mode::passing, .reason = wrong};
  }
  match_devices();
  return {.mode = Mode::active};
}

}  // namespace

GUARD_AT_START void look_for_grant() {
  g_place.store(sys::exists(g_fixed_directory) ? Place::fixed : Place::elsewhere,
                std::memory_order_release);
}

void forget_opening() {
  if (g_mode.load() == Mode::unknown) g_opening.store(false);
}

const char* closed_reason() { return g_reason.load(std::memory_order_acquire); }

Mode open_grant() {
  const ErrorKeeper keeper;
  if (g_opening.exchange(true, std::memory_order_acq_rel)) {
    for (int turn = 0; turn < 500 && g_mode.load() == Mode::unknown; ++turn)
      sys::sleep_until(sys::monotonic_ns() + 100'000);
    const Mode known = g_mode.load(std::memory_order_acquire);
    return known != Mode::unknown ? known : Mode::closed;
  }
  const Opened opened = open_all();
  g_reason.store(opened.reason, std::memory_order_release);
  g_mode.store(opened.mode, std::memory_order_release);
  return opened.mode;
}

bool is_account_descriptor(int fd) {
  struct stat status = {};
  return g_mode.load(std::memory_order_acquire) == Mode::active && sys::fstat(fd, &status) == 0 &&
         status.st_ino == g_grant.account_inode && status.st_dev == g_grant.account_device;
}

int open_account() {
  Path path;
  path.add(g_grant.directory).add("/").add(kAccountFile);
  return sys::open(path.c_str(), O_RDWR);
}

int target_of_uuid(const std::uint8_t* uuid) {
  if (g_grant.lists_only) return kUntouched;
  for (std::uint32_t i = 0; i < g_grant.policy->n_devices; ++i) {
    if (!same_uuid(uuid, g_grant.policy->device[i].uuid)) continue;
    if (g_grant.account_index[i] >= 0) return static_cast<int>(i);
    break;
  }
  return g_grant.fails_closed ? kDenied : kUntouched;
}

int target_of_device(CuDevice device) {
  const bool cached = device >= 0 && device < 64;
  if (cached) {
    const int known = g_targets[device].load(std::memory_order_acquire);
    if (known != 0) return known - 2;
  }
  CuUuid uuid = {};
  int code = driver<Name::cuDeviceGetUuid_v2>(&uuid, device);
  if (code != kCudaSuccess) code = driver<Name::cuDeviceGetUuid>(&uuid, device);
  if (code != kCudaSuccess) return kUntouched;  // no such device; the driver will say so
  const int target = target_of_uuid(uuid.bytes);
  if (cached) g_targets[device].store(target + 2);
  return target;
}

}  // namespace berth::guard
