#include "local/end_watch.h"

#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/assert.h"

namespace berth::local {

namespace {

constexpr std::uint64_t kInterruptTag = 0;
constexpr std::uint64_t kTimerTag = 1;
constexpr long kLookEveryNs = 100'000'000;

bool lives(const ProcessKey& key) {
  const Processes processes;
  const Process* process = processes.find(key);
  return process != nullptr && process->lives();
}

void put(int epoll, int fd, std::uint64_t tag) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  ASSERT(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

// A counter (eventfd, timerfd) back to zero.
void drain(int fd) {
  std::uint64_t count = 0;
  const ssize_t got = read(fd, &count, sizeof count);
  ASSERT(got == sizeof count || errno == EAGAIN);
}

}  // namespace

EndWatch::EndWatch(Method method)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      interrupt_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      method_(method) {
  // Three descriptors at the start of a daemon: without them nothing of it can work.
  ASSERT(epoll_ >= 0 && interrupt_ >= 0 && timer_ >= 0);
  put(epoll_, interrupt_, kInterruptTag);
  put(epoll_, timer_, kTimerTag);
}

EndWatch::~EndWatch() {
  for (const auto& [process, fd] : watched_) {
    if (fd >= 0) close(fd);
  }
  close(timer_);
  close(interrupt_);
  close(epoll_);
}

void EndWatch::arm_timer() const {
  itimerspec every = {};
  every.it_value.tv_nsec = every.it_interval.tv_nsec = kLookEveryNs;
  timerfd_settime(timer_, 0, &every, nullptr);
}

bool EndWatch::add(const ProcessKey& process) {
  const std::scoped_lock lock(mutex_);
  if (watched_.contains(process)) return true;
  int fd = -1;
  if (method_ == Method::pidfd) {
    fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0));
    if (fd < 0 && (errno == ESRCH || errno == EINVAL)) return false;
    // Otherwise no pidfds here (ENOSYS, EPERM of a sandbox) or no descriptors left: look instead.
  }
  // Asked after the descriptor was opened: if it is still the process meant, so was the one opened.
  if (!lives(process)) {
    if (fd >= 0) close(fd);
    return false;
  }
  watched_.emplace(process, fd);
  if (fd < 0) {
    arm_timer();
    return true;
  }
  const std::uint64_t tag = ++last_tag_;
  tags_.emplace(process, tag);
  by_tag_.emplace(tag, process);
  put(epoll_, fd, tag);
  return true;
}

void EndWatch::forget(std::map<ProcessKey, int>::iterator process) {
  if (process->second >= 0) {
    close(process->second);
    const auto tag = tags_.find(process->first);
    by_tag_.erase(tag->second);
    tags_.erase(tag);
  }
  watched_.erase(process);
}

void EndWatch::remove(const ProcessKey& process) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = watched_.find(process); found != watched_.end()) forget(found);
}

std::vector<ProcessKey> EndWatch::wait(Duration most) {
  std::array<epoll_event, 64> events = {};
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(most.count()));
  const std::scoped_lock lock(mutex_);
  std::vector<ProcessKey> ended;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events.at(static_cast<std::size_t>(i)).data.u64;
    if (tag == kInterruptTag) {
      drain(interrupt_);
    } else if (tag == kTimerTag) {
      drain(timer_);
      bool looking = false;
      for (const auto& [process, fd] : watched_) {
        if (fd >= 0) continue;
        looking = true;
        if (!lives(process)) ended.push_back(process);
      }
      if (!looking) {
        constexpr itimerspec kNever = {};
        timerfd_settime(timer_, 0, &kNever, nullptr);
      }
    } else if (const auto found = by_tag_.find(tag); found != by_tag_.end()) {
      ended.push_back(found->second);  // else it was removed while we waited
    }
  }
  for (const ProcessKey& process : ended)
    forget(watched_.find(process));
  return ended;
}

void EndWatch::interrupt() const {
  const std::uint64_t one = 1;
  const ssize_t written = write(interrupt_, &one, sizeof one);
  ASSERT(written == sizeof one || errno == EAGAIN);
}

}  // namespace berth::local
