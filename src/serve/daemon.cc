#include "serve/daemon.h"

#include <algorithm>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "serve/daemon_impl.h"

namespace berth::serve {

namespace {

// As many inputs are decided together at most, so that one commit stays short.
constexpr std::size_t kMostPerBatch = 512;

// 64 random bits.
std::string random_id() {
  std::uint64_t bits = 0;
  static_cast<void>(!getrandom(&bits, sizeof(bits), 0));
  return fmt::format("{:016x}", bits);
}

}  // namespace

Result<void> Daemon::Impl::open() {
  // The store makes the last folder itself, for its owner alone.
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options.state_directory).parent_path(),
                                      error);
  TRY(store, store::Store::open({.directory = options.state_directory, .faults = options.faults}));
  if (geteuid() == 0 && options.grants_directory.starts_with(options.state_directory + "/")) {
    // Users pass through it to the limits of their programs; what else is in it is root's alone.
    chmod(options.state_directory.c_str(), 0711);
  }
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
    api->handle(asked->request, std::move(asked->reply), moment());
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

void Daemon::Impl::reload() const {
  bool whole = true;
  const auto failed = [&](const std::string& why, std::string_view what) {
    log("error", fmt::format("reload: {}; {}", why, what));
    whole = false;
  };
  if (options.read_settings) {
    if (Result<lease::ServiceConfig> settings = options.read_settings(); !settings) {
      failed(settings.error().to_string(), "the settings stay as they were");
    } else {
      service->adjust(*settings, clock.now());
    }
  }
  if (Result<void> done = server->reload(); !done) {
    failed(done.error().to_string(), "tokens and certificate stay as they were");
  }
  if (options.read_queues) {
    Result<core::QueueConfig> queues = options.read_queues();
    if (!queues) {
      failed(queues.error().to_string(), "the queues stay as they were");
    } else if (Result<void> set = service->set_queues(std::move(*queues), clock.now()); !set) {
      failed(set.error().message(), "the queues stay as they were");
    }
  }
  log(whole ? "info" : "warning", whole ? "reloaded" : "not all was reloaded");
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
