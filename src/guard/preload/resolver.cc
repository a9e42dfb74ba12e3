#include "guard/preload/resolver.h"

#include "guard/preload/depth.h"

// See local.cc.
// NOLINTBEGIN(readability-identifier-naming): a symbol of the library
extern "C" {
__attribute__((visibility("default"))) extern const char berth_guard_copy[12];
__attribute__((used)) const char berth_guard_copy[12] = "berth guard";
}
// NOLINTEND(readability-identifier-naming)
asm(".hidden berth_guard_own_copy\n"
    ".globl berth_guard_own_copy\n"
    ".set berth_guard_own_copy, berth_guard_copy\n");

namespace berth::guard {

constinit thread_local ThreadState t_own __attribute__((tls_model("initial-exec"))) = {};

namespace {

bool is_ours(const void* pointer) {
  for (const HookPointer hook : kHooks) {
    if (reinterpret_cast<const void*>(hook) == pointer) return true;
  }
  return false;
}

// True if the question comes from inside one of our own calls.
[[gnu::always_inline]] inline bool is_driver_asking() {
  return is_inside_above(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
}

// What the dynamic linker would have answered is `found`, perhaps one of our own exports.
void* answer(int index, void* found) {
  const auto name = static_cast<Name>(index);
  if (found != nullptr && !is_ours(found)) {
    keep_library(name);  // a remembered function must not be unloaded
    remember(name, reinterpret_cast<FunctionPointer>(found));
  }
  FunctionPointer real = real_pointer(name);
  if (real == nullptr || found == nullptr) return nullptr;  // never more than the driver has
  if (!is_wanted(name)) return is_ours(found) ? reinterpret_cast<void*>(real) : found;
  return reinterpret_cast<void*>(kHooks[index]);
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name);
__attribute__((visibility("default"))) void* dlvsym(void* handle, const char* name,
                                                    const char* version);
}

namespace {

// Who asks libc for its dlsym, by whatever handle, wants to look names up as everybody does. Null:
// not one of the two, or nothing is limited here.
void* lookup_itself(const char* name) {
  if (name[0] != 'd' || name[1] != 'l') return nullptr;
  const bool plain = same_text(name, "dlsym");
  if ((!plain && !same_text(name, "dlvsym")) || is_driver_asking()) return nullptr;
  if (mode() == Mode::inert || mode() == Mode::passing) return nullptr;
  return plain ? reinterpret_cast<void*>(&dlsym) : reinterpret_cast<void*>(&dlvsym);
}

}  // namespace

bool is_wanted(Name name) {
  if (mode() == Mode::inert || mode() == Mode::passing) return false;
  if (!kIsLaunch[index_of(name)]) return true;
  return mode() == Mode::active && (g_grant.policy->flags & policy_compute) != 0;
}

void count_unknown_abi() {
  if (mode() != Mode::active) return;
  for (std::uint32_t i = 0; i < g_grant.view.n_devices(); ++i)
    g_grant.view.device(i).unknown_abi.fetch_add(1, std::memory_order_relaxed);
}

// Called by the stubs below. `value` is the answer if `ours`, else the function to go on to.
struct Lookup {
  void* value;
  unsigned long ours;
};

extern "C" __attribute__((visibility("hidden"), used)) Lookup berth_guard_dlsym(void* handle,
                                                                                const char* name) {
  const DlsymFunction find = linker().dlsym;
  if (find == nullptr || name == nullptr) {
    return {.value = reinterpret_cast<void*>(find), .ours = find == nullptr ? 1UL : 0UL};
  }
  if (void* own = lookup_itself(name); own != nullptr && find(handle, name) != nullptr) {
    return {.value = own, .ours = 1};
  }
  const int index = (name[0] == 'c' || name[0] == 'n') ? exported_index(name) : -1;
  if (index < 0 || is_driver_asking()) return {.value = reinterpret_cast<void*>(find), .ours = 0};
  return {.value = answer(index, find(handle, name)), .ours = 1};
}

extern "C" __attribute__((visibility("hidden"), used)) Lookup
berth_guard_dlvsym(void* handle, const char* name, const char* version) {
  const DlvsymFunction find = linker().dlvsym;
  if (find == nullptr || name == nullptr) {
    return {.value = reinterpret_cast<void*>(find), .ours = find == nullptr ? 1UL : 0UL};
  }
  if (void* own = lookup_itself(name); own != nullptr && find(handle, name, version) != nullptr) {
    return {.value = own, .ours = 1};
  }
  const int index = (name[0] == 'c' || name[0] == 'n') ? exported_index(name) : -1;
  if (index < 0 || is_driver_asking()) return {.value = reinterpret_cast<void*>(find), .ours = 0};
  return {.value = answer(index, find(handle, name, version)), .ours = 1};
}

// The stubs: a name that is not ours goes on to the dynamic linker as if we were not there, with
// the caller's return address, by which RTLD_NEXT finds its way.
#if defined(__x86_64__)
#define GUARD_STUB(exported, decide)          \
  asm(".text\n"                               \
      ".globl " exported                      \
      "\n"                                    \
      ".type " exported                       \
      ", @function\n"                         \
      ".p2align 4\n" exported                 \
      ":\n"                                   \
      ".cfi_startproc\n"                      \
      "endbr64\n"                             \
      "push %rdi\n.cfi_adjust_cfa_offset 8\n" \
      "push %rsi\n.cfi_adjust_cfa_offset 8\n" \
      "push %rdx\n.cfi_adjust_cfa_offset 8\n" \
      "call " decide                          \
      "\n"                                    \
      "mov %rdx, %rcx\n"                      \
      "pop %rdx\n.cfi_adjust_cfa_offset -8\n" \
      "pop %rsi\n.cfi_adjust_cfa_offset -8\n" \
      "pop %rdi\n.cfi_adjust_cfa_offset -8\n" \
      "test %rcx, %rcx\n"                     \
      "jne 1f\n"                              \
      "jmp *%rax\n"                           \
      "1: ret\n"                              \
      ".cfi_endproc\n"                        \
      ".size " exported ", . - " exported "\n")
#elif defined(__aarch64__)
#define GUARD_STUB(exported, decide)                        \
  asm(".text\n"                                             \
      ".globl " exported                                    \
      "\n"                                                  \
      ".type " exported                                     \
      ", %function\n"                                       \
      ".p2align 4\n" exported                               \
      ":\n"                                                 \
      ".cfi_startproc\n"                                    \
      "stp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n" \
      ".cfi_offset x29, -48\n.cfi_offset x30, -40\n"        \
      "mov x29, sp\n"                                       \
      "stp x0, x1, [sp, #16]\n"                             \
      "str x2, [sp, #32]\n"                                 \
      "bl " decide                                          \
      "\n"                                                  \
      "mov x16, x0\n"                                       \
      "mov x17, x1\n"                                       \
      "ldp x0, x1, [sp, #16]\n"                             \
      "ldr x2, [sp, #32]\n"                                 \
      "ldp x29, x30, [sp], #48\n.cfi_def_cfa_offset 0\n"    \
      ".cfi_restore x29\n.cfi_restore x30\n"                \
      "cbnz x17, 1f\n"                                      \
      "br x16\n"                                            \
      "1: mov x0, x16\n"                                    \
      "ret\n"                                               \
      ".cfi_endproc\n"                                      \
      ".size " exported ", . - " exported "\n")
#endif

GUARD_STUB("dlsym", "berth_guard_dlsym");
GUARD_STUB("dlvsym", "berth_guard_dlvsym");

}  // namespace berth::guard
