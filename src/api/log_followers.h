// LogFollowers: streams that get what jobs print, as they print it. One thread, which starts with
// the first stream and ends with the object. Thread-safety: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/reply.h"

namespace berth::api {

class LogFollowers {
 public:
  LogFollowers() = default;
  ~LogFollowers();
  LogFollowers(const LogFollowers&) = delete;
  LogFollowers& operator=(const LogFollowers&) = delete;

  // `offset` as for local::read_log. The stream ends when the job has and everything was sent.
  void add(std::string folder, std::int64_t offset, std::shared_ptr<net::Stream> stream);

 private:
  struct Follower {
    std::string folder;
    std::int64_t offset = 0;
    std::shared_ptr<net::Stream> stream;
  };

  void feed_all();
  static bool feed(Follower& follower);  // false: it is done

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Follower> added_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace berth::api
