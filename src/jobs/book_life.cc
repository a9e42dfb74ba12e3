// The life of a job, from its being held to its end.
#include <algorithm>

#include <fmt/format.h>

#include "jobs/book.h"

namespace berth::jobs {

using lease::Now;
using lease::Outcome;
using lease::Refusal;

std::string Book::held_by(const Job& job, Round& round, bool& never) const {
  for (const std::string& id : job.after) {
    const auto [at, unknown] = round.before.try_emplace(id);
    Round::Before& before = at->second;
    if (unknown) {
      for (const Job* other : named(id)) {
        if (!is_over(other->state)) {
          before.open = other;
          break;
        }
        if (before.failed == nullptr && other->state != State::succeeded) {
          before.failed = other;
        }
      }
    }
    if (job.rule == AfterRule::ok && before.failed != nullptr) {
      never = true;
      return fmt::format("{}, which it was to follow, is {}", before.failed->id,
                         state_name(before.failed->state));
    }
    if (before.open != nullptr) {
      return fmt::format("waits for the end of {}, which is {}", before.open->id,
                         state_name(before.open->state));
    }
  }
  if (job.at_once > 0) {
    const auto [at, unknown] = round.going.try_emplace(job.array, 0);
    std::int64_t& going = at->second;
    if (unknown) {
      for (const Job* other : named(job.array)) {
        going += other->state != State::held && !is_over(other->state) ? 1 : 0;
      }
    }
    if (going >= job.at_once) {
      return fmt::format("its array lets {} go at once, and {} {} for a GPU", job.at_once, going,
                         going == 1 ? "runs or waits" : "run or wait");
    }
  }
  return {};
}

// Lets go whatever was held and no longer has to be.
void Book::advance(Now now) {
  Round round;
  const auto ended = [&round](const Job& job) {
    round.before.erase(job.id);
    round.before.erase(job.array);
  };
  bool more = true;
  while (more) {  // one that can never go may be what another one follows
    more = false;
    for (const auto& at : std::vector(held_.begin(), held_.end())) {
      Job& job = jobs_.at(at);
      if (job.state != State::held) {
        continue;
      }
      bool never = false;
      std::string why = held_by(job, round, never);
      if (never) {
        over(job, State::cancelled, std::move(why), now);
        ended(job);
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
          ended(job);
          more = true;
        }
      } else if (const auto going = round.going.find(job.array); going != round.going.end()) {
        ++going->second;
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
  held_.erase({job.number, job.index});
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
  held_.insert({job.number, job.index});
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
  held_.erase({job.number, job.index});
  live_.erase(job.id);
  uncount(job);
  job.environment = {};  // nobody asks for it any more
  ended_.insert({job.ended_wall, job.id});
  advance_due_ = true;
}

}  // namespace berth::jobs
