#include "guard/preload/real.h"

#include <elf.h>
#include <link.h>

namespace berth::guard {

std::atomic<FunctionPointer> g_real[kNames];

namespace {

// Symbol table of a loaded object, from its dynamic section.
struct Symbols {
  ElfW(Addr) base = 0;
  const ElfW(Sym) * table = nullptr;
  const char* texts = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* hash = nullptr;
};

// Some loaders relocate the pointers of the dynamic section, some do not.
template <typename Pointer>
Pointer pointer_of(ElfW(Addr) base, ElfW(Addr) value) {
  return reinterpret_cast<Pointer>(value < base ? base + value : value);
}

Symbols symbols_of(const dl_phdr_info& info) {
  Symbols symbols{.base = info.dlpi_addr};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) at = entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) symbols.table = pointer_of<const ElfW(Sym)*>(symbols.base, at);
      if (entry->d_tag == DT_STRTAB) symbols.texts = pointer_of<const char*>(symbols.base, at);
      if (entry->d_tag == DT_GNU_HASH) {
        symbols.gnu_hash = pointer_of<const std::uint32_t*>(symbols.base, at);
      }
      if (entry->d_tag == DT_HASH) {
        symbols.hash = pointer_of<const std::uint32_t*>(symbols.base, at);
      }
    }
  }
  return symbols;
}

void* defined(const Symbols& symbols, std::uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = symbols.table[index];
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return nullptr;
  if (!same_text(symbols.texts + symbol.st_name, name)) return nullptr;
  return reinterpret_cast<void*>(symbols.base + symbol.st_value);
}

void* find_by_gnu_hash(const Symbols& symbols, const char* name) {
  std::uint32_t hash = 5381;
  for (const char* c = name; *c != '\0'; ++c)
    hash = hash * 33 + static_cast<std::uint8_t>(*c);
  const std::uint32_t n_buckets = symbols.gnu_hash[0];
  const std::uint32_t first = symbols.gnu_hash[1];
  const std::uint32_t filter_words = symbols.gnu_hash[2];
  const std::uint32_t* buckets = symbols.gnu_hash + 4 + filter_words * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* chain = buckets + n_buckets;
  if (n_buckets == 0) return nullptr;
  std::uint32_t index = buckets[hash % n_buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    const std::uint32_t entry = chain[index - first];
    if ((entry | 1U) == (hash | 1U)) {
      if (void* found = defined(symbols, index, name)) return found;
    }
    if ((entry & 1U) != 0) return nullptr;
  }
}

void* find_symbol(const Symbols& symbols, const char* name) {
  if (symbols.table == nullptr || symbols.texts == nullptr) return nullptr;
  if (symbols.gnu_hash != nullptr) return find_by_gnu_hash(symbols, name);
  if (symbols.hash == nullptr) return nullptr;
  // DT_HASH: the second word is the number of symbols.
  for (std::uint32_t index = 0; index < symbols.hash[1]; ++index) {
    if (void* found = defined(symbols, index, name)) return found;
  }
  return nullptr;
}

// libc has them since 2.34; before, libdl.
int visit_object(dl_phdr_info* info, std::size_t /*size*/, void* out) {
  auto& found = *static_cast<Linker*>(out);
  const char* name = info->dlpi_name;
  if (name == nullptr || !(ends_with(name, "/libc.so.6") || ends_with(name, "/libdl.so.2"))) {
    return 0;
  }
  const Symbols symbols = symbols_of(*info);
  if (void* at = find_symbol(symbols, "dlsym")) found.dlsym = reinterpret_cast<DlsymFunction>(at);
  if (void* at = find_symbol(symbols, "dlvsym")) {
    found.dlvsym = reinterpret_cast<DlvsymFunction>(at);
  }
  if (void* at = find_symbol(symbols, "dlopen")) {
    found.dlopen = reinterpret_cast<DlopenFunction>(at);
  }
  return found.dlsym != nullptr && found.dlvsym != nullptr && found.dlopen != nullptr ? 1 : 0;
}

std::atomic<DlsymFunction> g_dlsym;
std::atomic<DlvsymFunction> g_dlvsym;
std::atomic<DlopenFunction> g_dlopen;

// A handle of the driver's library, if it is loaded; looking does not load it.
void* driver_library(Name name) {
  const bool nvml = kNameTexts[index_of(name)][0] == 'n';
  static std::atomic<void*> handles[2];
  void* handle = handles[nvml ? 1 : 0].load(std::memory_order_acquire);
  if (handle != nullptr) return handle;
  const DlopenFunction open = linker().dlopen;
  if (open == nullptr) return nullptr;
  constexpr int kLazyIfLoaded = 1 | 4;  // RTLD_LAZY | RTLD_NOLOAD
  handle = open(nvml ? "libnvidia-ml.so.1" : "libcuda.so.1", kLazyIfLoaded);
  if (handle != nullptr) handles[nvml ? 1 : 0].store(handle, std::memory_order_release);
  return handle;
}

}  // namespace

Linker linker() {
  Linker known{.dlsym = g_dlsym.load(std::memory_order_acquire),
               .dlvsym = g_dlvsym.load(std::memory_order_acquire),
               .dlopen = g_dlopen.load(std::memory_order_acquire)};
  if (known.dlsym != nullptr) return known;
  // Threads that search at the same time find the same.
  dl_iterate_phdr(visit_object, &known);
  g_dlopen.store(known.dlopen, std::memory_order_release);
  g_dlvsym.store(known.dlvsym, std::memory_order_release);
  g_dlsym.store(known.dlsym, std::memory_order_release);
  return known;
}

void keep_library(Name name) { driver_library(name); }

FunctionPointer resolve(Name name) {
  void* library = driver_library(name);
  if (library == nullptr) return nullptr;
  const DlsymFunction find = linker().dlsym;
  if (find == nullptr) return nullptr;
  void* found = find(library, kNameTexts[index_of(name)]);
  if (found == nullptr) return nullptr;
  remember(name, reinterpret_cast<FunctionPointer>(found));
  return g_real[index_of(name)].load(std::memory_order_acquire);
}

}  // namespace berth::guard
