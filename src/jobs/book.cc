// Calls.
#include "jobs/book.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>

#include <fmt/format.h>

#include "base/printable.h"
#include "jobs/record.h"

namespace berth::jobs {

using lease::Now;
using lease::Outcome;
using lease::Refusal;

namespace {

// A lease of a job is renewed by the daemon itself; so much may pass while there is none.
constexpr Duration kTtl{3'600'000};

constexpr std::array<std::pair<State, std::string_view>, 10> kNames{
    {{State::held, "held"},
     {State::waiting, "waiting"},
     {State::starting, "starting"},
     {State::running, "running"},
     {State::ending, "ending"},
     {State::succeeded, "succeeded"},
     {State::failed, "failed"},
     {State::cancelled, "cancelled"},
     {State::timed_out, "timed-out"},
     {State::lost, "lost"}}};

bool sees(const lease::Party& party, const Job& job) {
  return party.admin || party.name == job.who.name;
}

Refusal unknown(std::string_view id) {
  return {.status = 404,
          .code = "unknown-job",
          .field = "id",
          .value = std::string(id.substr(0, 80)),
          .message = fmt::format("no job has the id {}", id.substr(0, 80)),
          .hint = "`berth ps --all` lists the jobs that are known"};
}

}  // namespace

std::string_view state_name(State state) {
  return std::ranges::find(kNames, state, &std::pair<State, std::string_view>::first)->second;
}

std::optional<State> state_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, &std::pair<State, std::string_view>::second);
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

std::size_t bytes_in(const std::vector<std::string>& command,
                     const std::vector<std::string>& environment) {
  std::size_t bytes = 0;
  for (const auto* words : {&command, &environment}) {
    for (const std::string& word : *words) {
      bytes += word.size() + sizeof(word);
    }
  }
  return bytes;
}

bool is_over(State state) { return state >= State::succeeded; }

std::string Job::key() const { return fmt::format("job:{}/{}", id, keys); }

// --- calls ----------------------------------------------------------------------------------

// Whether the caller may hand this in at all.
Outcome<void> Book::check(const lease::Party& party, const Plan& plan) {
  if (!party.local || (options_.may_run_as && !options_.may_run_as(party.uid))) {
    return std::unexpected(Refusal{
        .status = 403,
        .code = "forbidden",
        .field = "caller",
        .value = party.name,
        .message = party.local ? "this daemon runs as another user, and not as root: it cannot run "
                                 "your programs"
                               : "jobs are run for users of this machine, who come over its socket",
        .hint = "reserve a lease and run the program yourself (`berth run`), or ask for the "
                "machine's daemon"});
  }
  for (const std::string& id : plan.after) {
    const std::vector<const Job*> before = named(id);
    if (before.empty() || !sees(party, *before.front())) {
      return std::unexpected(
          Refusal{.status = 400,
                  .code = "invalid-field",
                  .field = "after",
                  .value = id.substr(0, 80),
                  .message = fmt::format("no job has the id {}", id.substr(0, 80)),
                  .hint = "`berth ps --all` lists the jobs that are known"});
    }
  }
  const Range range = plan.array.value_or(Range{});
  const auto count = static_cast<std::size_t>(range.last - range.first + 1);
  if (live_of_[party.name] + count > options_.max_live_per_owner) {
    return std::unexpected(Refusal{.status = 429,
                                   .code = "too-many-waiting",
                                   .message = fmt::format("{} has {} jobs that are not over",
                                                          party.name, live_of_[party.name]),
                                   .hint = "wait until some are over",
                                   .retry_after_s = 60});
  }
  const std::size_t bytes = count * bytes_in(plan.command, plan.environment);
  if (bytes_of_[party.name] + bytes > options_.max_bytes_per_owner) {
    return std::unexpected(Refusal{
        .status = 429,
        .code = "too-many-waiting",
        .field = "environment",
        .message = fmt::format("with these, the commands and environments of the jobs of {} come "
                               "to {} MiB, and {} MiB is the most",
                               party.name, (bytes_of_[party.name] + bytes) >> 20U,
                               options_.max_bytes_per_owner >> 20U),
        .hint = "hand them in from a smaller environment (`env -i`), or wait until some are over",
        .retry_after_s = 60});
  }
  return {};
}

Outcome<std::vector<const Job*>> Book::submit(const lease::Party& party, const Plan& plan,
                                              Now now) {
  if (Outcome<void> checked = check(party, plan); !checked) {
    return std::unexpected(checked.error());
  }
  const Range range = plan.array.value_or(Range{});
  const std::uint64_t number = next_number_++;
  const std::string base = fmt::format("j-{:04x}", number);
  std::vector<const Job*> made;
  for (std::int64_t index = range.first; index <= range.last; ++index) {
    Job job{.number = number,
            .id = plan.array.has_value() ? fmt::format("{}_{}", base, index) : base,
            .array = plan.array.has_value() ? base : "",
            .index = index,
            .at_once = range.at_once};
    job.name = plan.name;
    job.command = plan.command;
    job.environment = plan.environment;
    job.directory = plan.directory;
    job.umask = plan.umask;
    job.after = plan.after;
    job.rule = plan.rule;
    job.max_run = plan.ask.max_run;
    job.grace = plan.grace;
    job.ask = plan.ask;
    job.ask.container = false;
    job.ask.ttl = kTtl;
    job.ask.labels["berth.dev/job"] = job.id;
    job.who = party;
    job.submitted_wall = now.wall;
    Job& added = add(std::move(job));
    created_.insert(added.id);
    made.push_back(&added);
  }
  // What can be known to be impossible is refused at once, and nothing of it stays.
  bool never = false;
  Job& first = *find_mut(made.front()->id);
  if (Round round; held_by(first, round, never).empty()) {
    if (Outcome<void> reserved = reserve(first, now); !reserved) {
      for (const Job* job : std::vector(made)) {
        forget(std::string(job->id));
      }
      return std::unexpected(reserved.error());
    }
  }
  advance(now);
  return made;
}

std::vector<const Job*> Book::named(std::string_view id) const {
  std::vector<const Job*> found;
  if (const Job* job = find(id)) {
    found.push_back(job);
    return found;
  }
  // "j-0007" of an array: its elements stand together.
  std::uint64_t number = 0;
  const std::string_view digits = id.substr(std::min<std::size_t>(id.size(), 2));
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  for (auto at = jobs_.lower_bound({number, INT64_MIN});
       at != jobs_.end() && at->first.first == number && at->second.array == id; ++at) {
    found.push_back(&at->second);
  }
  return found;
}

Outcome<std::vector<const Job*>> Book::read(const lease::Party& party, std::string_view id) const {
  std::vector<const Job*> found = named(id);
  if (found.empty()) {
    return std::unexpected(unknown(id));
  }
  if (!sees(party, *found.front())) {
    return std::unexpected(Refusal{.status = 403,
                                   .code = "forbidden",
                                   .field = "id",
                                   .value = std::string(id),
                                   .message = fmt::format("{} is another user's job", id),
                                   .hint = "its owner or an administrator may see and end it"});
  }
  return found;
}

std::vector<const Job*> Book::list(const lease::Party& party, bool with_ended) const {
  std::vector<const Job*> found;
  for (const auto& [at, job] : jobs_) {
    if (sees(party, job) && (with_ended || !is_over(job.state))) {
      found.push_back(&job);
    }
  }
  return found;
}

Outcome<std::vector<const Job*>> Book::cancel(const lease::Party& party, std::string_view id,
                                              Now now) {
  Outcome<std::vector<const Job*>> found = read(party, id);
  if (!found) {
    return found;
  }
  for (const Job* one : *found) {
    Job& job = *find_mut(one->id);
    switch (job.state) {
      case State::held:
      case State::waiting:
        give_back(job, now);
        over(job, State::cancelled, "cancelled", now);
        break;
      case State::starting:
      case State::running:
      case State::ending:
        if (job.stopped_by != "cancelled") {
          finish(job, "cancelled");
        }
        break;
      default: break;
    }
  }
  advance(now);
  return found;
}

}  // namespace berth::jobs
