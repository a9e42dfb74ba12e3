#include "api/job_calls.h"

#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "api/log_followers.h"
#include "api/query.h"
#include "api/read_reserve.h"
#include "local/job_log.h"

namespace berth::api {

using json::Value;
using lease::Outcome;
using lease::Refusal;

namespace {

constexpr std::int64_t kMostElements = 10'000;
constexpr std::int64_t kMostLog = 1 << 20;

Value number_or_null(std::int64_t wall) { return wall > 0 ? Value(time_text(wall)) : Value(); }

Value text_or_null(std::string_view text) { return text.empty() ? Value() : Value(text); }

// "0-15", "0-15%4", "7".
std::optional<jobs::Range> read_range(std::string_view text) {
  jobs::Range range;
  const auto number = [&](std::int64_t& into) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    const bool good = error == std::errc() && into >= 0 && into <= 1'000'000;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return good;
  };
  if (!number(range.first)) {
    return std::nullopt;
  }
  range.last = range.first;
  if (text.starts_with('-')) {
    text.remove_prefix(1);
    if (!number(range.last)) {
      return std::nullopt;
    }
  }
  if (text.starts_with('%')) {
    text.remove_prefix(1);
    if (!number(range.at_once) || range.at_once == 0) {
      return std::nullopt;
    }
  }
  const bool sane =
      text.empty() && range.last >= range.first && range.last - range.first < kMostElements;
  return sane ? std::optional(range) : std::nullopt;
}

Outcome<std::vector<std::string>> read_words(const Value& body, std::string_view name,
                                             std::string_view rule) {
  std::vector<std::string> words;
  const Value* list = body.find(name);
  if (list == nullptr || list->is_null()) {
    return words;
  }
  const auto bad = [&](const Value& value) {
    return std::unexpected(bad_field(name, value, fmt::format("{} is {}", name, rule),
                                     "send a list of strings without NUL"));
  };
  if (!list->is_array()) {
    return bad(*list);
  }
  for (const Value& word : list->as_array()) {
    if (!word.is_string() || word.as_string().find('\0') != std::string::npos) {
      return bad(word);
    }
    words.push_back(word.as_string());
  }
  return words;
}

Outcome<std::string> read_text(const Value& body, std::string_view name, std::size_t most) {
  const Value* text = body.find(name);
  if (text == nullptr || text->is_null()) {
    return std::string();
  }
  if (!text->is_string() || text->as_string().size() > most ||
      text->as_string().find('\0') != std::string::npos) {
    return std::unexpected(bad_field(name, *text,
                                     fmt::format("{} is a string of at most {} bytes", name, most),
                                     "leave it out where there is none"));
  }
  return text->as_string();
}

Outcome<jobs::Plan> read_plan(const Value& body, const lease::Party& party, std::string_view node) {
  static constexpr auto kKnown =
      std::to_array<std::string_view>({"name", "command", "environment", "directory", "umask",
                                       "after", "after_rule", "array", "grace_seconds", "lease"});
  if (auto known = check_fields(body, kKnown); !known) {
    return std::unexpected(known.error());
  }
  jobs::Plan plan;
  auto command = read_words(body, "command", "the program and its words");
  auto environment = read_words(body, "environment", "a list of NAME=value");
  auto after = read_words(body, "after", "a list of ids of jobs");
  auto name = read_text(body, "name", 128);
  auto directory = read_text(body, "directory", 4096);
  auto array = read_text(body, "array", 64);
  auto rule = read_text(body, "after_rule", 8);
  for (const auto* words : {&command, &environment, &after}) {
    if (!*words) {
      return std::unexpected(words->error());
    }
  }
  for (const auto* text : {&name, &directory, &array, &rule}) {
    if (!*text) {
      return std::unexpected(text->error());
    }
  }
  if (command->empty() || command->front().empty()) {
    return std::unexpected(bad_field("command", Value(),
                                     "command is the program to run, and required",
                                     "send {\"command\": [\"python3\", \"train.py\"]}"));
  }
  if (!directory->starts_with('/')) {
    return std::unexpected(bad_field("directory", *directory,
                                     "directory is an absolute path, and required",
                                     "send the directory in which the program is to run"));
  }
  if (!rule->empty() && *rule != "ok" && *rule != "any") {
    return std::unexpected(bad_field("after_rule", *rule, "after_rule is ok or any",
                                     "ok: all of them succeeded; any: all of them are over"));
  }
  if (!array->empty()) {
    plan.array = read_range(*array);
    if (!plan.array.has_value()) {
      return std::unexpected(bad_field(
          "array", *array, "array is FIRST-LAST or FIRST-LAST%AT_ONCE, at most 10000 elements",
          "0-15%4: sixteen elements, four at once"));
    }
  }
  if (const Value* umask = body.find("umask"); umask != nullptr && umask->is_integer()) {
    plan.umask = static_cast<std::uint32_t>(umask->as_integer()) & 0777U;
  }
  if (const Value* grace = body.find("grace_seconds"); grace != nullptr && !grace->is_null()) {
    if (!grace->is_integer() || grace->as_integer() < 0 || grace->as_integer() > 86'400) {
      return std::unexpected(bad_field("grace_seconds", *grace,
                                       "grace_seconds is a whole number from 0 to 86400",
                                       "leave it out for 30"));
    }
    plan.grace = Duration(grace->as_integer() * 1000);
  }
  Value wanted = json::object();
  if (const Value* lease = body.find("lease"); lease != nullptr && !lease->is_null()) {
    if (!lease->is_object() || lease->find("key") != nullptr) {
      return std::unexpected(bad_field("lease", *lease,
                                       "lease holds the fields of POST /v1/leases without key",
                                       "send {\"lease\": {\"memory\": \"4GiB\"}}"));
    }
    wanted = *lease;
  }
  wanted.set("key", "job");
  Outcome<Reserve> reserve = read_reserve(wanted, party, {.node = node});
  if (!reserve) {
    return std::unexpected(reserve.error());
  }
  plan.name = *name;
  plan.command = *command;
  plan.environment = *environment;
  plan.directory = *directory;
  plan.after = *after;
  plan.rule = *rule == "any" ? jobs::AfterRule::any : jobs::AfterRule::ok;
  plan.ask = std::move(reserve->ask);
  return plan;
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

JobCalls::JobCalls(jobs::Book& book, lease::Service& service, std::string node, Folder folder)
    : book_(book),
      service_(service),
      node_(std::move(node)),
      folder_(std::move(folder)),
      followers_(std::make_unique<LogFollowers>()) {}

JobCalls::~JobCalls() = default;

net::Response JobCalls::jobs_response(int status, const std::vector<const jobs::Job*>& found,
                                      const Moment& moment) const {
  json::Array rows;
  for (const jobs::Job* job : found) {
    rows.push_back(job_value(*job, service_, moment.now));
  }
  return json_response(status, json::object({{"jobs", std::move(rows)}}));
}

bool JobCalls::handle(const net::Request& request, net::Reply& reply, Api& api,
                      const Moment& moment) {
  const std::vector<std::string>& path = request.segments;
  if (path.size() < 2 || path[0] != "v1" || path[1] != "jobs") {
    return false;
  }
  const lease::Party party = party_of(request.caller);
  if (path.size() == 2 && request.method == "POST") {
    submit(request, reply, api, moment);
  } else if (path.size() == 2 && request.method == "GET") {
    list(request, reply, api, moment);
  } else if (path.size() == 3 && (request.method == "GET" || request.method == "DELETE")) {
    const auto found = request.method == "GET" ? book_.read(party, path[2])
                                               : book_.cancel(party, path[2], moment.now);
    api.answer(std::move(reply),
               found ? jobs_response(200, *found, moment) : refusal_response(found.error()));
  } else if (path.size() == 4 && path[3] == "log" && request.method == "GET") {
    log(request, reply, api);
  } else {
    return false;
  }
  return true;
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
  const std::string* all = request.query_value("all");
  api.answer(std::move(reply),
             jobs_response(200, book_.list(party_of(request.caller), all != nullptr && *all != "0"),
                           moment));
}

void JobCalls::log(const net::Request& request, net::Reply& reply, Api& api) {
  const auto refuse = [&](const Refusal& refusal) {
    api.answer(std::move(reply), refusal_response(refusal));
  };
  if (auto known = check_query(request, {"offset", "limit", "follow"}); !known) {
    return refuse(known.error());
  }
  const auto offset = query_number(request, "offset", INT64_MIN / 2, INT64_MAX / 2);
  const auto limit = query_number(request, "limit", 1, kMostLog);
  if (!offset || !limit) {
    return refuse(!offset ? offset.error() : limit.error());
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
  const std::string* follow = request.query_value("follow");
  net::Response response;
  response.content_type = "application/octet-stream";
  if (follow != nullptr && *follow != "0") {
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
