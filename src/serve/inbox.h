// Inbox: what the decision thread has to look at, in order of arrival. Thread-safety: any thread
// puts, one takes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "gpu/source.h"
#include "local/processes.h"
#include "net/message.h"
#include "net/reply.h"
#include "serve/job_hands.h"

namespace berth::serve {

struct Asked {
  net::Request request;
  net::Reply reply;
};

struct Left {
  std::uint64_t watch = 0;
};

struct JobPollLeft {
  std::uint64_t poll = 0;
};

struct Seen {
  gpu::Report report;
};

struct ProcessEnded {
  local::ProcessKey process;
};

struct Reload {};

struct Stop {};

using Input = std::variant<Asked, Left, JobPollLeft, Seen, ProcessEnded, JobReport, Reload, Stop>;

class Inbox {
 public:
  void put(Input input) {
    {
      const std::lock_guard lock(mutex_);
      inputs_.push_back(std::move(input));
    }
    ready_.notify_one();
  }

  // Everything there is; waits for something until the time is over.
  std::vector<Input> take(std::optional<std::chrono::milliseconds> most) {
    std::unique_lock lock(mutex_);
    const auto some = [this] { return !inputs_.empty(); };
    if (most.has_value()) {
      ready_.wait_for(lock, *most, some);
    } else {
      ready_.wait(lock, some);
    }
    return std::exchange(inputs_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Input> inputs_;
};

}  // namespace berth::serve
