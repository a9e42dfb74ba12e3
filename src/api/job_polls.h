// Clients that wait for jobs: long polls of GET /v1/jobs/{id}?wait=S. Private to JobCalls.
//
// Thread-safety: the decision thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "jobs/book.h"
#include "net/reply.h"

namespace berth::api {

enum class JobUntil : std::uint8_t { granted, over };

class JobPolls {
 public:
  // Who asked for what. `id`: of a job or of an array, all of which must get there.
  struct Poll {
    lease::Party party = {};
    std::string id = {};
    JobUntil until = JobUntil::over;
    std::int64_t due = 0;  // real ms
  };

  // `left` is called with a poll's number when its client has gone. Any thread.
  JobPolls(const jobs::Book& book, std::function<void(std::uint64_t)> left)
      : book_(book), left_(std::move(left)) {}

  static bool reached(const jobs::Job& job, JobUntil until);

  void add(Poll poll, net::Reply reply);
  void remove(std::uint64_t number);
  using Tell = std::function<void(const Poll& poll, net::Reply reply)>;
  // Tells those whose jobs have got there, of the jobs that changed.
  void changed(const std::set<std::string>& jobs, const Tell& tell);
  // Tells those whose time is over.
  void tick(std::int64_t real_ms, const Tell& tell);
  std::optional<std::int64_t> next_due() const;

 private:
  struct Waiting {
    Poll poll;
    net::Reply reply;
  };

  void tell(std::uint64_t number, const Tell& tell);

  const jobs::Book& book_;
  std::function<void(std::uint64_t)> left_;
  std::map<std::uint64_t, Waiting> polls_;
  std::map<std::string, std::set<std::uint64_t>, std::less<>> of_;  // by the id that was asked for
  std::set<std::pair<std::int64_t, std::uint64_t>> due_;
  std::uint64_t last_ = 0;
};

}  // namespace berth::api
