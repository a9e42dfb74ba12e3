#include <csignal>
#include <cstdlib>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/build_info.h"
#include "cli/serve_options.h"
#include "cli/verbs.h"
#include "config/queue_file.h"
#include "config/scheduler_file.h"
#include "kube/scheduler/scheduler.h"
#include "sim/files.h"
#include "sim/words.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--kubeconfig",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "how the cluster is reached (default: $KUBECONFIG, else the pod's service account, "
             "else ~/.kube/config)"},
    {.name = "--context",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "of the kubeconfig (default: its current one)"},
    {.name = "--config",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "the configuration (docs/kubernetes.md); what is said here wins over it"},
    {.name = "--queues",
     .kind = ValueKind::file,
     .value = "FILE[,FILE]",
     .help = "the quota tree (docs/queues.md); SIGHUP reads it again"},
    {.name = "--policy",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "placement where a queue names none (`berth policies` lists them; default: pack)"},
    {.name = "--leader-elect",
     .help = "several may run; the one that holds the lease decides, and the others wait"},
    {.name = "--identity",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "of this process among them (default: its host name and process id)"},
    {.name = "--dry-run", .help = "decide and explain, write nothing"},
    {.name = "--listen",
     .kind = ValueKind::text,
     .value = "ADDRESS",
     .help = "probes, metrics and readers, in plain HTTP: 0.0.0.0:8080 or unix:/path; may be given "
             "often (default: none)",
     .repeats = true},
    {.name = "--decision-log",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "everything that is told and decided, for `berth replay`"},
};

constexpr Example kExamples[] = {
    {"berth scheduler --kubeconfig ~/.kube/config --dry-run",
     "what it would do with the pods of a cluster"},
    {"berth scheduler --leader-elect --listen 0.0.0.0:8080 --config /etc/berth/scheduler.yaml",
     "in the cluster, with others of its kind"},
};

Result<core::QueueConfig> read_queue_files(const std::vector<std::string>& files, ServeLog& log) {
  config::QueueReader reader;
  for (const std::string& path : files) {
    TRY(const std::string text, sim::read_input_file(path));
    reader.add_file(text, path);
  }
  config::QueueFile file = std::move(reader).finish({});
  if (file.refused()) {
    return file.refusals();
  }
  for (const config::QueueComplaint& complaint : file.complaints) {
    log.line("warning", complaint.text);
  }
  return std::move(file.config);
}

Result<config::SchedulerSettings> read_settings(const Arguments& arguments) {
  config::SchedulerSettings settings;
  if (const auto path = arguments.value("--config")) {
    TRY(const std::string text, sim::read_input_file(*path));
    TRY(settings, config::read_scheduler_file(text, *path));
  }
  if (const auto policy = arguments.value("--policy")) {
    settings.policy = *policy;
  }
  if (arguments.has("--listen")) {
    settings.listen = arguments.values("--listen");
  }
  if (const auto files = arguments.value("--queues")) {
    settings.queues_files.clear();
    for (const std::string_view path : sim::split_at(*files, ',')) {
      settings.queues_files.emplace_back(path);
    }
  }
  return settings;
}

// Of this process alone: two containers in one host's network have its name, and are process 1.
std::string own_identity() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return fmt::format("{}_{}_{:08x}", host, ::getpid(), std::random_device()());
}

Result<kube::SchedulerOptions> scheduler_options(const Arguments& arguments, ServeLog& log) {
  TRY(const config::SchedulerSettings settings, read_settings(arguments));
  kube::SchedulerOptions options;
  TRY(options.access, kube::find_access({.kubeconfig = arguments.value("--kubeconfig").value_or(""),
                                         .context = arguments.value("--context").value_or("")},
                                        kube::process_environment()));
  kube::HarbourConfig& harbour = options.harbour;
  harbour.scheduler_name = settings.scheduler_name;
  harbour.engine.policy = settings.policy;
  harbour.engine.limit_overcommit_percent = settings.limit_overcommit_percent;
  harbour.rules.sharing_enabled = settings.sharing;
  harbour.rules.allow_privileged_shares = settings.allow_privileged_shares;
  harbour.rules.gpumem_factor_mib = settings.gpumem_factor_mib;
  harbour.nodes.allow_advisory = settings.allow_advisory;
  harbour.nodes.reserve = settings.reserve;
  harbour.assigns_whole = settings.whole_devices_by_berth;
  harbour.must_be_admitted = settings.require_admission;
  if (!settings.queues_files.empty()) {
    options.read_queues = [files = settings.queues_files, &log] {
      return read_queue_files(files, log);
    };
    TRY(harbour.queues, options.read_queues());
  }
  options.leader_elect = arguments.has("--leader-elect");
  options.lease_namespace = settings.lease_namespace;
  options.lease_name = settings.lease_name;
  options.lease_duration = settings.lease_duration;
  options.lease_fence = settings.lease_fence;
  options.lease_retry = settings.lease_retry;
  options.instance = arguments.value("--identity").value_or(own_identity());
  options.dry_run = arguments.has("--dry-run");
  options.listen = settings.listen;
  options.decision_log = arguments.value("--decision-log").value_or("");
  options.version = std::string(kVersion);
  options.seed = static_cast<std::uint64_t>(::getpid());
  options.log = [&log](std::string_view level, std::string_view text) { log.line(level, text); };
  return options;
}

// SIGTERM and SIGINT end it, SIGHUP makes it read its queues again.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR2}) {
      sigaddset(&set_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }

  void serve(kube::Scheduler& scheduler) {
    thread_ = std::thread([this, &scheduler] {
      for (int signal = 0; sigwait(&set_, &signal) == 0 && signal != SIGUSR2;) {
        if (signal == SIGHUP) {
          scheduler.reload();
        } else {
          scheduler.stop();
        }
      }
    });
  }

  void end() {
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }

 private:
  sigset_t set_{};
  std::thread thread_;
};

ExitCode run_scheduler(const Arguments& arguments, Console& console) {
  const auto fail = [&](const Error& error) {
    console.err << "berth scheduler: " << printable_lines(error.to_string()) << "\n";
    return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::not_found
               ? ExitCode::usage
               : ExitCode::failed;
  };
  ServeLog log(console);
  Result<kube::SchedulerOptions> options = scheduler_options(arguments, log);
  if (!options) {
    return fail(options.error());
  }
  log.line("info", fmt::format("API server {} as told by {}{}", options->access.server,
                               options->access.origin,
                               options->dry_run ? "; dry run: nothing is written" : ""));
  Signals signals;
  auto scheduler = kube::Scheduler::make(std::move(*options));
  if (!scheduler) {
    return fail(scheduler.error());
  }
  for (const std::string& address : (*scheduler)->addresses()) {
    log.line("info", "listening on " + address);
  }
  signals.serve(**scheduler);
  const Result<void> ended = (*scheduler)->run();
  signals.end();
  if (!ended) {
    return fail(ended.error());
  }
  log.line("info", "ended");
  return ExitCode::done;
}

}  // namespace

constinit const Command kSchedulerCommand{
    .name = "scheduler",
    .summary = "place the pods of a Kubernetes cluster on GPUs, by memory",
    .description =
        "Pods with `schedulerName: berth-scheduler` are placed on devices as their annotations and "
        "limits ask (docs/kubernetes.md). Node, devices and memory are decided together and "
        "written in one binding; nothing else is written of a pod that finds its place. What waits "
        "says why in its condition PodScheduled (`kubectl describe pod`).\n\n"
        "It keeps no state of its own: after a restart the books are made from pods and nodes. "
        "Pods of other schedulers on the same nodes are counted. Nobody is evicted.\n\n"
        "SIGTERM ends it; SIGHUP makes it read its queues again.\n\n"
        "Exit status: 0 ended as asked; 1 it could not start or go on, or lost its lease; 2 a word "
        "or a file is wrong.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_scheduler,
};

}  // namespace berth::cli
