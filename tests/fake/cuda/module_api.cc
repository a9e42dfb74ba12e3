// Entry points for modules, libraries, functions and launches.
#include <cstdio>
#include <string>
#include <vector>

#include "fake/cuda/graph.h"
#include "fake/cuda/module.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace berth::fake::cuda {

// What has been linked: the images one after another.
struct Linker {
  std::string image;
};

}  // namespace berth::fake::cuda

namespace {

Slab<Linker> g_linkers;

CUresult load_data(CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  Module* made = nullptr;
  const CUresult code = load_image(context, image, &made);
  if (code == kSuccess) *module = made;
  return code;
}

// A file's content with a zero byte behind it, so that PTX ends.
bool read_file(const char* path, std::vector<char>* content) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return false;
  char part[65536];
  std::size_t got = 0;
  while ((got = std::fread(part, 1, sizeof part, file)) > 0) {
    content->insert(content->end(), part, part + got);
  }
  (void)std::fclose(file);
  content->resize(content->size() + 64, '\0');
  return true;
}

}  // namespace

BERTH_CUDA cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER(cuModuleLoadData, module);
  return load_data(module, image);
}

BERTH_CUDA cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, int*, void**) {
  ENTER(cuModuleLoadDataEx, module);
  return load_data(module, image);
}

BERTH_CUDA cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  ENTER(cuModuleLoadFatBinary, module);
  return load_data(module, image);
}

BERTH_CUDA cuModuleLoad(CUmodule* module, const char* path) {
  ENTER(cuModuleLoad, module);
  if (path == nullptr) return kInvalidValue;
  std::vector<char> content;
  if (!read_file(path, &content)) return kFileNotFound;
  return load_data(module, content.data());
}

BERTH_CUDA cuModuleUnload(CUmodule module) {
  ENTER(cuModuleUnload);
  const Guard guard(driver().lock);
  if (!g_modules.is_live(module) || module->library != nullptr) return kInvalidHandle;
  unload(module);
  return kSuccess;
}

BERTH_CUDA cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER(cuModuleGetFunction, function);
  if (function == nullptr || name == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_modules.is_live(module)) return kInvalidHandle;
  return find_function(*module, name, function);
}

BERTH_CUDA cuModuleGetGlobal_v2(CUdeviceptr* pointer, std::size_t* bytes, CUmodule module,
                                const char* name) {
  ENTER(cuModuleGetGlobal_v2, pointer, bytes);
  if (name == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_modules.is_live(module)) return kInvalidHandle;
  Block* block = nullptr;
  if (const CUresult code = find_global(*module, name, &block); code != kSuccess) return code;
  if (pointer != nullptr) *pointer = block->base;
  if (bytes != nullptr) *bytes = block->asked;
  return kSuccess;
}

BERTH_CUDA cuModuleGetLoadingMode(int* mode) {
  ENTER(cuModuleGetLoadingMode, mode);
  if (mode == nullptr) return kInvalidValue;
  *mode = 1;  // eager
  return kSuccess;
}

BERTH_CUDA cuModuleGetTexRef(void** reference, CUmodule module, const char* name) {
  ENTER(cuModuleGetTexRef, reference);
  static int one = 0;
  if (reference == nullptr || name == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_modules.is_live(module)) return kInvalidHandle;
  *reference = &one;
  return kSuccess;
}

BERTH_CUDA cuLibraryLoadData(CUlibrary* library, const void* code, int*, void**, unsigned int, int*,
                             void**, unsigned int) {
  ENTER(cuLibraryLoadData, library);
  if (library == nullptr || code == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  Module* image = nullptr;
  if (const CUresult bad = load_image(nullptr, code, &image); bad != kSuccess) return bad;
  Library* made = g_libraries.make();
  if (made == nullptr) return kOutOfMemory;
  made->image = image;
  image->library = made;
  // Eager loading: into the current context at once, if there is one.
  if (Context* context = current_or_null(); g_contexts.is_live(context)) {
    Module* module = nullptr;
    if (const CUresult bad = in_context(*made, *context, &module); bad != kSuccess) {
      unload(image);
      g_libraries.destroy(made);
      return bad;
    }
  }
  *library = made;
  return kSuccess;
}

BERTH_CUDA cuLibraryLoadFromFile(CUlibrary* library, const char* path, int* options, void** values,
                                 unsigned int count, int* library_options, void** library_values,
                                 unsigned int library_count) {
  ENTER(cuLibraryLoadFromFile, library);
  if (path == nullptr) return kInvalidValue;
  std::vector<char> content;
  if (!read_file(path, &content)) return kFileNotFound;
  return cuLibraryLoadData(library, content.data(), options, values, count, library_options,
                           library_values, library_count);
}

BERTH_CUDA cuLibraryUnload(CUlibrary library) {
  ENTER(cuLibraryUnload);
  const Guard guard(driver().lock);
  if (!g_libraries.is_live(library)) return kInvalidHandle;
  for (const auto& [context, module] : library->modules)
    unload(module);
  unload(library->image);
  g_libraries.destroy(library);
  return kSuccess;
}

BERTH_CUDA cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  ENTER(cuLibraryGetKernel, kernel);
  if (kernel == nullptr || name == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_libraries.is_live(library)) return kInvalidHandle;
  return find_function(*library->image, name, kernel);
}

BERTH_CUDA cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  ENTER(cuLibraryGetModule, module);
  if (module == nullptr) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  if (!g_libraries.is_live(library)) return kInvalidHandle;
  return in_context(*library, *context, module);
}

BERTH_CUDA cuLibraryGetGlobal(CUdeviceptr* pointer, std::size_t* bytes, CUlibrary library,
                              const char* name) {
  ENTER(cuLibraryGetGlobal, pointer, bytes);
  CUmodule module = nullptr;
  if (const CUresult code = cuLibraryGetModule(&module, library); code != kSuccess) return code;
  return cuModuleGetGlobal_v2(pointer, bytes, module, name);
}

BERTH_CUDA cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  ENTER(cuKernelGetFunction, function);
  if (function == nullptr) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  if (!g_functions.is_live(kernel) || kernel->module->library == nullptr) return kInvalidHandle;
  Module* module = nullptr;
  if (const CUresult code = in_context(*kernel->module->library, *context, &module);
      code != kSuccess) {
    return code;
  }
  return find_function(*module, kernel->name.c_str(), function);
}

BERTH_CUDA cuKernelGetName(const char** name, CUkernel kernel) {
  ENTER(cuKernelGetName, name);
  const Guard guard(driver().lock);
  if (name == nullptr || !g_functions.is_live(kernel)) return kInvalidHandle;
  *name = kernel->name.c_str();
  return kSuccess;
}

BERTH_CUDA cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  ENTER(cuKernelGetLibrary, library);
  const Guard guard(driver().lock);
  if (library == nullptr || !g_functions.is_live(kernel)) return kInvalidHandle;
  *library = kernel->module->library;
  return kSuccess;
}

BERTH_CUDA cuFuncGetName(const char** name, CUfunction function) {
  ENTER(cuFuncGetName, name);
  const Guard guard(driver().lock);
  if (name == nullptr || !g_functions.is_live(function)) return kInvalidHandle;
  *name = function->name.c_str();
  return kSuccess;
}

BERTH_CUDA cuFuncGetModule(CUmodule* module, CUfunction function) {
  ENTER(cuFuncGetModule, module);
  const Guard guard(driver().lock);
  if (module == nullptr || !g_functions.is_live(function)) return kInvalidHandle;
  *module = function->module;
  return kSuccess;
}

static CUresult function_attribute(int* value, int attribute, const Function* function) {
  // By number: threads per block, shared, const, local bytes, registers, PTX and binary version,
  // ...
  constexpr int kValues[] = {1024, 0, 0, 0, 32, 80, 80, 0, 49152, -1, 0, 0, 0, 0, 0, 0};
  if (value == nullptr || attribute < 0 || attribute > 15) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_functions.is_live(function)) return kInvalidHandle;
  *value = kValues[attribute];
  return kSuccess;
}

BERTH_CUDA cuFuncGetAttribute(int* value, int attribute, CUfunction function) {
  ENTER(cuFuncGetAttribute, value);
  return function_attribute(value, attribute, function);
}

BERTH_CUDA cuKernelGetAttribute(int* value, int attribute, CUkernel kernel, CUdevice) {
  ENTER(cuKernelGetAttribute, value);
  return function_attribute(value, attribute, kernel);
}

static CUresult accept(const Function* function) {
  const Guard guard(driver().lock);
  return g_functions.is_live(function) ? kSuccess : kInvalidHandle;
}

BERTH_CUDA cuFuncSetAttribute(CUfunction function, int, int) {
  ENTER(cuFuncSetAttribute);
  return accept(function);
}
BERTH_CUDA cuKernelSetAttribute(int, int, CUkernel kernel, CUdevice) {
  ENTER(cuKernelSetAttribute);
  return accept(kernel);
}
BERTH_CUDA cuFuncSetCacheConfig(CUfunction function, int) {
  ENTER(cuFuncSetCacheConfig);
  return accept(function);
}
BERTH_CUDA cuKernelSetCacheConfig(CUkernel kernel, int, CUdevice) {
  ENTER(cuKernelSetCacheConfig);
  return accept(kernel);
}
BERTH_CUDA cuFuncSetSharedMemConfig(CUfunction function, int) {
  ENTER(cuFuncSetSharedMemConfig);
  return accept(function);
}
BERTH_CUDA cuFuncSetBlockShape(CUfunction function, int, int, int) {
  ENTER(cuFuncSetBlockShape);
  return accept(function);
}
BERTH_CUDA cuFuncSetSharedSize(CUfunction function, unsigned int) {
  ENTER(cuFuncSetSharedSize);
  return accept(function);
}
BERTH_CUDA cuFuncLoad(CUfunction function) {
  ENTER(cuFuncLoad);
  return accept(function);
}
BERTH_CUDA cuFuncIsLoaded(int* state, CUfunction function) {
  ENTER(cuFuncIsLoaded, state);
  if (state == nullptr) return kInvalidValue;
  *state = 1;
  return accept(function);
}

BERTH_CUDA cuLinkCreate_v2(unsigned int, int*, void**, CUlinkState* state) {
  ENTER(cuLinkCreate_v2, state);
  if (state == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  *state = g_linkers.make();
  return *state == nullptr ? kOutOfMemory : kSuccess;
}

BERTH_CUDA cuLinkCreate(unsigned int count, int* options, void** values, CUlinkState* state) {
  return cuLinkCreate_v2(count, options, values, state);
}

BERTH_CUDA cuLinkAddData_v2(CUlinkState state, int, void* data, std::size_t bytes, const char*,
                            unsigned int, int*, void**) {
  ENTER(cuLinkAddData_v2);
  const Guard guard(driver().lock);
  if (!g_linkers.is_live(state)) return kInvalidHandle;
  if (data == nullptr || bytes == 0) return kInvalidValue;
  state->image.append(static_cast<const char*>(data), bytes);
  return kSuccess;
}

BERTH_CUDA cuLinkAddData(CUlinkState state, int type, void* data, std::size_t bytes,
                         const char* name, unsigned int count, int* options, void** values) {
  return cuLinkAddData_v2(state, type, data, bytes, name, count, options, values);
}

BERTH_CUDA cuLinkComplete(CUlinkState state, void** image, std::size_t* bytes) {
  ENTER(cuLinkComplete, image, bytes);
  const Guard guard(driver().lock);
  if (!g_linkers.is_live(state)) return kInvalidHandle;
  if (image == nullptr || state->image.empty()) return kInvalidValue;
  *image = state->image.data();
  if (bytes != nullptr) *bytes = state->image.size();
  return kSuccess;
}

BERTH_CUDA cuLinkDestroy(CUlinkState state) {
  ENTER(cuLinkDestroy);
  const Guard guard(driver().lock);
  if (!g_linkers.is_live(state)) return kInvalidHandle;
  g_linkers.destroy(state);
  return kSuccess;
}
