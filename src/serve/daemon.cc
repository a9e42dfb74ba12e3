#include "serve/daemon.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <sys/random.h>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "api/api.h"
#include "api/exposition.h"
#include "api/job_calls.h"
#include "gpu/simulated.h"
#include "jobs/book.h"
#include "local/end_watch.h"
#include "serve/clock.h"
#include "serve/guards.h"
#include "serve/inbox.h"
#include "serve/job_hands.h"
#include "serve/job_spec.h"
#include "serve/simulation.h"
#include "serve/witness.h"
#include "store/store.h"

namespace berth::serve {

namespace {

// As many inputs are decided together at most, so that one commit stays short.
constexpr std::size_t kMostPerBatch = 512;
// How often the journal is tried again while it cannot be written.
constexpr std::int64_t kRetryMs = 250;
// How stale the clock's record in the journal may be.
constexpr std::int64_t kClockRecordMs = 1000;

// 64 random bits.
std::string random_id() {
  std::uint64_t bits = 0;
  static_cast<void>(!getrandom(&bits, sizeof(bits), 0));
  return fmt::format("{:016x}", bits);
}

}  // namespace

struct Daemon::Impl : net::Handler {
  explicit Impl(DaemonOptions given)
      : options(std::move(given)),
        clock(options.manual_clock),
        witness(options.guard_library.substr(options.guard_library.rfind('/') + 1)),
        guards(options.grants_directory, options.guard_library) {}

  ~Impl() override { wind_up(); }

  Result<void> open();
  Result<void> run();
  void wind_up();

  void handle(net::Request request, net::Reply reply) override {
    inbox.put(Asked{std::move(request), std::move(reply)});
  }

  void look_at(Input input);
  void observe(const gpu::Report& report);
  void process_ended(const local::ProcessKey& process);
  void reload() const;
  void advance(std::int64_t ms);
  void finish_batch();
  bool commit(const lease::Batch& batch);
  void after_commit(const lease::Batch& batch);
  void watch_processes(const lease::Lease& lease);
  Result<void> open_jobs(const std::vector<lease::Record>& records);
  void carry_out_deeds();
  void job_report(const JobReport& report);
  std::optional<std::chrono::milliseconds> patience() const;
  void sample_forever();
  void wait_for_ends();
  std::string metrics() const;
  void log(std::string_view level, std::string_view text) const {
    if (options.log) {
      options.log(level, text);
    }
  }

  api::Moment moment() const { return {.now = clock.now(), .real_ms = Clock::real_ms()}; }

  DaemonOptions options;
  Clock clock;
  MachineWitness witness;
  Guards guards;
  Inbox inbox;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<lease::Service> service;
  std::unique_ptr<api::Api> api;
  std::unique_ptr<gpu::Source> source;
  gpu::SimulatedSource* simulated = nullptr;
  std::unique_ptr<Simulation> simulation;
  std::unique_ptr<net::Server> server;
  local::EndWatch ends;
  std::map<local::ProcessKey, std::vector<std::string>> watched;  // process -> leases
  std::unique_ptr<jobs::Book> book;
  std::unique_ptr<JobHands> job_hands;
  std::unique_ptr<api::JobCalls> job_calls;
  // Supervisors of jobs: when one ends its job has.
  std::map<local::ProcessKey, std::pair<std::string, std::int64_t>> supervisors;
  std::thread sampler;
  std::thread end_watcher;
  std::atomic<bool> stopping = false;
  std::mutex sampler_mutex;
  std::condition_variable sampler_wake;
  bool stop_asked = false;
  Time next_sample;  // manual clock
  std::int64_t clock_recorded = -kClockRecordMs;
  std::optional<std::int64_t> retry_at;  // real ms, while the journal cannot be written
  std::uint64_t batches = 0;
  std::uint64_t failed_batches = 0;
  std::uint64_t rows = 0;  // of the journal, and so the following
  std::uint64_t bytes = 0;
};

Result<void> Daemon::Impl::open() {
  // The store makes the last folder itself, for its owner alone.
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options.state_directory).parent_path(),
                                      error);
  TRY(store, store::Store::open({.directory = options.state_directory, .faults = options.faults}));
  TRY(std::vector<store::Record> kept, store->load());
  std::vector<lease::Record> records;
  std::vector<lease::Record> job_records;
  for (store::Record& record : kept) {
    if (record.kind == "clock" && record.body.has_value()) {
      clock.restore(*record.body);
    } else if (record.kind == "job") {
      job_records.push_back({std::move(record.kind), std::move(record.id), std::move(record.body)});
    } else {
      records.push_back({std::move(record.kind), std::move(record.id), std::move(record.body)});
    }
  }
  if (options.simulated.has_value()) {
    TRY(std::unique_ptr<gpu::SimulatedSource> made, gpu::SimulatedSource::make(*options.simulated));
    simulated = made.get();
    source = std::move(made);
  } else {
    options.sources.nvml.node = options.node.name;
    TRY(source, make_sources(options.sources));
  }
  options.service.journal_id = random_id();
  TRY(service, lease::Service::create(options.service, witness, clock.now()));
  service->set_node(options.node, clock.now());
  if (options.simulated.has_value()) {
    for (core::Node node : *options.simulated) {
      node.devices.clear();
      service->set_node(node, clock.now());
    }
  }
  TRY_VOID(service->restore(records, clock.now()));
  guards.restore(*service);
  api = std::make_unique<api::Api>(
      *service, api::ApiOptions{.node = options.node.name,
                                .guards = &guards,
                                .version = options.version,
                                .left = [this](std::uint64_t watch) { inbox.put(Left{watch}); },
                                .not_ready = {},
                                .more_metrics = [this] { return metrics(); }});
  if (simulated != nullptr) {
    Simulation::Hands hands;
    hands.sample = [this] { observe(source->read()); };
    hands.time_ms = [this] { return clock.now().time.ms(); };
    if (options.manual_clock) {
      hands.advance = [this](std::int64_t ms) { advance(ms); };
    }
    simulation = std::make_unique<Simulation>(*simulated, std::move(hands));
    api->add_route([this](const net::Request& request, net::Reply& reply, const api::Moment&) {
      return simulation->handle(request, reply, *api);
    });
  }
  for (const auto& [number, lease] : service->leases()) {
    watch_processes(lease);
  }
  TRY_VOID(open_jobs(job_records));
  options.server.body_limits.push_back(
      {.method = "POST", .path = "/v1/jobs", .bytes = api::kMostSubmission});
  TRY(server, net::Server::start(options.server, *this));
  next_sample = clock.now().time;
  return {};
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

// --- the decision thread --------------------------------------------------------------------

Result<void> Daemon::Impl::run() {
  end_watcher = std::thread([this] { wait_for_ends(); });
  if (options.manual_clock) {
    observe(source->read());
    next_sample = clock.now().time + options.sampling;
    finish_batch();
  } else {
    sampler = std::thread([this] { sample_forever(); });
  }
  while (!stop_asked) {
    std::vector<Input> inputs = inbox.take(patience());
    for (std::size_t first = 0; first < inputs.size(); first += kMostPerBatch) {
      const std::size_t end = std::min(inputs.size(), first + kMostPerBatch);
      for (std::size_t i = first; i < end; ++i) {
        look_at(std::move(inputs[i]));
      }
      finish_batch();
    }
    if (inputs.empty()) {
      finish_batch();
      if (!retry_at.has_value()) {
        static_cast<void>(store->tidy());
      }
    }
  }
  wind_up();
  return {};
}

std::optional<std::chrono::milliseconds> Daemon::Impl::patience() const {
  std::optional<std::int64_t> most;
  const auto consider = [&most](std::int64_t ms) {
    most = std::max<std::int64_t>(0, most.has_value() ? std::min(*most, ms) : ms);
  };
  const std::int64_t real = Clock::real_ms();
  if (const auto due = api->next_due_real_ms()) {
    consider(*due - real);
  }
  if (const auto due = job_calls->next_due_real_ms()) {
    consider(*due - real);
  }
  if (retry_at.has_value()) {
    consider(*retry_at - real);
  }
  if (!clock.manual()) {
    if (const auto due = service->next_due()) {
      consider((*due - clock.now().time).count());
    }
  }
  return most.has_value() ? std::optional(std::chrono::milliseconds(*most)) : std::nullopt;
}

void Daemon::Impl::look_at(Input input) {
  if (auto* asked = std::get_if<Asked>(&input)) {
    api->handle(std::move(asked->request), std::move(asked->reply), moment());
  } else if (const auto* left = std::get_if<Left>(&input)) {
    api->client_left(left->watch, moment());
  } else if (const auto* gone = std::get_if<JobPollLeft>(&input)) {
    job_calls->client_left(gone->poll);
  } else if (const auto* seen = std::get_if<Seen>(&input)) {
    observe(seen->report);
  } else if (const auto* ended = std::get_if<ProcessEnded>(&input)) {
    process_ended(ended->process);
  } else if (const auto* report = std::get_if<JobReport>(&input)) {
    job_report(*report);
  } else if (std::holds_alternative<Reload>(input)) {
    reload();
  } else {
    stop_asked = true;
  }
}

void Daemon::Impl::observe(const gpu::Report& report) {
  service->observe(report, clock.now());
  guards.balance(*service);
}

// Everything that falls due on the way happens at its own time.
void Daemon::Impl::advance(std::int64_t ms) {
  const Time target = clock.now().time + Duration(ms);
  while (true) {
    Time next = next_sample;
    if (const auto due = service->next_due(); due.has_value() && *due < next) {
      next = *due;
    }
    if (next > target) {
      break;
    }
    clock.set(next);
    if (next >= next_sample) {
      observe(source->read());
      next_sample = next_sample + options.sampling;
    }
    service->tick(clock.now());
  }
  clock.set(target);
  service->tick(clock.now());
}

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
    const bool routine = event.kind == "granted" || event.kind == "foreign-changed";
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

// --- jobs -----------------------------------------------------------------------------------

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

void Daemon::Impl::reload() const {
  if (options.read_settings) {
    if (Result<lease::ServiceConfig> settings = options.read_settings(); !settings) {
      log("error",
          fmt::format("reload: {}; the settings stay as they were", settings.error().to_string()));
    } else {
      service->adjust(*settings, clock.now());
    }
  }
  if (Result<void> done = server->reload(); !done) {
    log("error", fmt::format("reload: {}; all stays as it was", done.error().to_string()));
  }
  if (options.read_queues) {
    Result<core::QueueConfig> queues = options.read_queues();
    if (!queues) {
      log("error",
          fmt::format("reload: {}; the queues stay as they were", queues.error().to_string()));
    } else if (Result<void> set = service->set_queues(std::move(*queues), clock.now()); !set) {
      log("error", fmt::format("reload: {}; the queues stay as they were", set.error().message()));
    }
  }
  log("info", "reloaded");
}

// --- other threads --------------------------------------------------------------------------

void Daemon::Impl::sample_forever() {
  while (!stopping) {
    inbox.put(Seen{source->read()});
    std::unique_lock lock(sampler_mutex);
    sampler_wake.wait_for(lock, std::chrono::milliseconds(options.sampling.count()),
                          [this] { return stopping.load(); });
  }
}

void Daemon::Impl::wait_for_ends() {
  while (!stopping) {
    for (const local::ProcessKey& process : ends.wait(Duration(60'000))) {
      inbox.put(ProcessEnded{process});
    }
  }
}

void Daemon::Impl::wind_up() {
  if (server) {
    server->stop();
  }
  if (job_hands) {
    job_hands->stop();
  }
  {
    const std::lock_guard lock(sampler_mutex);
    stopping = true;
  }
  sampler_wake.notify_all();
  ends.interrupt();
  if (sampler.joinable()) {
    sampler.join();
  }
  if (end_watcher.joinable()) {
    end_watcher.join();
  }
}

// --- the face -------------------------------------------------------------------------------

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options) {
  if (options.grants_directory.empty()) {
    options.grants_directory = options.state_directory + "/grants";
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY_VOID(impl->open());
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Result<void> Daemon::run() { return impl_->run(); }

void Daemon::stop() { impl_->inbox.put(Stop{}); }

void Daemon::reload() { impl_->inbox.put(Reload{}); }

std::vector<std::string> Daemon::addresses() const { return impl_->server->addresses(); }

}  // namespace berth::serve
