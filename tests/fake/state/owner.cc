#include "fake/state/owner.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace berth::fake {

namespace {

// Reads a small file of /proc whole; empty on any error. No stdio: clients may be in any state.
struct SmallFile {
  char text[4096] = {};
  std::size_t size = 0;

  explicit SmallFile(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t got = 0;
    while (size < sizeof text - 1 && (got = read(fd, text + size, sizeof text - 1 - size)) > 0) {
      size += static_cast<std::size_t>(got);
    }
    text[size] = '\0';
    (void)close(fd);
  }
};

struct ProcPath {
  char text[64];
  ProcPath(std::uint32_t pid, const char* leaf) {
    (void)std::snprintf(text, sizeof text, "/proc/%u/%s", pid, leaf);
  }
};

// Field 22 of /proc/PID/stat; the command (field 2) may hold blanks and brackets.
std::uint64_t start_time_of(const char* stat_path) {
  const SmallFile stat(stat_path);
  const char* at = std::strrchr(stat.text, ')');
  if (at == nullptr) return 0;
  for (int field = 2; field < 22 && at != nullptr; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  return at == nullptr ? 0 : std::strtoull(at + 1, nullptr, 10);
}

std::uint64_t namespace_of(const char* path) {
  struct stat info{};
  return stat(path, &info) == 0 ? info.st_ino : 0;
}

// Whether the process has the state file mapped. Unreadable counts as yes: a wrong "dead" would
// make memory disappear.
bool maps_file(std::uint32_t pid, const FileIdentity& file) {
  const int fd = open(ProcPath(pid, "maps").text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  FILE* stream = fdopen(fd, "r");
  if (stream == nullptr) {
    (void)close(fd);
    return true;
  }
  char* line = nullptr;
  std::size_t room = 0;
  bool found = false;
  bool any = false;
  while (!found && getline(&line, &room, stream) > 0) {
    any = true;
    unsigned int high = 0;
    unsigned int low = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line, "%*s %*s %*s %x:%x %llu", &high, &low, &inode) == 3) {
      // File systems like overlay and btrfs show another device number here than stat does.
      found = inode == file.inode;
    }
  }
  std::free(line);
  (void)std::fclose(stream);
  (void)any;
  return found;
}

bool same_process(const Owner& owner, std::uint32_t pid_here) {
  return start_time_of(ProcPath(pid_here, "stat").text) == owner.start_time;
}

// The number here of a process of another PID namespace; 0 = not visible from here.
std::uint32_t pid_from_elsewhere(const Owner& owner) {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return 0;
  std::uint32_t found = 0;
  while (const dirent* entry = readdir(proc)) {
    char* end = nullptr;
    const unsigned long pid = std::strtoul(entry->d_name, &end, 10);
    if (pid == 0 || *end != '\0') continue;
    const auto number = static_cast<std::uint32_t>(pid);
    if (namespace_of(ProcPath(number, "ns/pid").text) != owner.pid_namespace) continue;
    const SmallFile status(ProcPath(number, "status").text);
    const char* inner = std::strstr(status.text, "NSpid:");
    if (inner == nullptr) continue;
    std::uint32_t innermost = 0;
    for (inner += 6; *inner == '\t' || *inner == ' ';) {
      innermost = static_cast<std::uint32_t>(std::strtoul(inner, &end, 10));
      inner = end;
    }
    if (innermost == owner.pid && same_process(owner, number)) {
      found = number;
      break;
    }
  }
  (void)closedir(proc);
  return found;
}

struct flock slot_lock(int slot, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kSlotLocks + slot;
  lock.l_len = 1;
  return lock;
}

bool is_self(const Owner& owner, const Identity& own) {
  return owner.pid == own.pid && owner.pid_namespace == own.pid_namespace &&
         owner.start_time == own.start_time;
}

// The pid that holds the slot's lock: -1 = nobody; 0 = somebody outside this PID namespace.
int lock_holder(int fd, int slot) {
  struct flock lock = slot_lock(slot, F_WRLCK);
  if (fcntl(fd, F_GETLK, &lock) != 0) return 0;
  return lock.l_type == F_UNLCK ? -1 : lock.l_pid;
}

}  // namespace

Identity own_identity() {
  return {.pid = static_cast<std::uint32_t>(getpid()),
          .pid_namespace = namespace_of("/proc/self/ns/pid"),
          .start_time = start_time_of("/proc/self/stat")};
}

bool owner_lives(const Owner& owner, int slot, int fd, const FileIdentity& file,
                 const Identity& own) {
  if (owner.ready.load(std::memory_order_acquire) == 0) return false;
  if (is_self(owner, own)) return true;
  if (lock_holder(fd, slot) >= 0) return true;
  const std::uint32_t pid =
      owner.pid_namespace == own.pid_namespace ? owner.pid : pid_from_elsewhere(owner);
  return pid != 0 && same_process(owner, pid) && maps_file(pid, file);
}

std::uint32_t visible_pid(const Owner& owner, int slot, int fd, const Identity& own) {
  if (owner.pid_namespace == own.pid_namespace) return owner.pid;
  const int holder = lock_holder(fd, slot);
  if (holder > 0) return static_cast<std::uint32_t>(holder);
  const std::uint32_t pid = pid_from_elsewhere(owner);
  return pid != 0 ? pid : owner.pid;
}

bool try_lock_slot(int fd, int slot) {
  struct flock lock = slot_lock(slot, F_WRLCK);
  return fcntl(fd, F_SETLK, &lock) == 0;
}

void unlock_slot(int fd, int slot) {
  struct flock lock = slot_lock(slot, F_UNLCK);
  (void)fcntl(fd, F_SETLK, &lock);
}

void read_own_command(char (&command)[64]) {
  std::memset(command, 0, sizeof command);
  char path[512] = {};
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  const char* name = size > 0 ? path : "unknown";
  (void)std::snprintf(command, sizeof command, "%.63s", name);
}

void read_own_cgroup(char (&cgroup)[256]) {
  std::memset(cgroup, 0, sizeof cgroup);
  // Stands in for a group of the kernel's where none can be made.
  if (const char* given = std::getenv("BERTH_FAKE_CGROUP"); given != nullptr && *given == '/') {
    (void)std::snprintf(cgroup, sizeof cgroup, "%s", given);
    return;
  }
  const SmallFile file("/proc/self/cgroup");
  const char* line = std::strncmp(file.text, "0::", 3) == 0 ? file.text : nullptr;
  if (line == nullptr) {
    const char* found = std::strstr(file.text, "\n0::");
    line = found == nullptr ? nullptr : found + 1;
  }
  if (line == nullptr) return;
  line += 3;
  const std::size_t length = std::strcspn(line, "\n");
  (void)std::snprintf(cgroup, sizeof cgroup, "%.*s", static_cast<int>(length < 255 ? length : 255),
                      line);
}

}  // namespace berth::fake
