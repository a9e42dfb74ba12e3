// JobHands: carries out what the book of jobs decided, on a thread of its own, since starting a
// program may take as long as a disk does. What it found goes to the decision thread.
//
// Deeds of all jobs are done one after the other, so that a job is never told to end before its
// start was tried. Thread-safety: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "jobs/book.h"
#include "local/job.h"

namespace berth::serve {

struct JobReport {
  std::string job;
  std::int64_t attempt = 0;
  Result<local::JobStatus> status = local::JobStatus{};
};

class JobHands {
 public:
  using Tell = std::function<void(JobReport)>;

  // `folder`: below it each job has one, and in that each attempt.
  JobHands(std::string folder, Tell tell);
  ~JobHands();
  JobHands(const JobHands&) = delete;
  JobHands& operator=(const JobHands&) = delete;

  // `spec` for Deed::start only.
  void put(jobs::Deed deed, local::JobSpec spec);
  // What has become of it, without a supervisor if it has none.
  void look(std::string job, std::int64_t attempt);
  // Lets what is being done come to its end, and does no more.
  void stop();

  std::string attempt_folder(std::string_view job, std::int64_t attempt) const;

 private:
  struct Work {
    jobs::Deed deed;
    local::JobSpec spec;
    bool only_look = false;
  };

  void run();
  void carry_out(const Work& work);

  std::string folder_;
  Tell tell_;
  local::Jobs jobs_{{}};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace berth::serve
