// past WHAT [MIB]: ways round the limit that a program may take without meaning to, or on purpose.
// Each asks, in pieces, for about twice MIB (500); prints "code C, device D: N MiB" for every
// device, with the last code that was not success (0: nothing was refused) and what the process
// then really holds. See kWays.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"
#include "verbs.h"

namespace berth::guard_test {

namespace {

constexpr std::size_t kMib = 1U << 20U;
constexpr int kPieces = 10;

struct Attempt {
  Cuda cu;
  std::size_t piece = 0;  // bytes; kPieces of them pass the limit twice
  Handle stream = nullptr;

  // The last code of several tries that was not success.
  template <typename Try>
  int repeat(Try&& once) const {
    int last = 0;
    for (int i = 0; i < kPieces; ++i) {
      if (const int code = once(); code != 0) last = code;
    }
    return last;
  }
};

Prop shareable() {
  Prop prop;
  prop.handles = 1;
  return prop;
}

// Exports its own memory, imports it again and lets the first handle go: the import keeps it.
int by_import(Attempt& a) {
  const Prop prop = shareable();
  return a.repeat([&] {
    Ptr handle = 0;
    Ptr again = 0;
    int fd = -1;
    int code = a.cu.cuMemCreate(&handle, a.piece, &prop, 0);
    if (code != 0) return code;
    code = call_driver("cuMemExportToShareableHandle", static_cast<void*>(&fd), handle, 1, 0ULL);
    if (code == 0) {
      code = call_driver("cuMemImportFromShareableHandle", &again,
                         reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), 1);
    }
    a.cu.cuMemRelease(handle);
    return code;
  });
}

// Binds memory to a multicast object and lets the handle go: the object keeps it.
int by_multicast(Attempt& a) {
  struct Properties {
    unsigned devices = 1;
    std::size_t bytes = 0;
    unsigned long long handles = 1, flags = 0;
  } properties;
  properties.bytes = a.piece * kPieces;
  Ptr group = 0;
  if (call_driver("cuMulticastCreate", &group, static_cast<const Properties*>(&properties)) != 0 ||
      call_driver("cuMulticastAddDevice", group, 0) != 0) {
    return 1;
  }
  const Prop prop;
  std::size_t offset = 0;
  return a.repeat([&] {
    Ptr handle = 0;
    int code = a.cu.cuMemCreate(&handle, a.piece, &prop, 0);
    if (code != 0) return code;
    code = call_driver("cuMulticastBindMem", group, offset, handle, std::size_t{0}, a.piece, 0ULL);
    offset += a.piece;
    a.cu.cuMemRelease(handle);
    return code;
  });
}

// Takes memory of another device's default pool while a context of the first is current.
int by_other_pool(Attempt& a) {
  Handle pool = nullptr;
  if (a.cu.cuDeviceGetDefaultMemPool(&pool, 1) != 0) return 1;
  return a.repeat([&] {
    Ptr pointer = 0;
    return a.cu.cuMemAllocFromPoolAsync(&pointer, a.piece, pool, a.stream);
  });
}

// One graph that takes memory of two devices.
int by_two_device_graph(Attempt& a) {
  Handle graph = nullptr;
  if (a.cu.cuGraphCreate(&graph, 0) != 0) return 1;
  for (int device = 0; device < 2; ++device) {
    AllocNode node;
    node.pool.location.id = device;
    // Little on the first, so that only the second passes its limit.
    node.bytes = device == 0 ? 2 * kMib : a.piece * kPieces;
    Handle made = nullptr;
    if (a.cu.cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &node) != 0) return 1;
  }
  Handle executable = nullptr;
  if (a.cu.cuGraphInstantiateWithFlags(&executable, graph, 0) != 0) return 1;
  return a.cu.cuGraphLaunch(executable, a.stream);
}

int take_linear(Attempt& a) {
  return a.repeat([&] {
    Ptr pointer = 0;
    return a.cu.cuMemAlloc_v2(&pointer, a.piece);
  });
}

sigjmp_buf g_back;

// A signal handler leaves a wait by a jump, as interpreters do on an interrupt.
int by_jump(Attempt& a) {
  Handle module = nullptr;
  Handle function = nullptr;
  if (a.cu.cuModuleLoadData(&module, "berth kernel") != 0 ||
      a.cu.cuModuleGetFunction(&function, module, "train_3000ms") != 0) {
    return 1;
  }
  a.cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, a.stream, nullptr, nullptr);
  signal(SIGALRM, [](int) { siglongjmp(g_back, 1); });
  const itimerval soon = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 100'000}};
  if (sigsetjmp(g_back, 1) == 0) {
    setitimer(ITIMER_REAL, &soon, nullptr);
    a.cu.cuStreamSynchronize(a.stream);
    return 1;  // the kernel ended too soon: nothing was tried
  }
  return take_linear(a);
}

// No descriptor is left when the first memory is taken; later there is.
int by_descriptors(Attempt& a) {
  if (const int code = a.cu.cuInit(0); code != 0) return code;
  rlimit old = {};
  getrlimit(RLIMIT_NOFILE, &old);
  rlimit none = old;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  std::printf("without %d\n", a.cu.start());
  setrlimit(RLIMIT_NOFILE, &old);
  usleep(20'000);
  if (a.cu.context == nullptr) {
    if (const int code = a.cu.start(); code != 0) return code;
  }
  return take_linear(a);
}

// Holds what it may and closes every descriptor. Then somebody in a pid namespace of his own, where
// start times tell nothing, wants memory and so takes back what the dead have left.
int by_closing(Attempt& a) {
  const int code = take_linear(a);
  const int out = dup2(STDOUT_FILENO, 900);
  for (int fd = 3; fd < 1024; ++fd) {
    if (fd != out) close(fd);
  }
  char self[256] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    execlp("unshare", "unshare", "--pid", "--fork", "--kill-child", self, "past", "linear",
           nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const int again = take_linear(a);
  return code != 0 ? code : again;
}

// A context that is attached twice lives on after one detach, and its memory with it.
int by_detach(Attempt& a) {
  Handle same = nullptr;
  return a.repeat([&] {
    if (call_driver("cuCtxAttach", &same, 0U) != 0) return 801;
    Ptr pointer = 0;
    const int code = a.cu.cuMemAlloc_v2(&pointer, a.piece);
    call_driver("cuCtxDetach", same);
    return code;
  });
}

// The exact symbol in the place of the base name.
int by_exact_name(Attempt& a) {
  void* found = nullptr;
  int status = 0;
  if (call_driver("cuGetProcAddress_v2", "cuMemAlloc_v2", &found, 12000, 0ULL, &status) != 0 ||
      found == nullptr) {
    return 500;
  }
  auto* allocate = reinterpret_cast<int (*)(Ptr*, std::size_t)>(found);
  return a.repeat([&] {
    Ptr pointer = 0;
    return allocate(&pointer, a.piece);
  });
}

// Mipmapped arrays of no levels, which the driver takes for one.
int by_levels(Attempt& a) {
  constexpr std::size_t kWidth = 1024;
  const Array3d shape{.width = kWidth,
                      .height = a.piece / (kWidth * 4),
                      .depth = 0,
                      .format = 0x20,
                      .channels = 1,
                      .flags = 0};
  return a.repeat([&] {
    Handle array = nullptr;
    return a.cu.cuMipmappedArrayCreate(&array, &shape, 0);
  });
}

// Looks functions up with the dlsym that libc has, not the one the linker finds first.
int by_lookup(Attempt& a) {
  void* libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  auto* find = reinterpret_cast<void* (*)(void*, const char*)>(dlsym(libc, "dlsym"));
  auto* versioned =
      reinterpret_cast<void* (*)(void*, const char*)>(dlvsym(libc, "dlsym", "GLIBC_2.34"));
  if (find == nullptr || versioned == nullptr) return 1;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* first = reinterpret_cast<int (*)(Ptr*, std::size_t)>(find(library, "cuMemAlloc_v2"));
  auto* second = reinterpret_cast<int (*)(Ptr*, std::size_t)>(versioned(library, "cuMemAlloc_v2"));
  bool turn = false;
  return a.repeat([&] {
    Ptr pointer = 0;
    turn = !turn;
    return turn ? first(&pointer, a.piece) : second(&pointer, a.piece);
  });
}

struct Way {
  const char* name;
  int (*go)(Attempt& attempt);
  bool started = true;  // with a context
};

constexpr Way kWays[] = {
    {"linear", take_linear},
    {"import", by_import},
    {"multicast", by_multicast},
    {"other-pool", by_other_pool},
    {"two-device-graph", by_two_device_graph},
    {"jump", by_jump},
    {"descriptors", by_descriptors, false},
    {"closing", by_closing},
    {"detach", by_detach},
    {"exact-name", by_exact_name},
    {"levels", by_levels},
    {"lookup", by_lookup},
};

}  // namespace

int run_past(int argc, char** argv) {
  if (argc < 1) return 2;
  const std::size_t mib = argc > 1 ? number(argv[1]) : 500;
  for (const Way& way : kWays) {
    if (std::strcmp(way.name, argv[0]) != 0) continue;
    Attempt attempt;
    attempt.piece = mib / kPieces * 2 * kMib;
    if (!attempt.cu.load()) return 1;
    if (way.started &&
        (attempt.cu.start() != 0 || attempt.cu.cuStreamCreate(&attempt.stream, 1) != 0)) {
      return 1;
    }
    std::printf("code %d", way.go(attempt));
    int devices = 0;
    attempt.cu.cuDeviceGetCount(&devices);
    for (int device = 0; device < devices; ++device)
      std::printf(", device %d: %lu MiB", device, truth(device) / kMib);
    std::printf("\n");
    return 0;
  }
  return 2;
}

}  // namespace berth::guard_test
