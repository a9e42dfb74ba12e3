// The daemon's inside. Private to daemon*.cc: daemon.cc starts it and has the loop, daemon_batch.cc
// makes decisions durable, daemon_jobs.cc looks after processes and jobs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/api.h"
#include "api/job_calls.h"
#include "gpu/simulated.h"
#include "jobs/book.h"
#include "local/end_watch.h"
#include "serve/clock.h"
#include "serve/daemon.h"
#include "serve/guards.h"
#include "serve/inbox.h"
#include "serve/job_hands.h"
#include "serve/simulation.h"
#include "serve/witness.h"
#include "store/store.h"

namespace berth::serve {

// How stale the clock's record in the journal may be.
inline constexpr std::int64_t kClockRecordMs = 1000;

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

}  // namespace berth::serve
