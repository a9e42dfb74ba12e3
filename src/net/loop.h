// One thread that waits for descriptors, for messages from other threads and for time to pass.
//
// epoll by itself, level-triggered: it tells a peer that has gone (EPOLLHUP) from one that has only
// finished sending, and a watched descriptor costs nothing here while it waits. Thread-safety:
// Mailbox is for any thread; the rest for the loop's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace berth::net {

using Task = std::move_only_function<void()>;

// Milliseconds of the monotonic clock.
std::int64_t now_ms();

// Work for the loop from any thread. Outlives it: what is posted after close() is dropped.
class Mailbox {
 public:
  explicit Mailbox(int wake_fd) : wake_fd_(wake_fd) {}

  // False: closed, the task was destroyed.
  bool post(Task task);
  std::vector<Task> take();
  void close();

 private:
  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool closed_ = false;
  int wake_fd_;  // an eventfd of the loop; not touched once closed
};

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void on_events(std::uint32_t events) = 0;
};

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> make();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Result<void> watch(int fd, std::uint32_t events, Watcher& watcher) const;
  void change(int fd, std::uint32_t events, Watcher& watcher) const;
  // The watcher may still get events of the round that is being dealt with.
  void unwatch(int fd) const;

  // Calls `tick` about every `interval_ms` while `wanted` says so, asked before each wait.
  void every(std::int64_t interval_ms, std::function<bool()> wanted, std::function<void()> tick);
  // Called after each round: the place to destroy watchers.
  void after_round(std::function<void()> callback) { after_round_ = std::move(callback); }

  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  // Until quit(), which is called on the loop's thread.
  void run();
  void quit() { quit_ = true; }

 private:
  Loop(int epoll_fd, int wake_fd);
  int wait_ms() const;
  void run_tasks();
  void run_tick();

  int epoll_fd_;
  int wake_fd_;
  std::shared_ptr<Mailbox> mailbox_;
  std::int64_t interval_ms_ = 1000;
  std::int64_t next_tick_ms_ = 0;  // 0: none is due
  std::function<bool()> tick_wanted_;
  std::function<void()> tick_;
  std::function<void()> after_round_;
  bool quit_ = false;
};

}  // namespace berth::net
