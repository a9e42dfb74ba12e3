#include "local/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::local {

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Result<Pipe> make_pipe() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error(ErrorCode::exhausted, fmt::format("cannot make a pipe: {}", errno_text(errno)));
  return Pipe{.read = Descriptor(ends[0]), .write = Descriptor(ends[1])};
}

std::optional<std::string> read_file(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{4} << 20;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::string text;
  std::size_t filled = 0;
  ssize_t got = 0;
  do {
    if (filled + 1024 > text.size()) text.resize(std::max<std::size_t>(4096, text.size() * 2));
    got = read(file.get(), text.data() + filled, text.size() - filled);
    if (got > 0) filled += static_cast<std::size_t>(got);
  } while ((got > 0 || (got < 0 && errno == EINTR)) && filled < kMostBytes);
  if (got < 0) return std::nullopt;
  text.resize(filled);
  return text;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string errno_text(int number) {
  const char* text = strerrordesc_np(number);
  return text != nullptr ? text : fmt::format("error {}", number);
}

Error system_error(std::string_view what, const std::string& path, int number) {
  const ErrorCode code = number == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable;
  return {code, fmt::format("cannot {} {}: {}", what, printable(path), errno_text(number))};
}

}  // namespace berth::local
