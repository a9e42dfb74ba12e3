#include "net/transport.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace berth::net {

Transport::~Transport() {
  if (fd_ >= 0) ::close(fd_);
}

IoResult Transport::handshake() { return {.status = IoResult::Status::done}; }

IoResult Transport::read(std::span<char> into) {
  while (true) {
    const ssize_t got = ::recv(fd_, into.data(), into.size(), 0);
    if (got > 0) return {IoResult::Status::done, static_cast<std::size_t>(got)};
    if (got == 0) return {.status = IoResult::Status::closed};
    if (errno == EAGAIN) return {.status = IoResult::Status::want_read};
    if (errno == EINTR) continue;
    error_ = errno;
    return {.status = IoResult::Status::failed};
  }
}

IoResult Transport::write(std::string_view from) {
  while (true) {
    const ssize_t put = ::send(fd_, from.data(), from.size(), MSG_NOSIGNAL);
    if (put >= 0) return {IoResult::Status::done, static_cast<std::size_t>(put)};
    if (errno == EAGAIN) return {.status = IoResult::Status::want_write};
    if (errno == EINTR) continue;
    error_ = errno;
    return {.status = IoResult::Status::failed};
  }
}

void Transport::finish_writing() { ::shutdown(fd_, SHUT_WR); }

std::string Transport::why() const { return std::strerror(error_); }

}  // namespace berth::net
