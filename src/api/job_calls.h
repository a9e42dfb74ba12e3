// The calls under /v1/jobs, over a jobs::Book.
//
// A log is read from the job's folder; one that is followed is a stream, which a thread of its own
// keeps feeding until the job has ended. Thread-safety: the decision thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/api.h"
#include "jobs/book.h"
#include "json/value.h"
#include "net/message.h"
#include "net/reply.h"

namespace berth::api {

json::Value job_value(const jobs::Job& job, const lease::Service& service, lease::Now now);

class LogFollowers;

class JobCalls {
 public:
  // `folder`: where a job's latest attempt is; empty: it was never started.
  using Folder = std::function<std::string(const jobs::Job&)>;
  JobCalls(jobs::Book& book, lease::Service& service, std::string node, Folder folder);
  ~JobCalls();
  JobCalls(const JobCalls&) = delete;
  JobCalls& operator=(const JobCalls&) = delete;

  // False: not one of these calls.
  bool handle(const net::Request& request, net::Reply& reply, Api& api, const Moment& moment);
  static std::vector<RoutePath> routes();

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

  jobs::Book& book_;
  lease::Service& service_;
  std::string node_;
  Folder folder_;
  std::unique_ptr<LogFollowers> followers_;
};

}  // namespace berth::api
