// lifetime WHAT: lives that go another way than main to exit. Each prints "held N" with what the
// account says all processes hold, in MiB, or what went wrong.
//   fork       the parent holds 100, its child 50 of its own; then the parent dies first
//   exec       holds 100, then becomes another program that takes 50
//   descriptors  holds 100, closes every descriptor, takes 50 more, and is refused past the limit
//   namespaces LIBRARY   loads the guard a second time, into a linker namespace of its own
//   raw-fork   as fork, but the child is made by the system call, past libc
//   ipc        holds 100 and hands them to another program, which takes 50 of its own; prints both
//   threads    8 threads allocate and free; then nothing is held but the context
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "grant/directory.h"
#include "verbs.h"

namespace berth::guard_test {

namespace {

constexpr std::size_t kMib = 1U << 20U;

long charged_mib() {
  const char* directory = std::getenv("BERTH_GRANT_DIR");
  const auto grant = grant::GrantDirectory::open(directory != nullptr ? directory : "");
  if (!grant.ok()) return -1;
  const grant::GrantReading reading = grant->read();
  return static_cast<long>(reading.devices.at(0).charged.floor_mib());
}

int take(Cuda& cu, std::size_t mib) {
  Ptr pointer = 0;
  return cu.cuMemAlloc_v2(&pointer, mib * kMib);
}

// The child's own driver works on the fake only where the state says so (fork-works).
int live_fork(Cuda& cu, bool raw) {
  if (cu.start() != 0 || take(cu, 100) != 0) return 1;
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const auto parent =
      raw ? syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) : fork();
  if (parent == 0) {
    // Now the child. It waits until its parent is gone, then takes memory of its own.
    close(ends[1]);
    char byte = 0;
    while (read(ends[0], &byte, 1) > 0) {
    }
    const int started = cu.start();
    const int code = started != 0 ? started : take(cu, 50);
    auto grant = grant::GrantDirectory::open(std::getenv("BERTH_GRANT_DIR"));
    const int reclaimed = grant.ok() ? grant->reclaim() : -1;
    std::printf("child %d, reclaimed %d, held %ld\n", code, reclaimed, charged_mib());
    std::fflush(stdout);
    _exit(0);
  }
  _exit(0);  // the pipe's end goes with us
}

int live_descriptors(Cuda& cu) {
  if (cu.start() != 0 || take(cu, 100) != 0) return 1;
  const int out = dup2(STDOUT_FILENO, 900);
  for (int fd = 3; fd < 1024; ++fd) {
    if (fd != out) close(fd);
  }
  const int more = take(cu, 50);
  const int past = take(cu, 5000);
  // Nobody may take from it what it holds because its lock is gone.
  auto grant = grant::GrantDirectory::open(std::getenv("BERTH_GRANT_DIR"));
  const int reclaimed = grant.ok() ? grant->reclaim() : -1;
  std::printf("more %d, past %d, reclaimed %d, held %ld\n", more, past, reclaimed, charged_mib());
  return 0;
}

int live_namespaces(Cuda& cu, const char* library) {
  if (dlmopen(LM_ID_NEWLM, library, RTLD_NOW) == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const int started = cu.start();
  const int code = take(cu, 100);
  const int past = take(cu, 5000);
  std::printf("start %d, take %d, past %d, held %ld\n", started, code, past, charged_mib());
  return 0;
}

struct IpcHandle {
  char bytes[64];
};

// Standard input is the handle; what the account says of each process is printed.
int open_ipc(Cuda& cu) {
  IpcHandle handle = {};
  Ptr imported = 0;
  if (read(STDIN_FILENO, &handle, sizeof(handle)) != sizeof(handle) || cu.start() != 0) return 1;
  const int opened = call_driver("cuIpcOpenMemHandle_v2", &imported, handle, 1U);
  const int code = take(cu, 50);
  const auto print = [&](const char* when) {
    std::printf("%s: opened %d, take %d", when, opened, code);
    const auto grant = grant::GrantDirectory::open(std::getenv("BERTH_GRANT_DIR"));
    const grant::GrantReading reading = grant->read();
    for (const bool own : {false, true}) {
      for (const grant::SlotReading& slot : reading.devices.at(0).slots) {
        if ((slot.pid == static_cast<std::uint32_t>(getpid())) != own) continue;
        std::printf(", %s %ld", own ? "importer" : "exporter",
                    static_cast<long>(slot.held.floor_mib()));
      }
    }
    std::printf("\n");
  };
  print("open");
  call_driver("cuIpcCloseMemHandle", imported);
  print("closed");
  return 0;
}

int live_ipc(Cuda& cu) {
  Ptr pointer = 0;
  IpcHandle handle = {};
  int ends[2];
  if (cu.start() != 0 || cu.cuMemAlloc_v2(&pointer, 100 * kMib) != 0 ||
      call_driver("cuIpcGetMemHandle", &handle, pointer) != 0 || pipe(ends) != 0 ||
      write(ends[1], &handle, sizeof(handle)) != sizeof(handle)) {
    return 1;
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], STDIN_FILENO);
    execl("/proc/self/exe", "guard_client", "lifetime", "ipc-open", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

int live_threads(Cuda& cu) {
  if (cu.start() != 0) return 1;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&cu, i] {
      cu.cuCtxSetCurrent(cu.context);
      for (unsigned k = 0; k < 20'000; ++k) {
        Ptr pointer = 0;
        if (cu.cuMemAlloc_v2(&pointer, (i + k) % 9 * 4096 + 1) == 0) cu.cuMemFree_v2(pointer);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  std::printf("held %ld\n", charged_mib());
  return 0;
}

}  // namespace

int run_lifetime(int argc, char** argv) {
  if (argc < 1) return 2;
  const std::string what = argv[0];
  Cuda cu;
  if (!cu.load()) return 1;
  if (what == "fork" || what == "raw-fork") return live_fork(cu, what == "raw-fork");
  if (what == "ipc") return live_ipc(cu);
  if (what == "ipc-open") return open_ipc(cu);
  if (what == "descriptors") return live_descriptors(cu);
  if (what == "threads") return live_threads(cu);
  if (what == "namespaces" && argc == 2) return live_namespaces(cu, argv[1]);
  if (what == "exec") {
    if (cu.start() != 0 || take(cu, 100) != 0) return 1;
    execl("/proc/self/exe", "guard_client", "lifetime", "after", nullptr);
    return 1;
  }
  if (what == "after") {
    const int started = cu.start();
    const int code = take(cu, 50);
    std::printf("start %d, take %d, held %ld\n", started, code, charged_mib());
    return 0;
  }
  return 2;
}

}  // namespace berth::guard_test
