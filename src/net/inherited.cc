// What a server's process brings along: sockets of systemd (sd_listen_fds(3), without libsystemd)
// and the limit of open files.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include "net/server.h"

namespace berth::net {

namespace {

constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
constexpr long kMost = 64;

long number_in(const char* variable) {
  const char* text = std::getenv(variable);
  long number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

}  // namespace

std::vector<InheritedSocket> take_inherited_sockets() {
  std::vector<InheritedSocket> sockets;
  if (number_in("LISTEN_PID") == ::getpid()) {
    const char* given = std::getenv("LISTEN_FDNAMES");
    std::string_view names = given == nullptr ? "" : given;
    const long count = std::min(number_in("LISTEN_FDS"), kMost);
    for (int fd = kFirst; fd < kFirst + count; ++fd) {
      const std::string_view name = names.substr(0, names.find(':'));
      names.remove_prefix(std::min(name.size() + 1, names.size()));
      if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;  // not open
      sockets.push_back({.fd = fd, .name = std::string(name)});
    }
  }
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    ::unsetenv(variable);
  }
  return sockets;
}

std::size_t raise_open_files(std::size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const std::size_t before = files.rlim_cur;
  if (files.rlim_cur < wanted) {
    files.rlim_cur = std::min<rlim_t>(wanted, files.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &files);  // a refusal leaves it as it was, which start() reads
  }
  return before;
}

}  // namespace berth::net
