// Batches, restarts, and what is forgotten.
#include <algorithm>

#include <fmt/format.h>

#include "jobs/book.h"
#include "jobs/record.h"

namespace berth::jobs {

using lease::Now;

namespace {

constexpr std::string_view kKind = "job";
constexpr Duration kRenewEvery{600'000};

}  // namespace

const Job* Book::find(std::string_view id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &jobs_.at(found->second);
}

Job* Book::find_mut(std::string_view id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &jobs_.at(found->second);
}

Job& Book::add(Job job) {
  const std::pair at(job.number, job.index);
  const std::string id = job.id;
  Job& added = jobs_[at] = std::move(job);
  by_id_[id] = at;
  if (is_over(added.state)) {
    added.environment = {};
    ended_.insert({added.ended_wall, id});
    return added;
  }
  live_.insert(id);
  ++live_of_[added.who.name];
  bytes_of_[added.who.name] += bytes_in(added.command, added.environment);
  if (added.state == State::held) {
    held_.insert(at);
  }
  touch(added);
  return added;
}

// It is over, or gone.
void Book::uncount(const Job& job) {
  --live_of_[job.who.name];
  bytes_of_[job.who.name] -= bytes_in(job.command, job.environment);
}

void Book::forget(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  const Job& job = jobs_.at(found->second);
  if (is_over(job.state)) {
    ended_.erase({job.ended_wall, id});
  } else {
    uncount(job);
  }
  by_lease_.erase(job.lease);
  held_.erase(found->second);
  live_.erase(id);
  dirty_.erase(id);
  created_.erase(id);
  reserved_.erase(id);
  jobs_.erase(found->second);
  by_id_.erase(id);
}

Result<void> Book::restore(const std::vector<lease::Record>& records, Now now) {
  for (const lease::Record& record : records) {
    if (record.kind != kKind || !record.body.has_value()) {
      continue;
    }
    Result<Job> job = read_job(*record.body);
    if (!job) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("journal, job {}: {}", record.id, job.error().message())};
    }
    next_number_ = std::max(next_number_, job->number + 1);
    add(std::move(*job));
  }
  dirty_.clear();
  renew_at_ = now.time;
  for (const std::string& id : std::vector<std::string>(live_.begin(), live_.end())) {
    Job& job = *find_mut(id);
    if (!job.lease.empty()) {
      by_lease_[job.lease] = id;
    }
    if (job.state == State::waiting) {
      service_.watching(job.lease, true, now);
      follow(job, now);
    } else if (job.state != State::held) {
      // Programs outlive the daemon: what has become of this one?
      ready_.push_back({.kind = Deed::Kind::adopt, .job = id, .attempt = job.tries});
    }
  }
  advance(now);
  return success();
}

void Book::tick(Now now) {
  if (now.time < renew_at_) {
    return;
  }
  renew_at_ = now.time + kRenewEvery;
  for (const std::string& id : live_) {
    const Job& job = *find(id);
    if (!job.lease.empty()) {
      static_cast<void>(service_.renew(job.who, job.lease, now));
    }
  }
  forget_old(now);
  advance(now);
}

void Book::forget_old(Now now) {
  while (!ended_.empty() && (ended_.size() > options_.keep_ended ||
                             ended_.begin()->first + options_.keep_ms < now.wall)) {
    const std::string id = ended_.begin()->second;
    deeds_.push_back({.kind = Deed::Kind::forget, .job = id});
    forget(id);
    erased_.insert(id);
    dirty_.insert(id);
  }
}

void Book::add_to(lease::Batch& batch) {
  for (const std::string& id : dirty_) {
    const Job* job = find(id);
    batch.records.push_back(
        {std::string(kKind), id, job != nullptr ? std::optional(job_record(*job)) : std::nullopt});
  }
}

void Book::settled(const lease::Batch& batch, Now now) {
  dirty_.clear();
  created_.clear();
  erased_.clear();
  const std::set<std::string> reserved = std::exchange(reserved_, {});  // by this batch
  for (Deed& deed : std::exchange(deeds_, {})) {
    ready_.push_back(std::move(deed));
  }
  for (const std::string& lease : batch.changed) {
    const auto found = by_lease_.find(lease);
    if (found != by_lease_.end()) {
      if (Job* job = find_mut(std::string(found->second))) {
        follow(*job, now);
      }
    }
  }
  // Work without a GPU has its lease from the first version on, which is no change of it.
  for (const std::string& id : reserved) {
    if (Job* job = find_mut(id); job != nullptr && job->state == State::waiting) {
      follow(*job, now);
    }
  }
  if (std::exchange(advance_due_, false)) {
    advance(now);
  }
}

void Book::undone() {
  const std::set<std::string> reserved = std::exchange(reserved_, {});
  for (const std::string& id : std::exchange(created_, {})) {
    forget(id);
  }
  for (const std::string& id : reserved) {
    if (Job* job = find_mut(id); job != nullptr && service_.find(job->lease) == nullptr) {
      by_lease_.erase(job->lease);
      job->lease.clear();
      become(*job, State::held, "the journal could not be written");
      held_.insert({job->number, job->index});
    }
  }
  advance_due_ = true;
}

}  // namespace berth::jobs
