// Modules, libraries and the functions in them.
//
// The fake runs no code. A module takes the memory of its image; any function can be found in an
// image that is not text, and in PTX those that it declares. A function whose name ends in a
// duration, like "busy_250us", "train_10ms" or "step_1s", occupies the device that long when it is
// launched.
#pragma once

#include <map>
#include <string>

#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

struct Function {
  Module* module = nullptr;
  std::string name{};
  std::uint64_t duration_ns = 0;
};

struct Module {
  Context* context = nullptr;  // null: a library's image, not yet in a context
  std::uint64_t physical = 0;
  bool is_text = false;
  std::string text{};  // of PTX
  std::map<std::string, Function*, std::less<>> functions{};
  std::map<std::string, Block*, std::less<>> globals{};
  Library* library = nullptr;
};

struct Library {
  std::map<Context*, Module*> modules{};
  Module* image = nullptr;  // charged to nobody
};

extern Slab<Module> g_modules;
extern Slab<Function> g_functions;
extern Slab<Library> g_libraries;

// With the driver's lock held.
CUresult load_image(Context* context, const void* image, Module** module);
CUresult find_function(Module& module, const char* name, Function** function);
CUresult find_global(Module& module, const char* name, Block** block);
void unload(Module* module);
void drop_modules(Context& context);
// The library's module in the context, loaded there on first use.
CUresult in_context(Library& library, Context& context, Module** module);

// What a launch of the function occupies the device for.
std::uint64_t duration_of(const Function& function);

}  // namespace berth::fake::cuda
