#include "jobs/record.h"

#include <fmt/format.h>

#include "jobs/job.h"
#include "json/value.h"
#include "lease/record.h"

namespace berth::jobs {

using json::Value;

namespace {

Value words(const std::vector<std::string>& list) {
  json::Array array;
  for (const std::string& word : list) {
    array.emplace_back(word);
  }
  return array;
}

Result<std::vector<std::string>> read_words(const Value& value, std::string_view name) {
  std::vector<std::string> list;
  const Value* array = value.find(name);
  if (array == nullptr || !array->is_array()) {
    return invalid_argument(fmt::format("record of a job: {} is not a list", name));
  }
  for (const Value& word : array->as_array()) {
    if (!word.is_string()) {
      return invalid_argument(fmt::format("record of a job: {} holds other than words", name));
    }
    list.push_back(word.as_string());
  }
  return list;
}

// What is asked for is written as a lease that waits for it: one form of a request in the journal.
std::string ask_text(const Job& job) {
  lease::Lease lease;
  lease.number = 1;
  lease.id = "l-0001";
  lease.ask = job.ask;
  lease.ask.key = "-";
  lease.principal = job.who.name;
  return lease::lease_record(lease);
}

std::optional<int> small(const Value& value, std::string_view name) {
  const Value* found = value.find(name);
  return found != nullptr && found->is_integer()
             ? std::optional(static_cast<int>(found->as_integer()))
             : std::nullopt;
}

}  // namespace

std::string job_record(const Job& job) {
  Value value = json::object({{"v", 1},
                              {"number", static_cast<std::int64_t>(job.number)},
                              {"id", job.id},
                              {"array", job.array},
                              {"index", job.index},
                              {"at_once", job.at_once},
                              {"name", job.name},
                              {"command", words(job.command)},
                              {"environment", words(job.environment)},
                              {"directory", job.directory},
                              {"umask", job.umask},
                              {"after", words(job.after)},
                              {"any", job.rule == AfterRule::any},
                              {"ask", ask_text(job)},
                              {"who", job.who.name},
                              {"admin", job.who.admin},
                              {"uid", job.who.uid},
                              {"gid", job.who.gid},
                              {"state", state_name(job.state)},
                              {"reason", job.reason},
                              {"lease", job.lease},
                              {"tries", job.tries},
                              {"keys", job.keys},
                              {"grace", job.grace.count()},
                              {"stopped_by", job.stopped_by},
                              {"submitted", job.submitted_wall},
                              {"started", job.started_wall},
                              {"ended", job.ended_wall}});
  if (job.max_run.has_value()) {
    value.set("max_run", job.max_run->count());
  }
  if (job.exit_code.has_value()) {
    value.set("exit_code", *job.exit_code);
  }
  if (job.signal.has_value()) {
    value.set("signal", *job.signal);
  }
  return json::dump(value);
}

Result<Job> read_job(std::string_view body) {
  TRY(const Value value, json::parse(body));
  if (value.integer("v") != 1) {
    return invalid_argument("record of a job: of another version");
  }
  Job job;
  const std::optional<State> state = state_from_name(value.text("state"));
  if (!state.has_value() || value.text("id").empty() || value.integer("number") <= 0) {
    return invalid_argument("record of a job: id, number or state is missing");
  }
  TRY(const lease::Lease asked, lease::read_lease(value.text("ask")));
  TRY(job.command, read_words(value, "command"));
  TRY(job.environment, read_words(value, "environment"));
  TRY(job.after, read_words(value, "after"));
  job.number = static_cast<std::uint64_t>(value.integer("number"));
  job.id = value.text("id");
  job.array = value.text("array");
  job.index = value.integer("index");
  job.at_once = value.integer("at_once");
  job.name = value.text("name");
  job.directory = value.text("directory");
  job.umask = static_cast<std::uint32_t>(value.integer("umask"));
  job.rule = value.flag("any") ? AfterRule::any : AfterRule::ok;
  job.ask = asked.ask;
  job.who = {.name = std::string(value.text("who")),
             .admin = value.flag("admin"),
             .local = true,
             .uid = static_cast<std::uint32_t>(value.integer("uid")),
             .gid = static_cast<std::uint32_t>(value.integer("gid"))};
  job.state = *state;
  job.reason = value.text("reason");
  job.lease = value.text("lease");
  job.tries = value.integer("tries");
  job.keys = value.integer("keys");
  job.grace = Duration(value.integer("grace", 30'000));
  job.stopped_by = value.text("stopped_by");
  job.submitted_wall = value.integer("submitted");
  job.started_wall = value.integer("started");
  job.ended_wall = value.integer("ended");
  if (const Value* most = value.find("max_run"); most != nullptr && most->is_integer()) {
    job.max_run = Duration(most->as_integer());
  }
  job.exit_code = small(value, "exit_code");
  job.signal = small(value, "signal");
  return job;
}

}  // namespace berth::jobs
