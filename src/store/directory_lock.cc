#include "store/directory_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace berth::store {

namespace {

// "4711 2026-05-01T08:00:00Z", as the holder wrote it; empty if it had no time to.
std::string read_holder(int descriptor) {
  std::array<char, 64> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  while (!holder.empty() && (holder.back() == '\n' || holder.back() == '\0')) {
    holder.pop_back();
  }
  return holder;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), size};
}

Error held(const std::string& path, const std::string& holder) {
  const auto space = holder.find(' ');
  const std::string who =
      space == std::string::npos
          ? std::string("another process")
          : fmt::format("process {} since {}", holder.substr(0, space), holder.substr(space + 1));
  return {ErrorCode::conflict,
          fmt::format("this state directory is in use by {} ('{}' is locked): stop that one first, "
                      "or choose another directory (who holds it: fuser -v {})",
                      who, path, path)};
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return Error(ErrorCode::unavailable,
                 fmt::format("cannot open '{}': {}; the state directory must exist and be writable",
                             path, strerror(errno)));
  }
  DirectoryLock lock(descriptor);
  int failed = 0;
  do {
    failed = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno == EWOULDBLOCK) {
    return held(path, read_holder(descriptor));
  }
  if (failed != 0) {
    return Error(ErrorCode::unavailable,
                 fmt::format("cannot lock '{}': {}; the state directory must lie on a file system "
                             "that has flock, such as a local disk",
                             path, strerror(errno)));
  }
  // Only for messages: a disk too full to hold it does not matter.
  const std::string holder = fmt::format("{} {}\n", ::getpid(), now_text());
  if (::ftruncate(descriptor, 0) == 0) {
    static_cast<void>(::pwrite(descriptor, holder.data(), holder.size(), 0));
  }
  return lock;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

}  // namespace berth::store
