#include "net/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "base/assert.h"

namespace berth::net {

std::int64_t now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

bool Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) {
    const std::uint64_t one = 1;
    // Cannot fail but for a counter that is full, and then the loop wakes anyhow.
    [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
  }
  return true;
}

std::vector<Task> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(tasks_, {});
}

void Mailbox::close() {
  std::vector<Task> dropped;  // destroyed outside the lock: a task may own what posts
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
}

Result<std::unique_ptr<Loop>> Loop::make() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_fd < 0 || wake_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    Error error{ErrorCode::unavailable,
                std::string("the system gives no epoll descriptor: ") + std::strerror(errno)};
    if (epoll_fd >= 0) ::close(epoll_fd);
    if (wake_fd >= 0) ::close(wake_fd);
    return error;
  }
  return std::unique_ptr<Loop>(new Loop(epoll_fd, wake_fd));
}

Loop::Loop(int epoll_fd, int wake_fd)
    : epoll_fd_(epoll_fd), wake_fd_(wake_fd), mailbox_(std::make_shared<Mailbox>(wake_fd)) {}

Loop::~Loop() {
  mailbox_->close();
  ::close(epoll_fd_);
  ::close(wake_fd_);
}

Result<void> Loop::watch(int fd, std::uint32_t events, Watcher& watcher) const {
  epoll_event event{.events = events, .data = {.ptr = &watcher}};
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) return success();
  return Error{ErrorCode::unavailable,
               std::string("a descriptor cannot be watched: ") + std::strerror(errno)};
}

void Loop::change(int fd, std::uint32_t events, Watcher& watcher) const {
  epoll_event event{.events = events, .data = {.ptr = &watcher}};
  const int changed = epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
  ASSERT(changed == 0, fd, errno);
}

void Loop::unwatch(int fd) const { epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr); }

void Loop::every(std::int64_t interval_ms, std::function<bool()> wanted,
                 std::function<void()> tick) {
  interval_ms_ = interval_ms;
  tick_wanted_ = std::move(wanted);
  tick_ = std::move(tick);
}

int Loop::wait_ms() const {
  if (next_tick_ms_ == 0) return -1;
  return static_cast<int>(std::clamp<std::int64_t>(next_tick_ms_ - now_ms(), 0, interval_ms_));
}

void Loop::run_tasks() {
  for (Task& task : mailbox_->take()) {
    task();
    task = nullptr;
  }
}

void Loop::run_tick() {
  if (next_tick_ms_ == 0 || now_ms() < next_tick_ms_) return;
  next_tick_ms_ = 0;
  tick_();
}

void Loop::run() {
  std::array<epoll_event, 128> events{};
  while (!quit_) {
    if (next_tick_ms_ == 0 && tick_wanted_ && tick_wanted_()) {
      next_tick_ms_ = now_ms() + interval_ms_;
    }
    const int count = epoll_wait(epoll_fd_, events.data(), events.size(), wait_ms());
    ASSERT(count >= 0 || errno == EINTR, errno);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.ptr != nullptr) {
        static_cast<Watcher*>(event.data.ptr)->on_events(event.events);
      } else {
        std::uint64_t ignored = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &ignored, sizeof ignored);
        run_tasks();
      }
    }
    run_tick();
    if (after_round_) after_round_();
  }
}

}  // namespace berth::net
