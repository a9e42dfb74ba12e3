// A library that uses the GPU in its constructor, which runs before the guard's: it takes 100 MiB
// and keeps them. Preloaded behind the guard; what it takes is to be counted like everything else.
#include <cstddef>
#include <cstdio>
#include <dlfcn.h>

namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

[[gnu::constructor]] void start() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return;
  auto* init = find<int(unsigned)>(library, "cuInit");
  auto* create = find<int(void**, unsigned, int)>(library, "cuCtxCreate_v2");
  auto* allocate = find<int(unsigned long long*, std::size_t)>(library, "cuMemAlloc_v2");
  if (init == nullptr || create == nullptr || allocate == nullptr) return;
  void* context = nullptr;
  unsigned long long pointer = 0;
  int code = init(0);
  if (code == 0) code = create(&context, 0, 0);
  if (code == 0) code = allocate(&pointer, std::size_t{100} << 20U);
  std::printf("early %d\n", code);
  std::fflush(stdout);
}

}  // namespace
