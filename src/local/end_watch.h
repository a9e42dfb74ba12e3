// EndWatch: learns of the ends of processes, also of those that are no children, without polling
// /proc.
//
//   EndWatch watch;
//   if (!watch.add(proof.process)) …           // has ended already
//   for (const ProcessKey& ended : watch.wait(Duration(1000))) …
//
// Or with a loop of one's own: fd() is readable whenever wait(Duration(0)) has something to tell.
// Each end is told once. Uses pidfds (Linux 5.3); where the kernel has none the processes are
// looked at every 100 ms instead.
//
// Thread-safety: every call may be made from any thread; one thread at a time waits.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/quantity.h"
#include "local/processes.h"

namespace berth::local {

class EndWatch {
 public:
  enum class Method : std::uint8_t { pidfd, looking };

  // `method`: looking is for kernels without pidfds and for tests; it is chosen when needed.
  explicit EndWatch(Method method = Method::pidfd);
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;
  ~EndWatch();

  // False: the process has already ended (also if its pid belongs to another one now); nothing will
  // be told of it. Adding one twice is the same as once.
  bool add(const ProcessKey& process);

  // Nothing will be told of it any more.
  void remove(const ProcessKey& process);

  // Waits until at least one has ended, `interrupt` was called or the time is over.
  std::vector<ProcessKey> wait(Duration most);

  // Ends a wait, the present or the next one.
  void interrupt() const;

  int fd() const { return epoll_; }

 private:
  void forget(std::map<ProcessKey, int>::iterator process);
  void arm_timer() const;

  int epoll_ = -1;
  int interrupt_ = -1;
  int timer_ = -1;  // ticks while processes are looked at
  std::mutex mutex_;
  Method method_;
  std::map<ProcessKey, int> watched_;           // their pidfds; -1: looked at
  std::map<std::uint64_t, ProcessKey> by_tag_;  // tags are never given twice
  std::map<ProcessKey, std::uint64_t> tags_;
  std::uint64_t last_tag_ = 1;
};

}  // namespace berth::local
