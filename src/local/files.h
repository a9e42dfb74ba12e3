// Small files of the system and of jobs, and descriptors that close themselves.
// Thread-safety: functions; a Descriptor is a value that one thread uses.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace berth::local {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

// Both ends close on exec. Errors: exhausted (no descriptors left).
Result<Pipe> make_pipe();

// The whole of a file, also of one that the kernel makes up while it is read; at most 4 MiB.
std::optional<std::string> read_file(const std::string& path);

// All of it or an errno. Goes on after signals.
int write_all(int fd, std::string_view bytes);

// What the kernel says of an errno, without a lock or a buffer shared by threads.
std::string errno_text(int number);

// The error of a system call on a path: "cannot open /a/b: Permission denied".
Error system_error(std::string_view what, const std::string& path, int number);

}  // namespace berth::local
