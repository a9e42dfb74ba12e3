#include "api/log_followers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "local/job.h"
#include "local/job_log.h"

namespace berth::api {

namespace {

constexpr std::chrono::milliseconds kPeriod{100};
constexpr std::size_t kPiece = std::size_t{64} * 1024;

}  // namespace

LogFollowers::~LogFollowers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void LogFollowers::add(std::string folder, std::int64_t offset,
                       std::shared_ptr<net::Stream> stream) {
  const std::lock_guard lock(mutex_);
  added_.push_back({std::move(folder), offset, std::move(stream)});
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { feed_all(); });
  }
  wake_.notify_all();
}

bool LogFollowers::feed(Follower& follower) {
  // Whether it has ended is asked first: what it printed before its end is then in the log.
  const local::JobStatus status = local::Jobs({}).status(follower.folder);
  const bool over = status.phase == local::JobPhase::ended && !status.supervised;
  while (follower.stream->open()) {
    const std::size_t room = std::min(follower.stream->room(), kPiece);
    if (room == 0) {
      return true;  // the client is slow; the log waits
    }
    local::LogPart part = local::read_log(follower.folder, follower.offset, room);
    follower.offset = part.offset + static_cast<std::int64_t>(part.bytes.size());
    if (part.bytes.empty()) {
      break;
    }
    if (!follower.stream->write(std::move(part.bytes))) {
      return false;
    }
  }
  if (over || !follower.stream->open()) {
    follower.stream->close();
    return false;
  }
  return true;
}

void LogFollowers::feed_all() {
  std::vector<Follower> all;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (all.empty()) {
        wake_.wait(lock, [this] { return stopping_ || !added_.empty(); });
      } else {
        wake_.wait_for(lock, kPeriod, [this] { return stopping_ || !added_.empty(); });
      }
      if (stopping_) {
        return;
      }
      std::ranges::move(std::exchange(added_, {}), std::back_inserter(all));
    }
    std::erase_if(all, [](Follower& follower) { return !feed(follower); });
  }
}

}  // namespace berth::api
