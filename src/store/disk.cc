#include "store/disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "store/tap.h"
#include "store/vfs.h"

namespace berth::store {

namespace {

Error unavailable(std::string_view what, const std::string& path, int error) {
  return {ErrorCode::unavailable, fmt::format("cannot {} '{}': {}", what, path, strerror(error))};
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }

  int number() const { return number_; }

  bool ok() const { return number_ >= 0; }

 private:
  int number_;
};

}  // namespace

struct Disk::Impl {
  Impl(std::string the_directory, FaultHook* faults)
      : directory(std::move(the_directory)), tap{.faults = faults}, vfs(tap) {}

  std::string directory;
  Tap tap;
  Vfs vfs;
};

Disk::Disk(std::string directory, FaultHook* faults)
    : impl_(std::make_unique<Impl>(std::move(directory), faults)) {}

Disk::~Disk() = default;

const std::string& Disk::vfs() const { return impl_->vfs.name(); }

std::string Disk::path(std::string_view file) const {
  return fmt::format("{}/{}", impl_->directory, file);
}

bool Disk::exists(std::string_view file) const {
  struct stat found{};
  return ::lstat(path(file).c_str(), &found) == 0;
}

std::int64_t Disk::size(std::string_view file) const {
  struct stat found{};
  return ::stat(path(file).c_str(), &found) == 0 ? found.st_size : 0;
}

Result<void> Disk::make(std::string_view file) const {
  const Descriptor descriptor(
      ::open(path(file).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return descriptor.ok() ? success() : unavailable("make", path(file), errno);
}

Result<void> Disk::rename(std::string_view from, std::string_view to) {
  const int error = impl_->tap.step({.deed = DiskDeed::rename, .file = from, .to = to},
                                    [&] { return ::rename(path(from).c_str(), path(to).c_str()); });
  return error == 0 ? success() : unavailable("rename", path(from), error);
}

Result<void> Disk::remove(std::string_view file) {
  if (!exists(file)) {
    return success();
  }
  const int error = impl_->tap.step({.deed = DiskDeed::remove, .file = file},
                                    [&] { return ::unlink(path(file).c_str()); });
  return error == 0 ? success() : unavailable("remove", path(file), error);
}

Result<void> Disk::sync_directory() {
  const Descriptor descriptor(::open(impl_->directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.ok()) {
    return unavailable("open", impl_->directory, errno);
  }
  const int error = impl_->tap.step({.deed = DiskDeed::sync_directory},
                                    [&] { return ::fsync(descriptor.number()); });
  return error == 0 ? success() : unavailable("sync", impl_->directory, error);
}

void Disk::make_room_in_log(std::int64_t bytes) {
  static const std::string kZeros(std::size_t{1} << 16U, '\0');
  const Descriptor log(::open(path(kLogFile).c_str(), O_WRONLY | O_CLOEXEC));
  if (!log.ok()) {
    return;
  }
  for (std::int64_t at = size(kLogFile); at < bytes;) {
    const auto amount = std::min(bytes - at, static_cast<std::int64_t>(kZeros.size()));
    const std::string_view zeros(kZeros.data(), static_cast<std::size_t>(amount));
    const int error = impl_->tap.step(
        {.deed = DiskDeed::write, .file = kLogFile, .offset = at, .bytes = zeros},
        [&] { return ::pwrite(log.number(), zeros.data(), zeros.size(), at) == amount ? 0 : -1; });
    if (error != 0) {
      return;
    }
    at += amount;
  }
  impl_->tap.step({.deed = DiskDeed::sync, .file = kLogFile},
                  [&] { return ::fdatasync(log.number()); });
}

void Disk::begin_commit() {
  impl_->tap.commit_begins.reset();
  impl_->tap.last_error = 0;
}

void Disk::take_back_commit() {
  if (!impl_->tap.commit_begins) {
    return;
  }
  const int why = impl_->tap.last_error;
  const std::int64_t begins = *impl_->tap.commit_begins;
  impl_->tap.step({.deed = DiskDeed::truncate, .file = kLogFile, .offset = begins},
                  [&] { return ::truncate(path(kLogFile).c_str(), begins); });
  impl_->tap.last_error = why;
}

int Disk::last_error() const { return impl_->tap.last_error; }

int Disk::read_error() const { return impl_->tap.read_error; }

Result<void> make_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0) {
    if (errno == EEXIST) {
      return success();
    }
    return unavailable("make the directory", directory, errno);
  }
  const auto slash = directory.find_last_of('/');
  const std::string above = slash == std::string::npos ? "." : directory.substr(0, slash + 1);
  const Descriptor descriptor(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.ok() || ::fsync(descriptor.number()) != 0) {
    return unavailable("sync", above, errno);
  }
  return success();
}

}  // namespace berth::store
