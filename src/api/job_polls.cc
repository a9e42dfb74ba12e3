#include "api/job_polls.h"

#include <algorithm>

namespace berth::api {

bool JobPolls::reached(const jobs::Job& job, JobUntil until) {
  return jobs::is_over(job.state) ||
         (until == JobUntil::granted && job.state != jobs::State::held &&
          job.state != jobs::State::waiting);
}

void JobPolls::add(Poll poll, net::Reply reply) {
  const std::uint64_t number = ++last_;
  if (left_) {
    reply.on_gone([left = left_, number] { left(number); });
  }
  of_[poll.id].insert(number);
  due_.insert({poll.due, number});
  polls_.emplace(number, Waiting{std::move(poll), std::move(reply)});
}

void JobPolls::remove(std::uint64_t number) {
  const auto found = polls_.find(number);
  if (found == polls_.end()) {
    return;
  }
  const Poll& poll = found->second.poll;
  due_.erase({poll.due, number});
  const auto of = of_.find(poll.id);
  of->second.erase(number);
  if (of->second.empty()) {
    of_.erase(of);
  }
  polls_.erase(found);
}

void JobPolls::tell(std::uint64_t number, const Tell& tell) {
  Waiting& waiting = polls_.at(number);
  tell(waiting.poll, std::move(waiting.reply));
  remove(number);
}

void JobPolls::changed(const std::set<std::string>& jobs, const Tell& tell) {
  if (polls_.empty()) {
    return;
  }
  std::set<std::uint64_t> numbers;
  const auto take = [&](const std::string& id) {
    if (const auto of = of_.find(id); of != of_.end()) {
      numbers.insert(of->second.begin(), of->second.end());
    }
  };
  for (const std::string& id : jobs) {
    take(id);
    if (const jobs::Job* job = book_.find(id)) {
      take(job->array);
    }
  }
  for (const std::uint64_t number : numbers) {
    const Poll& poll = polls_.at(number).poll;
    const auto found = book_.read(poll.party, poll.id);
    if (!found || std::ranges::all_of(
                      *found, [&](const jobs::Job* job) { return reached(*job, poll.until); })) {
      this->tell(number, tell);
    }
  }
}

void JobPolls::tick(std::int64_t real_ms, const Tell& tell) {
  while (!due_.empty() && due_.begin()->first <= real_ms) {
    this->tell(due_.begin()->second, tell);
  }
}

std::optional<std::int64_t> JobPolls::next_due() const {
  return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
}

}  // namespace berth::api
