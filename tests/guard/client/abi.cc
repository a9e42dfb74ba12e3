// abi probes: the 25 questions of the specification to cuGetProcAddress; prints one line for each
// wrong answer, then "wrong N of 25". abi matrix: every base name × version × flags against the
// fake's own table: the answer must be the driver's own function or the guard's function of the
// very symbol that the driver meant. abi handles: every counted name by all handles.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "verbs.h"

namespace berth::guard_test {

namespace {

using GetProcAddress = int (*)(const char*, void**, int, unsigned long long, int*);

// The symbol at an address, with "guard:" or "driver:" before it.
std::string origin(void* at) {
  Dl_info info = {};
  if (at == nullptr) return "nothing";
  if (dladdr(at, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const bool guard = std::strstr(info.dli_fname, "berth_guard") != nullptr;
  const char* name = info.dli_sname != nullptr && info.dli_saddr == at ? info.dli_sname : "?";
  return std::string(guard ? "guard:" : "driver:") + name;
}

struct Probe {
  const char* name;
  int version;
  unsigned long long flags;
  const char* symbol;  // "" = the driver's answer, whatever it is
  bool must_be_ours;
};

// enforcement.md 2.2.
constexpr Probe kProbes[] = {
    {"cuMemAlloc", 2000, 0, "cuMemAlloc", true},
    {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2", true},
    {"cuMemAllocAsync", 11020, 0, "cuMemAllocAsync", true},
    {"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz", true},
    {"cuLaunchKernel", 4000, 0, "cuLaunchKernel", false},
    {"cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz", false},
    {"cuLaunchKernelEx", 11060, 2, "cuLaunchKernelEx_ptsz", false},
    {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2", true},
    {"cuMemcpyHtoDAsync", 7000, 2, "cuMemcpyHtoDAsync_v2_ptsz", false},
    {"cuStreamSynchronize", 7000, 2, "cuStreamSynchronize_ptsz", true},
    {"cuCtxGetDevice", 2000, 0, "cuCtxGetDevice", false},
    {"cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2", false},
    {"cuEventElapsedTime", 2000, 0, "cuEventElapsedTime", false},
    {"cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2", false},
    {"cuMemPrefetchAsync", 8000, 0, "cuMemPrefetchAsync", false},
    {"cuMemPrefetchAsync", 12020, 0, "cuMemPrefetchAsync_v2", false},
    {"cuCtxSynchronize", 2000, 0, "cuCtxSynchronize", true},
    {"cuGraphLaunch", 10000, 0, "cuGraphLaunch", false},
    {"cuMemCreate", 10020, 0, "cuMemCreate", true},
    {"cuGraphAddMemAllocNode", 11040, 0, "cuGraphAddMemAllocNode", false},
    {"cuMemAllocFromPoolAsync", 11020, 0, "cuMemAllocFromPoolAsync", true},
    {"cuGetExportTable", 3000, 0, "cuGetExportTable", false},
    {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", true},
    {"cuNoSuch", 12000, 0, "", false},
    {"", 0, 0, "", false},
};

int run_probes(GetProcAddress ask, GetProcAddress driver) {
  int wrong = 0;
  for (const Probe& probe : kProbes) {
    void* got = nullptr;
    void* true_one = nullptr;
    int status = -1;
    int true_status = -1;
    const int code = ask(probe.name, &got, probe.version, probe.flags, &status);
    const int true_code = driver(probe.name, &true_one, probe.version, probe.flags, &true_status);
    const std::string from = origin(got);
    bool good = code == true_code && status == true_status;
    if (probe.symbol[0] == '\0') {
      good = good && got == true_one;
    } else if (true_one != nullptr) {
      good = good && (from == std::string("guard:") + probe.symbol ||
                      (!probe.must_be_ours && from == std::string("driver:") + probe.symbol));
    } else {
      good = good && got == nullptr;  // this driver is too old for it
    }
    if (good) continue;
    ++wrong;
    std::printf("%s %d %llu: %s, code %d, status %d\n", probe.name, probe.version, probe.flags,
                from.c_str(), code, status);
  }
  std::printf("wrong %d of %zu\n", wrong, std::size(kProbes));
  return wrong == 0 ? 0 : 1;
}

int run_matrix(GetProcAddress ask, GetProcAddress driver, const char* list) {
  std::ifstream file(list);
  std::vector<std::string> bases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string symbol;
    std::string base;
    words >> symbol >> base;
    if (!symbol.starts_with("cu") || !base.starts_with("cu")) continue;
    if (bases.empty() || bases.back() != base) bases.push_back(base);
  }
  constexpr int kVersions[] = {0,     1000,  2000,  3000,  3010,  3020,  4000,  4010,  5000,
                               6000,  6050,  7000,  8000,  9000,  9020,  10000, 10010, 10020,
                               11000, 11010, 11020, 11030, 11040, 11060, 11080, 12000, 12010,
                               12020, 12030, 12050, 12080, 13000, 13010, 14000};
  int wrong = 0;
  int asked = 0;
  int ours = 0;
  for (const std::string& base : bases) {
    for (const int version : kVersions) {
      for (const unsigned long long flags : {0ULL, 1ULL, 2ULL}) {
        void* got = nullptr;
        void* true_one = nullptr;
        int status = -1;
        int true_status = -1;
        const int code = ask(base.c_str(), &got, version, flags, &status);
        const int true_code = driver(base.c_str(), &true_one, version, flags, &true_status);
        ++asked;
        const std::string from = origin(got);
        const std::string wanted = origin(true_one);
        bool good =
            code == true_code && status == true_status && (got == nullptr) == (true_one == nullptr);
        if (got != true_one && good) {
          ++ours;
          good = from.substr(from.find(':')) == wanted.substr(wanted.find(':')) &&
                 from.starts_with("guard:");
        }
        if (good) continue;
        if (++wrong <= 20) {
          std::printf("%s %d %llu: %s instead of %s, code %d/%d, status %d/%d\n", base.c_str(),
                      version, flags, from.c_str(), wanted.c_str(), code, true_code, status,
                      true_status);
        }
      }
    }
  }
  std::printf("wrong %d of %d, ours %d\n", wrong, asked, ours);
  return wrong == 0 && ours > 0 ? 0 : 1;
}

int run_handles(void* library) {
  int wrong = 0;
  for (const char* name :
       {"cuInit", "cuMemAlloc", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync_ptsz",
        "cuMemCreate", "cuArrayCreate_v2", "cuCtxCreate_v2", "cuDevicePrimaryCtxRetain",
        "cuMemGetInfo_v2", "cuGraphLaunch", "cuGetProcAddress", "cuMemAllocFromPoolAsync"}) {
    void* found[] = {dlsym(library, name), dlsym(RTLD_DEFAULT, name), dlsym(RTLD_NEXT, name)};
    if (origin(found[0]) != std::string("guard:") + name) ++wrong;
    // The library was loaded without RTLD_GLOBAL: nobody else sees it, or sees ours.
    for (void* other : {found[1], found[2]}) {
      if (other != nullptr && origin(other) != std::string("guard:") + name) ++wrong;
    }
  }
  for (const char* name : {"cublasCreate_v2", "cudnnCreate", "curl_easy_init", "cuNoSuchThing"}) {
    if (dlsym(library, name) != nullptr) ++wrong;
  }
  // Not ours: exactly what the linker says, by the caller's own view.
  if (dlsym(RTLD_DEFAULT, "printf") != reinterpret_cast<void*>(&std::printf)) ++wrong;
  std::printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int run_abi(int argc, char** argv) {
  if (argc < 1) return 2;
  const std::string what = argv[0];
  // Before the driver is loaded nobody may claim to have it.
  if (dlsym(RTLD_DEFAULT, "cuInit") != nullptr) {
    std::printf("cuInit was found without a driver\n");
    return 1;
  }
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 1;
  if (what == "handles") return run_handles(library);
  const auto ask = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  // The driver's own, past the guard: through a name that no table knows, by its address there.
  void* own = nullptr;
  Dl_info info = {};
  if (dladdr(dlsym(library, "cuCtxGetCurrent"), &info) == 0) return 1;
  const auto distance = [&](const char* offset) { return std::strtoull(offset, nullptr, 16); };
  if (argc < 2) return 2;
  own = static_cast<char*>(info.dli_fbase) + distance(argv[1]);
  const auto driver = reinterpret_cast<GetProcAddress>(own);
  if (what == "probes") return run_probes(ask, driver);
  if (what == "matrix" && argc == 3) return run_matrix(ask, driver, argv[2]);
  return 2;
}

}  // namespace berth::guard_test
