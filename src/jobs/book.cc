// Calls, and the life of a job.
#include "jobs/book.h"

#include <algorithm>
#include <array>
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
  if (held_by(first, never).empty()) {
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
  // The elements of an array stand together.
  for (const auto& [at, job] : jobs_) {
    if (job.array == id) {
      found.push_back(&job);
    }
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

// --- life -----------------------------------------------------------------------------------

std::string Book::held_by(const Job& job, bool& never) const {
  for (const std::string& id : job.after) {
    const std::vector<const Job*> before = named(id);
    for (const Job* other : before) {
      if (!is_over(other->state)) {
        return fmt::format("waits for the end of {}", other->id);
      }
      if (job.rule == AfterRule::ok && other->state != State::succeeded) {
        never = true;
        return fmt::format("{}, which it was to follow, is {}", other->id,
                           state_name(other->state));
      }
    }
  }
  if (job.at_once > 0) {
    std::int64_t going = 0;
    for (const Job* other : named(job.array)) {
      going += other->state != State::held && !is_over(other->state) ? 1 : 0;
    }
    if (going >= job.at_once) {
      return fmt::format("{} of its array go already, which is the limit", going);
    }
  }
  return {};
}

// Lets go whatever was held and no longer has to be.
void Book::advance(Now now) {
  bool more = true;
  while (more) {  // one that can never go may be what another one follows
    more = false;
    for (const std::string& id : std::vector<std::string>(held_.begin(), held_.end())) {
      Job& job = *find_mut(id);
      if (job.state != State::held) {
        continue;
      }
      bool never = false;
      std::string why = held_by(job, never);
      if (never) {
        over(job, State::cancelled, std::move(why), now);
        more = true;
      } else if (!why.empty()) {
        if (why != job.reason) {
          become(job, State::held, std::move(why));
        }
      } else if (Outcome<void> done = reserve(job, now); !done) {
        if (done.error().status >= 429) {  // later: too many of the owner's wait, or no journal
          become(job, State::held, done.error().message);
        } else {
          over(job, State::failed, done.error().message, now);
          more = true;
        }
      }
    }
  }
}

Outcome<void> Book::reserve(Job& job, Now now) {
  lease::Ask ask = job.ask;
  ask.key = job.key();
  Outcome<lease::Reserved> reserved = service_.reserve(job.who, std::move(ask), now);
  if (reserved && !lease::is_live(reserved->lease->state)) {
    // Its last lease under this key ended as it should have: the next is another one.
    ++job.keys;
    ask = job.ask;
    ask.key = job.key();
    reserved = service_.reserve(job.who, std::move(ask), now);
  }
  if (!reserved) {
    return std::unexpected(reserved.error());
  }
  job.lease = reserved->lease->id;
  by_lease_[job.lease] = job.id;
  reserved_.insert(job.id);
  held_.erase(job.id);
  become(job, State::waiting, "");
  service_.watching(job.lease, true, now);
  return {};
}

// What has become of its lease, as it is on disk.
void Book::follow(Job& job, Now now) {
  const lease::Lease* lease = service_.find(job.lease);
  const bool holds = lease != nullptr && lease::holds(lease->state);
  switch (job.state) {
    case State::waiting:
      if (holds) {
        begin(job);
      } else if (lease == nullptr || !lease::is_live(lease->state)) {
        const bool asked = lease != nullptr && (lease->state == lease::State::cancelled ||
                                                lease->state == lease::State::released);
        const bool late = lease != nullptr && lease->state == lease::State::timed_out;
        const bool never = lease != nullptr && lease->state == lease::State::never;
        if (asked || late || never) {
          over(job,
               asked  ? State::cancelled
               : late ? State::timed_out
                      : State::failed,
               asked ? "its lease was cancelled" : lease->message, now);
          advance_due_ = true;
        } else {
          again(job, "its lease was lost", now);
        }
      }
      break;
    case State::starting:
    case State::running:
      if (lease != nullptr && lease->evicting.has_value() && job.stopped_by.empty()) {
        finish(job, "evicted");
        job.reason = lease->evicting->text;
      } else if (!holds && lease != nullptr && lease->reason == lease::Reason::evicted &&
                 job.stopped_by.empty()) {
        finish(job, "evicted");
      } else if (!holds && lease != nullptr && lease->reason != lease::Reason::process_ended &&
                 lease->state == lease::State::released && job.stopped_by.empty()) {
        finish(job, "cancelled");  // somebody released its lease
      }
      break;
    default: break;
  }
}

void Book::begin(Job& job) {
  ++job.tries;
  job.stopped_by.clear();
  job.exit_code.reset();
  job.signal.reset();
  become(job, State::starting, "");
  deeds_.push_back({.kind = Deed::Kind::start, .job = job.id, .attempt = job.tries});
}

void Book::finish(Job& job, std::string why) {
  job.stopped_by = why;
  become(job, State::ending, job.reason);
  deeds_.push_back({.kind = Deed::Kind::finish,
                    .job = job.id,
                    .attempt = job.tries,
                    .reason = std::move(why),
                    .grace = job.grace});
}

void Book::report(std::string_view id, std::int64_t attempt, const Result<local::JobStatus>& status,
                  Now now) {
  Job* found = find_mut(id);
  if (found == nullptr || is_over(found->state) || found->tries != attempt ||
      found->state == State::held || found->state == State::waiting) {
    return;
  }
  Job& job = *found;
  if (!status) {
    give_back(job, now);
    over(job, State::failed, "it could not be started: " + status.error().to_string(), now);
    advance(now);
    return;
  }
  const lease::Lease* lease = service_.find(job.lease);
  switch (status->phase) {
    case local::JobPhase::absent:
      // After a restart: it was to be started, and was not.
      if (job.stopped_by == "cancelled") {
        give_back(job, now);
        over(job, State::cancelled, "cancelled", now);
      } else if (lease != nullptr && lease::holds(lease->state) && job.stopped_by.empty()) {
        deeds_.push_back({.kind = Deed::Kind::start, .job = job.id, .attempt = job.tries});
        touch(job);
      } else {
        again(job, "it had lost its place before it was started", now);
      }
      break;
    case local::JobPhase::running: {
      local::Confirmation proof;
      proof.pid = status->state.process.pid;
      if (lease != nullptr && (lease->state == lease::State::granted)) {
        if (!service_.confirm(job.who, job.lease, proof, now)) {
          finish(job, "lease-lost");
          return;
        }
      } else if ((lease == nullptr || !lease::holds(lease->state)) && job.stopped_by.empty()) {
        finish(job, "lease-lost");
        return;
      }
      job.started_wall = status->state.started_at_ms;
      if (job.state == State::starting) {
        become(job, State::running, "");
      } else if (job.state == State::ending) {
        finish(job, job.stopped_by);  // told again: the daemon may have died in between
      }
      break;
    }
    case local::JobPhase::ended:
      job.started_wall = status->state.started_at_ms;
      if (!status->supervised) {  // else what it left is being ended; it is reported again
        conclude(job, status->state, now);
        advance(now);
      }
      break;
  }
}

// Its program has ended, with everything that it had started.
void Book::conclude(Job& job, const local::JobState& end, Now now) {
  if (end.end == local::JobEnd::exited || end.end == local::JobEnd::not_started) {
    job.exit_code = end.code;
  } else if (end.end == local::JobEnd::signalled) {
    job.signal = end.code;
  }
  if (end.stopped_by == "evicted" || end.stopped_by == "lease-lost") {
    // It goes back with its age: the lease must end as lost, not as given back.
    service_.process_ended(job.lease, now);
    again(job, job.reason.empty() ? "it had to leave" : job.reason, now);
    return;
  }
  service_.process_ended(job.lease, now);
  give_back(job, now);
  if (end.stopped_by == "time") {
    over(job, State::timed_out, "its time limit was over", now);
  } else if (end.stopped_by == "cancelled") {
    over(job, State::cancelled, "cancelled", now);
  } else if (end.end == local::JobEnd::lost) {
    over(job, State::lost, end.message, now);
  } else if (end.end == local::JobEnd::exited && end.code == 0) {
    over(job, State::succeeded, "", now);
  } else {
    over(job, State::failed,
         local::outcome_text({.phase = local::JobPhase::ended, .supervised = false, .state = end}),
         now);
  }
}

// Back to the queue. Its key tells the service how long it has waited already.
void Book::again(Job& job, std::string reason, Now now) {
  const lease::Lease* lease = service_.find(job.lease);
  if (lease != nullptr && lease::is_live(lease->state)) {
    give_back(job, now);
  }
  by_lease_.erase(job.lease);
  job.lease.clear();
  job.stopped_by.clear();
  become(job, State::held, std::move(reason));
  held_.insert(job.id);
  advance(now);
}

void Book::give_back(Job& job, Now now) {
  if (!job.lease.empty()) {
    // An answer of "unknown" or "ended already" is as good.
    static_cast<void>(service_.release(job.who, job.lease, false, "the job is over", now));
  }
}

void Book::become(Job& job, State state, std::string reason) {
  job.state = state;
  job.reason = std::move(reason);
  touch(job);
}

void Book::over(Job& job, State state, std::string reason, Now now) {
  become(job, state, std::move(reason));
  job.ended_wall = now.wall;
  by_lease_.erase(job.lease);
  held_.erase(job.id);
  live_.erase(job.id);
  --live_of_[job.who.name];
  ended_.insert({job.ended_wall, job.id});
  advance_due_ = true;
}

}  // namespace berth::jobs
