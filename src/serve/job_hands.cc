#include "serve/job_hands.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace berth::serve {

namespace fs = std::filesystem;

JobHands::JobHands(std::string folder, Tell tell)
    : folder_(std::move(folder)), tell_(std::move(tell)) {
  thread_ = std::thread([this] { run(); });
}

JobHands::~JobHands() { stop(); }

void JobHands::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::string JobHands::attempt_folder(std::string_view job, std::int64_t attempt) const {
  return attempt <= 0 ? std::string() : fmt::format("{}/{}/{}", folder_, job, attempt);
}

void JobHands::put(jobs::Deed deed, local::JobSpec spec) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({.deed = std::move(deed), .spec = std::move(spec), .only_look = false});
  wake_.notify_all();
}

void JobHands::look(std::string job, std::int64_t attempt) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(
      {.deed = {.job = std::move(job), .attempt = attempt}, .spec = {}, .only_look = true});
  wake_.notify_all();
}

void JobHands::run() {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) {
        return;
      }
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    carry_out(work);
  }
}

void JobHands::carry_out(const Work& work) {
  const std::string& job = work.deed.job;
  const std::string folder = attempt_folder(job, work.deed.attempt);
  std::error_code error;
  const auto tell = [&](Result<local::JobStatus> status) {
    tell_({.job = job, .attempt = work.deed.attempt, .status = std::move(status)});
  };
  if (work.only_look) {
    tell(jobs_.adopt(folder));
    return;
  }
  switch (work.deed.kind) {
    case jobs::Deed::Kind::start:
      fs::create_directories(fs::path(folder).parent_path(), error);
      fs::permissions(folder_, fs::perms::owner_all, error);
      if (Result<local::JobStatus> started = jobs_.start(folder, work.spec);
          started || started.error().code() != ErrorCode::already_exists) {
        tell(std::move(started));
      } else {
        tell(jobs_.adopt(folder));
      }
      break;
    case jobs::Deed::Kind::adopt: tell(jobs_.adopt(folder)); break;
    case jobs::Deed::Kind::finish:
      // One that is over, or never was, is found to be so.
      if (!jobs_.terminate(folder, work.deed.grace, work.deed.reason)) {
        tell(jobs_.status(folder));
      }
      break;
    case jobs::Deed::Kind::forget: fs::remove_all(fmt::format("{}/{}", folder_, job), error); break;
  }
}

}  // namespace berth::serve
