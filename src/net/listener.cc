#include "net/listener.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "net/socket.h"

namespace berth::net {

namespace {

Error system_error(std::string message, int code = errno) {
  return {ErrorCode::unavailable, std::move(message) + ": " + std::strerror(code)};
}

// The folder of a socket, locked while its file is looked at and replaced: of two servers that
// start at once one sees the other's socket.
class FolderLock {
 public:
  static Result<FolderLock> take(const std::string& folder) {
    FolderLock lock;
    lock.fd_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock.fd_.is_open()) {
      if (errno == ENOENT) {
        return Error{ErrorCode::not_found, fmt::format("there is no folder {} for the socket; make "
                                                       "it, or listen elsewhere",
                                                       printable(folder))};
      }
      return system_error(fmt::format("the folder {} cannot be opened", printable(folder)));
    }
    for (int tries = 0; ::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
      if (errno != EWOULDBLOCK || tries == 200) {
        return system_error(
            fmt::format("the folder {} of the socket cannot be locked", printable(folder)));
      }
      const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
      nanosleep(&pause, nullptr);
    }
    return lock;
  }

 private:
  FolderLock() : fd_(-1) {}
  Descriptor fd_;
};

// Removes a socket file that nobody listens on. Errors: somebody does, or it is no socket.
Result<void> clear_path(const std::string& path, const sockaddr_un& name) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return success();  // bind says what else is wrong
  if (!S_ISSOCK(status.st_mode)) {
    return Error{ErrorCode::conflict,
                 fmt::format("{} exists and is no socket; it is left alone. Move it away or listen "
                             "elsewhere",
                             printable(path))};
  }
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int connected =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  if (connected != 0 && errno == ECONNREFUSED) {
    if (::unlink(path.c_str()) == 0) return success();
    return system_error(
        fmt::format("the socket {} of a server that is gone cannot be removed", printable(path)));
  }
  if (connected != 0 && errno != EAGAIN) {  // EAGAIN: its queue of clients is full
    return system_error(
        fmt::format("whether a server listens on {} cannot be found out", printable(path)));
  }
  ucred owner{};
  socklen_t size = sizeof owner;
  const bool known =
      ::getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0 && owner.pid > 0;
  return Error{ErrorCode::conflict,
               fmt::format("another server{} already listens on {}; use it, or stop it first",
                           known ? fmt::format(" (pid {})", owner.pid) : "", printable(path))};
}

Address address_of(const sockaddr_storage& name, socklen_t size) {
  Address address{.scheme = Address::Scheme::https};
  if (name.ss_family == AF_UNIX) {
    address.scheme = Address::Scheme::unix_socket;
    const auto* local = reinterpret_cast<const sockaddr_un*>(&name);
    const std::size_t offset = offsetof(sockaddr_un, sun_path);
    if (size > offset)
      address.path = std::string(local->sun_path, ::strnlen(local->sun_path, size - offset));
    return address;
  }
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&name), size, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
    address.host = host;
    address.port = static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10));
  }
  return address;
}

bool is_loopback_name(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&name);
    return (ntohl(four->sin_addr.s_addr) >> 24U) == 127;
  }
  if (name.ss_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&name);
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
  }
  return false;
}

sockaddr_storage bound_name(int fd, socklen_t& size) {
  sockaddr_storage name{};
  size = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) name.ss_family = AF_UNSPEC;
  return name;
}

// A bound and listening TCP socket. Errors name the address.
Result<Descriptor> bind_tcp(const addrinfo& info, const Address& address) {
  Descriptor fd(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!fd.is_open()) return system_error("the system gives no TCP socket");
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (::bind(fd.get(), info.ai_addr, info.ai_addrlen) == 0 && ::listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  if (errno == EADDRINUSE) {
    return Error{
        ErrorCode::conflict,
        fmt::format("another program already listens on {}; stop it or choose another port",
                    address.authority())};
  }
  return system_error(fmt::format("{} cannot be listened on", address.authority()));
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open_unix(const Address& address, mode_t mode) {
  const std::string& path = address.path;
  TRY(const FolderLock lock,
      FolderLock::take(path.substr(0, std::max<std::size_t>(path.rfind('/'), 1))));
  const sockaddr_un name = unix_name(path);
  TRY_VOID(clear_path(path, name));
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode before bind() bounds that of the new file, so that it is at no moment too wide.
  if (!fd.is_open() || ::fchmod(fd.get(), mode & 0777U) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return system_error(fmt::format("the socket {} cannot be made", printable(path)));
  }
  std::unique_ptr<Listener> listener(new Listener(fd.release(), address));
  struct stat status{};
  if (::listen(listener->fd_, SOMAXCONN) != 0 || ::chmod(path.c_str(), mode & 0777U) != 0 ||
      ::lstat(path.c_str(), &status) != 0) {
    return system_error(fmt::format("the socket {} cannot be listened on", printable(path)));
  }
  listener->owns_file_ = true;
  listener->device_ = status.st_dev;
  listener->inode_ = status.st_ino;
  return listener;
}

Result<std::vector<std::unique_ptr<Listener>>> Listener::open_tcp(const Address& address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int failed = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                   port.c_str(), &hints, &found);
  if (failed != 0) {
    return Error{ErrorCode::not_found, fmt::format("the host of {} is not known: {}",
                                                   address.authority(), ::gai_strerror(failed))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<std::unique_ptr<Listener>> listeners;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    Result<Descriptor> fd = bind_tcp(*info, address);
    // A machine without IPv6 still has ::1 in its files.
    const bool other_family = info->ai_next != nullptr || !listeners.empty();
    if (!fd.ok() && fd.error().code() == ErrorCode::unavailable && other_family) continue;
    if (!fd.ok()) return std::move(fd).error();
    TRY(auto listener, adopt({.fd = std::move(fd).value().release()}));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

Result<std::unique_ptr<Listener>> Listener::adopt(const InheritedSocket& socket) {
  Descriptor fd(socket.fd);
  socklen_t size = 0;
  const sockaddr_storage name = bound_name(fd.get(), size);
  int listening = 0;
  socklen_t listening_size = sizeof listening;
  const bool asked =
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_size) == 0;
  if (!asked || listening == 0 || name.ss_family == AF_UNSPEC) {
    return invalid_argument(
        fmt::format("the inherited descriptor {}{} is no listening stream socket; the unit needs "
                    "ListenStream= and Accept=no",
                    socket.fd, socket.name.empty() ? "" : " (" + printable(socket.name) + ")"));
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  std::unique_ptr<Listener> listener(new Listener(fd.release(), address_of(name, size)));
  listener->loopback_ = is_loopback_name(name);
  return listener;
}

Listener::~Listener() {
  stop();
  if (spare_fd_ >= 0) ::close(spare_fd_);
  if (fd_ >= 0) ::close(fd_);
  struct stat status{};
  // Somebody may have put another socket there meanwhile.
  if (owns_file_ && ::lstat(address_.path.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_) {
    ::unlink(address_.path.c_str());
  }
}

Result<void> Listener::start(Loop& loop, Accepted accepted, Dropped dropped) {
  accepted_ = std::move(accepted);
  dropped_ = std::move(dropped);
  spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  TRY_VOID(loop.watch(fd_, EPOLLIN, *this));
  loop_ = &loop;
  return success();
}

void Listener::stop() {
  if (loop_ != nullptr && !paused_) loop_->unwatch(fd_);
  loop_ = nullptr;
}

void Listener::on_events(std::uint32_t /*events*/) {
  // A few at a time: those who are served already come between.
  for (int i = 0; i < 64 && loop_ != nullptr && accept_one(); ++i) {
  }
}

bool Listener::accept_one() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    accepted_(*this, fd);
    return true;
  }
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: out_of_descriptors(); return false;
    // Errors of that one connection, which accept() hands on (accept(2), "Error handling").
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case EPERM: return true;
    default: return false;
  }
}

// The client stays in the queue and would wake us for ever. With the spare descriptor it is taken
// and closed, so that it knows; without, we look away for a tick.
void Listener::out_of_descriptors() {
  if (spare_fd_ >= 0) {
    ::close(spare_fd_);
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) ::close(fd);
    spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      dropped_();
      return;
    }
  }
  loop_->unwatch(fd_);
  paused_ = true;
}

void Listener::tick() {
  if (!paused_ || loop_ == nullptr) return;
  if (spare_fd_ < 0) spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  paused_ = !loop_->watch(fd_, EPOLLIN, *this).ok();
}

}  // namespace berth::net
