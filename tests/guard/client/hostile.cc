// forbidden WHAT MIB: as `hold MIB`, in a process that may not use a system call, or one command of
// it (kForbidden): what a strict container leaves a program with.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs.h"

namespace berth::guard_test {

namespace {

constexpr std::uint32_t kAny = 0xffffffffU;

struct Forbidden {
  const char* name;
  std::uint32_t call;
  std::uint32_t second_or_third = kAny;  // forbidden with this argument only
  unsigned argument = 1;
};

constexpr Forbidden kForbidden[] = {
    {"locks", SYS_fcntl, 37 /* F_OFD_SETLK */},
    {"wipe-on-fork", SYS_madvise, 18 /* MADV_WIPEONFORK */, 2},
    {"dont-fork", SYS_madvise, 10 /* MADV_DONTFORK */, 2},
    {"other-memory", SYS_process_vm_readv},
    {"stat", SYS_fstat},
    {"sleep", SYS_clock_nanosleep},
};

// That call fails with EPERM from now on, in this process and its children.
bool forbid(const Forbidden& what) {
  const auto load = [](std::size_t at) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(at)};
  };
  const auto skip_unless = [](std::uint32_t value, std::uint8_t skip) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, skip, value};
  };
  const bool any = what.second_or_third == kAny;
  sock_filter filter[] = {
      load(offsetof(seccomp_data, nr)),
      skip_unless(what.call, 3),
      load(offsetof(seccomp_data, args) + what.argument * sizeof(std::uint64_t)),
      any ? sock_filter{BPF_JMP | BPF_JA, 0, 0, 0} : skip_unless(what.second_or_third, 1),
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace

// Forbidden from the start: the program begins anew under the filter.
int run_forbidden(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const Forbidden& what : kForbidden) {
    if (std::strcmp(what.name, argv[0]) != 0) continue;
    if (!forbid(what)) {
      std::printf("no filter\n");
      return 1;
    }
    execl("/proc/self/exe", "guard_client", "hold", argv[1], nullptr);
    return 1;
  }
  return 2;
}

}  // namespace berth::guard_test
