// System calls without libc: nothing sets errno, nothing can be interposed, and no symbol is newer
// than the oldest glibc the guard must load into (enforcement.md 3).
//
// Every function answers what the kernel answers: a value, or a negative error number.
// Thread-safety: stateless.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace berth::guard::sys {

using Word = long;

#if defined(__x86_64__)
inline Word call(Word number, Word a = 0, Word b = 0, Word c = 0, Word d = 0, Word e = 0,
                 Word f = 0) {
  Word result = number;
  register Word r10 asm("r10") = d;
  register Word r8 asm("r8") = e;
  register Word r9 asm("r9") = f;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
inline Word call(Word number, Word a = 0, Word b = 0, Word c = 0, Word d = 0, Word e = 0,
                 Word f = 0) {
  register Word x8 asm("x8") = number;
  register Word x0 asm("x0") = a;
  register Word x1 asm("x1") = b;
  register Word x2 asm("x2") = c;
  register Word x3 asm("x3") = d;
  register Word x4 asm("x4") = e;
  register Word x5 asm("x5") = f;
  asm volatile("svc 0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
}
#else
#error "the guard knows the system calls of x86-64 and aarch64 only"
#endif

inline Word word_of(const void* pointer) { return reinterpret_cast<Word>(pointer); }

// Descriptors. Every descriptor is close-on-exec.
inline int open(const char* path, int flags) {
  return static_cast<int>(call(SYS_openat, AT_FDCWD, word_of(path), flags | O_CLOEXEC, 0));
}

inline void close(int fd) { call(SYS_close, fd); }

inline Word read(int fd, void* out, std::size_t bytes) {
  return call(SYS_read, fd, word_of(out), static_cast<Word>(bytes));
}

inline Word write(int fd, const void* data, std::size_t bytes) {
  return call(SYS_write, fd, word_of(data), static_cast<Word>(bytes));
}

inline int fstat(int fd, struct stat* out) {
  return static_cast<int>(call(SYS_fstat, fd, word_of(out)));
}

inline int stat(const char* path, struct stat* out) {
  return static_cast<int>(call(SYS_newfstatat, AT_FDCWD, word_of(path), word_of(out), 0));
}

inline bool exists(const char* path) {
  return call(SYS_faccessat, AT_FDCWD, word_of(path), 0) != -ENOENT;
}

inline int duplicate_from(int fd, int lowest) {
  return static_cast<int>(call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest));
}

// Open-file-description locks: released by the kernel when the last descriptor of the description
// is closed, that is, at the owner's death (Linux 3.15).
inline constexpr int kOfdGetLock = 36;
inline constexpr int kOfdSetLock = 37;

inline int lock_byte(int fd, std::uint32_t at, short type, int command = kOfdSetLock) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = 0;
  lock.l_start = at;
  lock.l_len = 1;
  return static_cast<int>(call(SYS_fcntl, fd, command, word_of(&lock)));
}

// Memory. nullptr: refused.
inline void* map(void* hint, std::size_t bytes, int protection, int flags, int fd) {
  const Word at = call(SYS_mmap, word_of(hint), static_cast<Word>(bytes), protection, flags, fd, 0);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

inline void unmap(void* memory, std::size_t bytes) {
  call(SYS_munmap, word_of(memory), static_cast<Word>(bytes));
}

inline int advise(void* memory, std::size_t bytes, int advice) {
  return static_cast<int>(call(SYS_madvise, word_of(memory), static_cast<Word>(bytes), advice));
}

// Who and when.
inline std::uint32_t process_id() { return static_cast<std::uint32_t>(call(SYS_getpid)); }

inline std::uint32_t user_id() { return static_cast<std::uint32_t>(call(SYS_geteuid)); }

inline std::uint64_t monotonic_ns() {
  struct timespec now = {};
  call(SYS_clock_gettime, CLOCK_MONOTONIC, word_of(&now));
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline void sleep_until(std::uint64_t monotonic) {
  const struct timespec at = {.tv_sec = static_cast<time_t>(monotonic / 1'000'000'000U),
                              .tv_nsec = static_cast<Word>(monotonic % 1'000'000'000U)};
  call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 1 /* absolute */, word_of(&at), 0);
}

}  // namespace berth::guard::sys
