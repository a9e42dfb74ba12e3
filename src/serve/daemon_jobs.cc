// Processes whose ends matter, and submitted jobs.
#include <algorithm>
#include <utility>

#include "serve/daemon_impl.h"
#include "serve/job_spec.h"

namespace berth::serve {

void Daemon::Impl::watch_processes(const lease::Lease& lease) {
  if (!lease::holds(lease.state) || !lease.proof.has_value() || !lease.proof->process.has_value()) {
    return;
  }
  const local::ProcessKey process = *lease.proof->process;
  std::vector<std::string>& leases = watched[process];
  if (std::ranges::find(leases, lease.id) != leases.end()) {
    return;
  }
  leases.push_back(lease.id);
  if (leases.size() == 1 && !ends.add(process)) {
    inbox.put(ProcessEnded{process});
  }
}

void Daemon::Impl::process_ended(const local::ProcessKey& process) {
  if (const auto job = supervisors.find(process); job != supervisors.end()) {
    job_hands->look(job->second.first, job->second.second);
    supervisors.erase(job);
  }
  const auto found = watched.find(process);
  if (found == watched.end()) {
    return;
  }
  const std::vector<std::string> leases = std::move(found->second);
  watched.erase(found);
  for (const std::string& id : leases) {
    service->process_ended(id, clock.now());
  }
}

Result<void> Daemon::Impl::open_jobs(const std::vector<lease::Record>& records) {
  book = std::make_unique<jobs::Book>(
      *service, jobs::BookOptions{.may_run_as = [](std::uint32_t uid) { return may_run_as(uid); }});
  TRY_VOID(book->restore(records, clock.now()));
  job_hands =
      std::make_unique<JobHands>(options.state_directory + "/jobs",
                                 [this](JobReport report) { inbox.put(std::move(report)); });
  job_calls = std::make_unique<api::JobCalls>(
      *book, *service,
      api::JobCallsOptions{
          .node = options.node.name,
          .folder =
              [this](const jobs::Job& job) { return job_hands->attempt_folder(job.id, job.tries); },
          .left = [this](std::uint64_t poll) { inbox.put(JobPollLeft{poll}); }});
  api->add_route([this](const net::Request& request, net::Reply& reply, const api::Moment& now) {
    return job_calls->handle(request, reply, *api, now);
  });
  carry_out_deeds();
  return {};
}

// What is on disk now may be done.
void Daemon::Impl::carry_out_deeds() {
  for (jobs::Deed& deed : book->take_deeds()) {
    local::JobSpec spec;
    const jobs::Job* job = book->find(deed.job);
    if (deed.kind == jobs::Deed::Kind::start && job != nullptr) {
      const lease::Lease* lease = service->find(job->lease);
      if (lease == nullptr || !lease::holds(lease->state)) {
        job_hands->look(deed.job, deed.attempt);  // it has lost its place meanwhile
        continue;
      }
      spec = job_spec(*job, api::environment(*service, *lease, &guards));
      spec.open_files = options.open_files;
    }
    job_hands->put(std::move(deed), std::move(spec));
  }
}

void Daemon::Impl::job_report(const JobReport& report) {
  book->report(report.job, report.attempt, report.status, clock.now());
  if (report.status && report.status->supervised) {
    const local::ProcessKey& supervisor = report.status->state.supervisor;
    if (supervisors.emplace(supervisor, std::pair(report.job, report.attempt)).second &&
        !ends.add(supervisor)) {
      inbox.put(ProcessEnded{supervisor});
    }
  }
}

}  // namespace berth::serve
