#include "grant/death_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace berth::grant {

DeathWatch::~DeathWatch() {
  for (const auto& [pid, fd] : descriptors_)
    close(fd);
}

bool DeathWatch::add(std::uint32_t pid) {
  if (descriptors_.contains(pid)) return true;
  const long fd = syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0);
  if (fd < 0) return false;
  descriptors_.emplace(pid, static_cast<int>(fd));
  return true;
}

int DeathWatch::wait(Duration most) {
  std::vector<pollfd> polled;
  std::vector<std::uint32_t> pids;
  for (const auto& [pid, fd] : descriptors_) {
    polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    pids.push_back(pid);
  }
  if (poll(polled.data(), polled.size(), static_cast<int>(most.count())) <= 0) return 0;
  int ended = 0;
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    close(polled[i].fd);
    descriptors_.erase(pids[i]);
    ++ended;
  }
  return ended;
}

}  // namespace berth::grant
