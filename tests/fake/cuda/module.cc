#include "fake/cuda/module.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "fake/cuda/memory.h"

namespace berth::fake::cuda {

Slab<Module> g_modules;
Slab<Function> g_functions;
Slab<Library> g_libraries;

namespace {

constexpr std::uint64_t kModuleUnit = std::uint64_t{64} << 10;
constexpr std::uint64_t kGlobalBytes = 4096;
constexpr std::uint32_t kFatWrapper = 0x466243B1;
constexpr std::uint32_t kFatBinary = 0xBA55ED50;

template <class T>
T read_at(const void* image, std::size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(image) + offset, sizeof value);
  return value;
}

// How long the image is: the interface does not say, the image's own header does.
std::uint64_t image_bytes(const void* image, bool* is_text) {
  *is_text = false;
  const auto magic = read_at<std::uint32_t>(image, 0);
  if (magic == kFatWrapper) {
    const auto* inner = read_at<const void*>(image, 8);
    return inner == nullptr ? kModuleUnit : image_bytes(inner, is_text);
  }
  if (magic == kFatBinary) return 16 + read_at<std::uint64_t>(image, 8);
  if (std::memcmp(image, "\177ELF", 4) == 0) {
    // End of the section headers, which stand last.
    const auto headers = read_at<std::uint64_t>(image, 40);
    return headers +
           std::uint64_t{read_at<std::uint16_t>(image, 58)} * read_at<std::uint16_t>(image, 60);
  }
  *is_text = true;
  return std::strlen(static_cast<const char*>(image));
}

std::uint64_t declared_duration(const std::string& name) {
  std::size_t unit = name.size();
  while (unit > 0 && std::isalpha(static_cast<unsigned char>(name[unit - 1])) != 0)
    --unit;
  std::size_t digits = unit;
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0)
    --digits;
  if (digits == unit || digits == 0 || name[digits - 1] != '_') return 0;
  const std::string word = name.substr(unit);
  const std::uint64_t value = std::strtoull(name.c_str() + digits, nullptr, 10);
  constexpr std::uint64_t kLongest = 3'600'000'000'000;
  std::uint64_t factor = 0;
  if (word == "ns") factor = 1;
  if (word == "us") factor = 1'000;
  if (word == "ms") factor = 1'000'000;
  if (word == "s") factor = 1'000'000'000;
  return factor == 0 || value > kLongest / factor ? 0 : value * factor;
}

// Whether PTX declares `name` after `keyword` (".entry", ".global").
bool declares(const std::string& text, const char* keyword, const std::string& name) {
  for (std::size_t at = text.find(keyword); at != std::string::npos;
       at = text.find(keyword, at + 1)) {
    const std::size_t end = text.find_first_of("({;\n", at);
    const std::string line = text.substr(at, end == std::string::npos ? end : end - at + 1);
    const std::size_t found = line.find(name);
    if (found == std::string::npos) continue;
    const char before = line[found - 1];
    const char after = found + name.size() < line.size() ? line[found + name.size()] : ' ';
    const auto part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
    };
    if (!part(before) && !part(after)) return true;
  }
  return false;
}

}  // namespace

CUresult load_image(Context* context, const void* image, Module** module) {
  bool is_text = false;
  const std::uint64_t bytes = image_bytes(image, &is_text);
  if (bytes == 0) return kInvalidImage;
  const std::uint64_t physical = rounded_up(bytes, kModuleUnit);
  if (context != nullptr && !driver().books().charge(context->entry, Family::module, physical)) {
    return kOutOfMemory;
  }
  Module* made = g_modules.make();
  if (made == nullptr) return kOutOfMemory;
  made->context = context;
  made->physical = physical;
  made->is_text = is_text;
  if (is_text) made->text = static_cast<const char*>(image);
  *module = made;
  return kSuccess;
}

CUresult find_function(Module& module, const char* name, Function** function) {
  const auto known = module.functions.find(std::string_view(name));
  if (known != module.functions.end()) {
    *function = known->second;
    return kSuccess;
  }
  if (*name == '\0' || (module.is_text && module.text.find(".entry") != std::string::npos &&
                        !declares(module.text, ".entry", name))) {
    return kNotFound;
  }
  Function* made = g_functions.make();
  if (made == nullptr) return kOutOfMemory;
  made->module = &module;
  made->name = name;
  made->duration_ns = declared_duration(made->name);
  module.functions[made->name] = made;
  *function = made;
  return kSuccess;
}

CUresult find_global(Module& module, const char* name, Block** block) {
  const auto known = module.globals.find(std::string_view(name));
  if (known != module.globals.end()) {
    *block = known->second;
    return kSuccess;
  }
  if (module.context == nullptr || *name == '\0' ||
      (module.is_text && !declares(module.text, ".global", name) &&
       !declares(module.text, ".const", name))) {
    return kNotFound;
  }
  Block* made = driver().space.take(kGlobalBytes);
  if (made == nullptr) return kOutOfMemory;
  made->kind = BlockKind::module;  // part of the image: charged with it
  made->asked = kGlobalBytes;
  made->device = module.context->entry;
  made->context = module.context;
  module.globals[name] = made;
  *block = made;
  return kSuccess;
}

void unload(Module* module) {
  if (module->context != nullptr) {
    driver().books().release(module->context->entry, Family::module, module->physical);
  }
  for (const auto& [name, function] : module->functions)
    g_functions.destroy(function);
  for (const auto& [name, block] : module->globals)
    driver().space.give_back(block);
  g_modules.destroy(module);
}

void drop_modules(Context& context) {
  g_libraries.each([&](Library* library) { library->modules.erase(&context); });
  g_modules.each([&](Module* module) {
    if (module->context == &context) unload(module);
  });
}

CUresult in_context(Library& library, Context& context, Module** module) {
  const auto known = library.modules.find(&context);
  if (known != library.modules.end()) {
    *module = known->second;
    return kSuccess;
  }
  const std::uint64_t physical = library.image->physical;
  if (!driver().books().charge(context.entry, Family::module, physical)) return kOutOfMemory;
  Module* made = g_modules.make();
  if (made == nullptr) return kOutOfMemory;
  made->context = &context;
  made->physical = physical;
  made->is_text = library.image->is_text;
  made->text = library.image->text;
  made->library = &library;
  library.modules[&context] = made;
  *module = made;
  return kSuccess;
}

std::uint64_t duration_of(const Function& function) {
  return function.duration_ns != 0 ? function.duration_ns
                                   : driver().header().launch_ns.load(std::memory_order_relaxed);
}

}  // namespace berth::fake::cuda
