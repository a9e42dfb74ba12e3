#include "api/job_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "api/body.h"
#include "api/log_followers.h"
#include "api/query.h"
#include "api/read_plan.h"
#include "local/job_log.h"

namespace berth::api {

using json::Value;
using lease::Outcome;
using lease::Refusal;

namespace {

constexpr std::int64_t kMostLog = 1 << 20;
constexpr std::int64_t kMostWait = 60;  // seconds

Value number_or_null(std::int64_t wall) { return wall > 0 ? Value(time_text(wall)) : Value(); }

Value text_or_null(std::string_view text) { return text.empty() ? Value() : Value(text); }

Outcome<JobUntil> read_until(const net::Request& request) {
  const std::string* text = request.query_value("until");
  if (text == nullptr || *text == "over") {
    return JobUntil::over;
  }
  if (*text == "granted") {
    return JobUntil::granted;
  }
  return std::unexpected(bad_query("until", *text, "is granted or over"));
}

}  // namespace

Value job_value(const jobs::Job& job, const lease::Service& service, lease::Now now) {
  json::Array command;
  for (const std::string& word : job.command) {
    command.emplace_back(word);
  }
  json::Array after;
  for (const std::string& id : job.after) {
    after.emplace_back(id);
  }
  const lease::Lease* lease = service.find(job.lease);
  return json::object(
      {{"id", job.id},
       {"name", text_or_null(job.name)},
       {"array", text_or_null(job.array)},
       {"index", job.array.empty() ? Value() : Value(job.index)},
       {"state", jobs::state_name(job.state)},
       {"reason", text_or_null(job.reason)},
       {"exit_code", job.exit_code.has_value() ? Value(*job.exit_code) : Value()},
       {"signal", job.signal.has_value() ? Value(*job.signal) : Value()},
       {"stopped_by", text_or_null(job.stopped_by)},
       {"command", std::move(command)},
       {"directory", job.directory},
       {"after", std::move(after)},
       {"after_rule", job.rule == jobs::AfterRule::any ? "any" : "ok"},
       {"attempt", job.tries},
       {"owner", job.who.name},
       {"submitted_at", time_text(job.submitted_wall)},
       {"started_at", number_or_null(job.started_wall)},
       {"ended_at", number_or_null(job.ended_wall)},
       {"lease", lease != nullptr ? lease_value(service, *lease, now, nullptr) : Value()}});
}

JobCalls::JobCalls(jobs::Book& book, lease::Service& service, JobCallsOptions options)
    : book_(book),
      service_(service),
      node_(std::move(options.node)),
      folder_(std::move(options.folder)),
      followers_(std::make_unique<LogFollowers>()),
      polls_(std::make_unique<JobPolls>(book, std::move(options.left))) {}

JobCalls::~JobCalls() = default;

net::Response JobCalls::jobs_response(int status, const std::vector<const jobs::Job*>& found,
                                      const Moment& moment) const {
  json::Array rows;
  for (const jobs::Job* job : found) {
    rows.push_back(job_value(*job, service_, moment.now));
  }
  return json_response(status, json::object({{"jobs", std::move(rows)}}));
}

struct JobCalls::RouteRow {
  std::string_view method;
  std::string_view path;
  Call call;
};

std::span<const JobCalls::RouteRow> JobCalls::table() {
  static constexpr auto kRoutes = std::to_array<RouteRow>({
      {"POST", "/v1/jobs", &JobCalls::submit},
      {"GET", "/v1/jobs", &JobCalls::list},
      {"GET", "/v1/jobs/{}", &JobCalls::read},
      {"DELETE", "/v1/jobs/{}", &JobCalls::cancel},
      {"GET", "/v1/jobs/{}/log", &JobCalls::log},
  });
  return kRoutes;
}

std::vector<RoutePath> JobCalls::routes() {
  std::vector<RoutePath> paths;
  for (const RouteRow& row : table()) {
    paths.push_back({row.method, row.path});
  }
  return paths;
}

bool JobCalls::handle(const net::Request& request, net::Reply& reply, Api& api,
                      const Moment& moment) {
  std::vector<std::string> allowed;
  for (const RouteRow& row : table()) {
    if (path_matches(row.path, request.segments)) {
      if (row.method == request.method) {
        (this->*row.call)(request, reply, api, moment);
        return true;
      }
      allowed.emplace_back(row.method);
    }
  }
  if (!allowed.empty()) {
    api.answer(std::move(reply), wrong_method(request, allowed));
  }
  return !allowed.empty();
}

void JobCalls::read(const net::Request& request, net::Reply& reply, Api& api,
                    const Moment& moment) {
  const auto refuse = [&](const Refusal& refusal) {
    api.answer(std::move(reply), refusal_response(refusal));
  };
  if (auto known = check_query(request, {"wait", "until"}); !known) {
    return refuse(known.error());
  }
  const auto wait = query_number(request, "wait", 0, kMostWait);
  const Outcome<JobUntil> until = read_until(request);
  const lease::Party party = party_of(request.caller);
  const auto found = book_.read(party, request.segments[2]);
  if (!wait || !until || !found) {
    return refuse(!wait ? wait.error() : !until ? until.error() : found.error());
  }
  const bool there = std::ranges::all_of(
      *found, [&](const jobs::Job* job) { return JobPolls::reached(*job, *until); });
  if (there || wait->value_or(0) == 0) {
    return api.answer(std::move(reply), jobs_response(200, *found, moment));
  }
  polls_->add({.party = party,
               .id = request.segments[2],
               .until = *until,
               .due = moment.real_ms + **wait * 1000},
              std::move(reply));
}

net::Response JobCalls::poll_response(const JobPolls::Poll& poll, const Moment& moment) const {
  const auto found = book_.read(poll.party, poll.id);
  return found ? jobs_response(200, *found, moment) : refusal_response(found.error());
}

void JobCalls::settled(const Moment& moment) {
  polls_->changed(book_.changed(), [&](const JobPolls::Poll& poll, net::Reply reply) {
    reply.send(poll_response(poll, moment));
  });
}

void JobCalls::tick(Api& api, const Moment& moment) {
  polls_->tick(moment.real_ms, [&](const JobPolls::Poll& poll, net::Reply reply) {
    api.answer(std::move(reply), poll_response(poll, moment));
  });
}

std::optional<std::int64_t> JobCalls::next_due_real_ms() const { return polls_->next_due(); }

void JobCalls::client_left(std::uint64_t poll) { polls_->remove(poll); }

void JobCalls::cancel(const net::Request& request, net::Reply& reply, Api& api,
                      const Moment& moment) {
  if (auto known = check_query(request, {}); !known) {
    return api.answer(std::move(reply), refusal_response(known.error()));
  }
  const auto found = book_.cancel(party_of(request.caller), request.segments[2], moment.now);
  api.answer(std::move(reply),
             found ? jobs_response(200, *found, moment) : refusal_response(found.error()));
}

void JobCalls::submit(const net::Request& request, net::Reply& reply, Api& api,
                      const Moment& moment) {
  const lease::Party party = party_of(request.caller);
  const Outcome<Value> body = read_body(request.body);
  if (!body) {
    return api.answer(std::move(reply), refusal_response(body.error()));
  }
  const Outcome<jobs::Plan> plan = read_plan(*body, party, node_);
  if (!plan) {
    return api.answer(std::move(reply), refusal_response(plan.error()));
  }
  const auto made = book_.submit(party, *plan, moment.now);
  api.answer(std::move(reply),
             made ? jobs_response(201, *made, moment) : refusal_response(made.error()));
}

void JobCalls::list(const net::Request& request, net::Reply& reply, Api& api,
                    const Moment& moment) {
  if (auto known = check_query(request, {"all"}); !known) {
    return api.answer(std::move(reply), refusal_response(known.error()));
  }
  const Outcome<bool> all = query_flag(request, "all");
  api.answer(std::move(reply),
             all ? jobs_response(200, book_.list(party_of(request.caller), *all), moment)
                 : refusal_response(all.error()));
}

void JobCalls::log(const net::Request& request, net::Reply& reply, Api& api,
                   const Moment& /*moment*/) {
  const auto refuse = [&](const Refusal& refusal) {
    api.answer(std::move(reply), refusal_response(refusal));
  };
  if (auto known = check_query(request, {"offset", "limit", "follow"}); !known) {
    return refuse(known.error());
  }
  const auto offset = query_number(request, "offset", INT64_MIN / 2, INT64_MAX / 2);
  const auto limit = query_number(request, "limit", 1, kMostLog);
  const Outcome<bool> follow = query_flag(request, "follow");
  if (!offset || !limit || !follow) {
    return refuse(!offset ? offset.error() : !limit ? limit.error() : follow.error());
  }
  const auto found = book_.read(party_of(request.caller), request.segments[2]);
  if (!found) {
    return refuse(found.error());
  }
  if (found->size() > 1) {
    return refuse({.status = 400,
                   .code = "invalid-field",
                   .field = "id",
                   .value = request.segments[2],
                   .message = fmt::format("{} is an array of {} jobs, each with a log of its own",
                                          request.segments[2], found->size()),
                   .hint = fmt::format("name one of them: {}", found->front()->id)});
  }
  const std::string folder = folder_(*found->front());
  net::Response response;
  response.content_type = "application/octet-stream";
  if (*follow) {
    if (folder.empty()) {
      return refuse({.status = 409,
                     .code = "not-started",
                     .field = "id",
                     .value = found->front()->id,
                     .message = fmt::format("{} is {}: it has no log yet", found->front()->id,
                                            jobs::state_name(found->front()->state)),
                     .hint = "ask again when it runs"});
    }
    std::shared_ptr<net::Stream> stream = reply.stream(std::move(response));
    followers_->add(folder, offset->value_or(0), std::move(stream));
    return;
  }
  local::LogPart part;
  if (!folder.empty()) {
    part = local::read_log(folder, offset->value_or(0),
                           static_cast<std::size_t>(limit->value_or(kMostLog)));
  }
  response.headers.emplace_back("Berth-Log-Offset", std::to_string(part.offset));
  response.headers.emplace_back("Berth-Log-End", std::to_string(part.end));
  response.body = std::move(part.bytes);
  api.answer(std::move(reply), std::move(response));
}

}  // namespace berth::api
