#include "sim/files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace berth::sim {

namespace {

// Closes a descriptor at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}

  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

std::string nameless_path(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// A file without a name in the folder of `path`: it goes with its process, also with one that is
// killed. Negative where the file system has no such files, or none could be named later.
int open_nameless(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor >= 0 && ::access(nameless_path(descriptor).c_str(), F_OK) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

Result<std::string> read_input_file(const std::string& path) {
  const auto failed = [&](std::string_view why) {
    return invalid_argument(fmt::format("{}: cannot be read: {}", path, why));
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return failed(std::strerror(errno));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return failed(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) return failed("it is a directory; name a file in it");
  std::string text;
  if (S_ISREG(status.st_mode) && status.st_size > 0 &&
      static_cast<std::size_t>(status.st_size) <= kMaxInputBytes) {
    text.reserve(static_cast<std::size_t>(status.st_size));
  }
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(std::strerror(errno));
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxInputBytes) {
      return failed(fmt::format("it is larger than {} bytes; split it", kMaxInputBytes));
    }
  }
}

Result<OutputFile> OutputFile::create(std::string path) {
  const auto failed = [&](std::string_view why) {
    return Error(ErrorCode::unavailable,
                 fmt::format("{}: cannot be written: {}; name a path in a folder that exists and "
                             "that you may write to",
                             path, why));
  };
  struct stat status{};
  if (path.empty()) return failed("the path is empty");
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return failed("it is a directory");
    if (!S_ISREG(status.st_mode)) {  // a pipe or a device is written to, never replaced
      const int special = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (special < 0) return failed(std::strerror(errno));
      return OutputFile(std::move(path), Form::special, special);
    }
    if (::access(path.c_str(), W_OK) != 0) return failed(std::strerror(errno));
    if (char* real = ::realpath(path.c_str(), nullptr)) {  // a link stays a link
      path = real;
      std::free(real);
    }
  }
  if (const int nameless = open_nameless(path); nameless >= 0) {
    return OutputFile(std::move(path), Form::nameless, nameless);
  }
  std::string temporary = path + ".partial.XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return failed(std::strerror(errno));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor, 0666 & ~mask);
  OutputFile file(std::move(path), Form::named, descriptor);
  file.temporary_ = std::move(temporary);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      form_(other.form_),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error OutputFile::failed(std::string_view what) const {
  return {ErrorCode::unavailable, fmt::format("{}: {}: {}", path_, what, std::strerror(errno))};
}

Result<void> OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return failed("writing failed");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return success();
}

Result<void> OutputFile::commit() {
  if (form_ == Form::special) return success();
  if (::fsync(descriptor_) != 0) return failed("making it durable failed");
  if (form_ == Form::nameless && temporary_.empty() && !name_it()) return failed("naming failed");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("renaming failed");
  temporary_.clear();
  form_ = Form::special;  // nothing is left to do
  return success();
}

// Only a rename replaces what is there at once, so the file gets a name of its own first.
bool OutputFile::name_it() {
  constexpr int kTries = 100;
  const std::string self = nameless_path(descriptor_);
  for (int i = 0; i < kTries; ++i) {
    std::string name = fmt::format("{}.partial.{}-{}", path_, ::getpid(), i);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = std::move(name);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

}  // namespace berth::sim
