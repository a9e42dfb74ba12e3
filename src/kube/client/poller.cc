#include "kube/client/poller.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/error.h"

namespace berth::kube {

Result<std::unique_ptr<Poller>> Poller::make() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int wake_fd = epoll_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    const int why = errno;
    if (epoll_fd >= 0) close(epoll_fd);
    return Error(ErrorCode::unavailable,
                 fmt::format("no descriptors to wait with: {}; raise the limit of open files "
                             "(ulimit -n)",
                             strerror(why)));
  }
  std::unique_ptr<Poller> poller(new Poller(epoll_fd, wake_fd));
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_fd}};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event);
  return poller;
}

Poller::~Poller() {
  close(wake_fd_);
  close(epoll_fd_);
}

void Poller::watch(int fd, Interest interest, Watcher& watcher) {
  Watched& watched = watched_[fd];
  watched.watcher = &watcher;
  watched.wanted = interest;
  if (!watched.known || watched.wanted != watched.told) changed_.push_back(fd);
}

void Poller::tell(int fd, Watched& watched) const {
  if (watched.known && watched.wanted == watched.told) return;
  epoll_event event{.events = (watched.wanted.readable ? std::uint32_t{EPOLLIN} : 0U) |
                              (watched.wanted.writable ? std::uint32_t{EPOLLOUT} : 0U),
                    .data = {.fd = fd}};
  epoll_ctl(epoll_fd_, watched.known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  watched.told = watched.wanted;
  watched.known = true;
}

void Poller::unwatch(int fd) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  if (found->second.known) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(found);
}

void Poller::wait(Duration most) {
  for (const int fd : changed_) {
    if (const auto found = watched_.find(fd); found != watched_.end()) tell(fd, found->second);
  }
  changed_.clear();
  std::array<epoll_event, 64> events{};
  const int timeout =
      static_cast<int>(std::clamp(most.count(), std::int64_t{0}, std::int64_t{3'600'000}));
  const int count = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), timeout);
  ASSERT(count >= 0 || errno == EINTR, errno);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == wake_fd_) {
      std::uint64_t times = 0;
      [[maybe_unused]] const ssize_t got = read(wake_fd_, &times, sizeof times);
      continue;
    }
    const auto found = watched_.find(event.data.fd);
    if (found == watched_.end()) continue;  // taken off by one that came before it
    const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    found->second.watcher->on_ready(event.data.fd, broken || (event.events & EPOLLIN) != 0,
                                    broken || (event.events & EPOLLOUT) != 0);
  }
}

void Poller::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(wake_fd_, &one, sizeof one);
}

}  // namespace berth::kube
