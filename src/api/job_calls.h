// The calls under /v1/jobs, over a jobs::Book.
//
// A log is read from the job's folder; one that is followed is a stream, which a thread of its own
// keeps feeding until the job has ended. Who waits for a job (a long poll) is told by settled(),
// when what has become of it is on disk. Thread-safety: the decision thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/api.h"
#include "api/job_polls.h"
#include "jobs/book.h"
#include "json/value.h"
#include "net/message.h"
#include "net/reply.h"

namespace berth::api {

json::Value job_value(const jobs::Job& job, const lease::Service& service, lease::Now now);

class LogFollowers;

struct JobCallsOptions {
  std::string node = {};  // this machine's name in the fleet
  // Where a job's latest attempt is; empty: it was never started.
  std::function<std::string(const jobs::Job&)> folder = {};
  // Called with the poll's number when the client of a long poll has left. Any thread.
  std::function<void(std::uint64_t)> left = {};
};

// Of POST /v1/jobs, whose body carries an environment; other bodies: net::ServerOptions.
inline constexpr std::size_t kMostSubmission = std::size_t{1024} * 1024;

class JobCalls {
 public:
  JobCalls(jobs::Book& book, lease::Service& service, JobCallsOptions options);
  ~JobCalls();
  JobCalls(const JobCalls&) = delete;
  JobCalls& operator=(const JobCalls&) = delete;

  // False: not one of these calls.
  bool handle(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  static std::vector<RoutePath> routes();

  // After the commit, before jobs::Book::settled.
  void settled(const Moment& moment);
  // Long polls whose time is over.
  void tick(Api& api, const Moment& moment);
  std::optional<std::int64_t> next_due_real_ms() const;
  void client_left(std::uint64_t poll);

 private:
  using Call = void (JobCalls::*)(const net::Request&, net::Reply&, Api&, const Moment&);
  struct RouteRow;
  static std::span<const RouteRow> table();

  void submit(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  void list(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  void read(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  void cancel(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  void log(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  net::Response jobs_response(int status, const std::vector<const jobs::Job*>& found,
                              const Moment& moment) const;

  net::Response poll_response(const JobPolls::Poll& poll, const Moment& moment) const;

  jobs::Book& book_;
  lease::Service& service_;
  std::string node_;
  std::function<std::string(const jobs::Job&)> folder_;
  std::unique_ptr<LogFollowers> followers_;
  std::unique_ptr<JobPolls> polls_;
};

}  // namespace berth::api
