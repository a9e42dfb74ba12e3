// A batch: what was decided becomes durable, and only then leaves.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/exposition.h"
#include "serve/daemon_impl.h"

namespace berth::serve {

namespace {

// How often the journal is tried again while it cannot be written.
constexpr std::int64_t kRetryMs = 250;

}  // namespace

// Makes what was decided durable, then lets it leave.
void Daemon::Impl::finish_batch() {
  if (!clock.manual()) {
    if (const auto due = service->next_due(); due.has_value() && *due <= clock.now().time) {
      service->tick(clock.now());
    }
  }
  api->tick(moment());
  job_calls->tick(*api, moment());
  book->tick(clock.now());
  // What a batch sets free (the end of a hold) makes another one.
  do {
    if (service->dirty()) {
      // Lent room is taken back before it is given away: first the caps, then a look at what is in
      // use under them.
      guards.balance(*service);
      if (service->granted_in_batch()) {
        service->count_uses(guards.uses(*service), clock.now());
        guards.balance(*service);  // who was not granted after all is still in want
      }
    }
    lease::Batch batch = service->take_batch();
    book->add_to(batch);
    if (!commit(batch)) {
      return;
    }
    if (options.before_answers) {
      options.before_answers();
    }
    service->settle(clock.now());
    api->settled(batch, moment());
    after_commit(batch);
    job_calls->settled(moment());
    book->settled(batch, clock.now());
    carry_out_deeds();
  } while (service->dirty() || book->dirty());
}

// False: nothing of the batch stands.
bool Daemon::Impl::commit(const lease::Batch& batch) {
  const std::int64_t time = clock.now().time.ms();
  // Virtual time goes on where it was said to be, also if nothing else happened.
  const bool moved = clock.manual() && time != clock_recorded && time > 0;
  if (batch.records.empty() && !moved && !retry_at.has_value()) {
    return true;
  }
  std::vector<store::Record> records;
  records.reserve(batch.records.size() + 1);
  for (const lease::Record& record : batch.records) {
    records.push_back({record.kind, record.id, record.body});
  }
  if (retry_at.has_value() ||
      (clock.manual() ? time != clock_recorded : time - clock_recorded >= kClockRecordMs)) {
    records.push_back({"clock", "clock", clock.record()});
    clock_recorded = time;
  }
  if (Result<void> done = store->commit(records); !done) {
    ++failed_batches;
    if (!retry_at.has_value()) {
      log("error", fmt::format("the journal cannot be written, nothing is granted: {}",
                               done.error().to_string()));
    }
    retry_at = Clock::real_ms() + kRetryMs;
    service->undo(clock.now());
    book->undone();
    api->failed(moment());
    return false;
  }
  ++batches;
  rows += records.size();
  for (const store::Record& record : records) {
    bytes += record.body.has_value() ? record.body->size() : 0;
  }
  if (retry_at.has_value()) {
    retry_at.reset();
    log("info", "the journal can be written again");
  }
  return true;
}

void Daemon::Impl::after_commit(const lease::Batch& batch) {
  for (const lease::Event& event : batch.events) {
    const bool routine = event.kind == "granted" || event.kind == "foreign-changed" ||
                         event.kind == "source-up" || event.kind == "undrained";
    log(routine ? "info" : "warning",
        fmt::format("{}{}{}{}{}: {}", event.kind, event.lease.empty() ? "" : " lease=", event.lease,
                    event.device.empty() ? "" : " device=", event.device, event.text));
  }
  for (const std::string& id : batch.changed) {
    const lease::Lease* lease = service->find(id);
    if (lease == nullptr || !lease::is_live(lease->state)) {
      guards.ended(id);
    } else {
      watch_processes(*lease);
    }
  }
  if (const std::string problem = guards.take_problem(); !problem.empty()) {
    log("warning", "guard: " + problem);
  }
}

std::string Daemon::Impl::metrics() const {
  api::Exposition text;
  const auto counter = [&text](std::string_view name, std::string_view help, std::uint64_t value) {
    text.family(name, "counter", help);
    text.sample(static_cast<std::int64_t>(value));
  };
  counter("berth_journal_commits_total", "Commits to the journal, each with one sync.", batches);
  counter("berth_journal_failed_commits_total", "Commits that the disk refused.", failed_batches);
  counter("berth_journal_rows_total", "Rows written to the journal.", rows);
  counter("berth_journal_bytes_total", "Bytes of those rows.", bytes);
  const net::ServerCounts counts = server->counts();
  text.family("berth_http_connections", "gauge", "Open connections.");
  text.sample(static_cast<std::int64_t>(counts.connections));
  counter("berth_http_requests_total", "Requests that were answered.", counts.requests);
  counter("berth_http_bad_requests_total", "Requests that the server itself refused.",
          counts.bad_requests);
  counter("berth_http_refused_connections_total", "Connections refused: too many.", counts.refused);
  counter("berth_http_cut_off_total", "Clients cut off: too slow, or never reading.",
          counts.cut_off);
  return text.take();
}

}  // namespace berth::serve
