// Poller: waits for descriptors and for a word from another thread.
//
// Thread-safety: wake() from any thread; all else from one.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::kube {

class Watcher {
 public:
  virtual ~Watcher() = default;
  // An error or a hang-up counts as readable and writable.
  virtual void on_ready(int fd, bool readable, bool writable) = 0;
};

class Poller {
 public:
  static Result<std::unique_ptr<Poller>> make();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  struct Interest {
    bool readable = false;
    bool writable = false;
    bool operator==(const Interest&) const = default;
  };

  // Adds a descriptor or changes what is waited for. Level-triggered. The kernel hears of it at the
  // next wait: libcurl changes its mind with every request.
  void watch(int fd, Interest interest, Watcher& watcher);
  // Also of one that is closed already.
  void unwatch(int fd);
  // Calls the watchers of what is ready; waits for it at most so long.
  void wait(Duration most);
  void wake() const;

 private:
  Poller(int epoll_fd, int wake_fd) : epoll_fd_(epoll_fd), wake_fd_(wake_fd) {}

  struct Watched {
    Watcher* watcher = nullptr;
    Interest wanted = {};
    Interest told = {};
    bool known = false;  // to the kernel
  };

  void tell(int fd, Watched& watched) const;

  int epoll_fd_;
  int wake_fd_;
  std::unordered_map<int, Watched> watched_;
  std::vector<int> changed_;  // since the last wait, maybe
};

}  // namespace berth::kube
