#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <ostream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/build_info.h"
#include "cli/fleet_words.h"
#include "cli/simulate_words.h"
#include "cli/usual_places.h"
#include "cli/verbs.h"
#include "config/queue_file.h"
#include "config/value.h"
#include "scenario/script.h"
#include "serve/daemon.h"
#include "sim/files.h"
#include "sim/words.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--listen",
     .kind = ValueKind::text,
     .value = "ADDRESS",
     .help = "unix:/path, or host:port with TLS and tokens; may be given often (default: "
             "/run/berth/berth.sock for root, else $XDG_RUNTIME_DIR/berth/berth.sock)",
     .repeats = true},
    {.name = "--state",
     .kind = ValueKind::directory,
     .value = "DIR",
     .help = "the journal (default: /var/lib/berth for root, else ~/.local/state/berth)"},
    {.name = "--queues",
     .kind = ValueKind::file,
     .value = "FILE[,FILE]",
     .help = "the quota tree (docs/queues.md)"},
    {.name = "--policy",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "placement where a queue or request names none (`berth policies` lists them)",
     .fallback = "spread"},
    {.name = "--node",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "this machine's name in the fleet (default: its host name; with --simulate the first "
             "node of SPEC)"},
    {.name = "--simulate",
     .kind = ValueKind::text,
     .value = "SPEC",
     .help = "devices that are not there: 2x16GiB, 8x80GiB:H100, n1=2x16GiB,n2=4x80GiB, or a YAML "
             "file with a section `fleet:`"},
    {.name = "--simulate-clock",
     .kind = ValueKind::choice,
     .value = "CLOCK",
     .help = "with --simulate: manual stands until POST /v1/simulated/clock",
     .fallback = "real",
     .choices = [] { return std::vector<std::string>{"real", "manual"}; }},
    {.name = "--sampling",
     .kind = ValueKind::text,
     .value = "TIME",
     .help = "how often the devices are looked at",
     .fallback = "1s"},
    {.name = "--nvml",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "the driver's library (default: libnvidia-ml.so.1; `none`: the driver is not asked)"},
    {.name = "--dcgm",
     .kind = ValueKind::text,
     .value = "URL",
     .help = "a page of dcgm-exporter, for devices that the driver here does not see; may be given "
             "often",
     .repeats = true},
    {.name = "--prometheus",
     .kind = ValueKind::text,
     .value = "URL",
     .help = "a Prometheus that scrapes dcgm-exporter: http://host:9090"},
    {.name = "--tokens",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "who may come over TCP (docs/administration.md)"},
    {.name = "--tls-certificate", .kind = ValueKind::file, .value = "FILE", .help = "PEM"},
    {.name = "--tls-key", .kind = ValueKind::file, .value = "FILE", .help = "PEM"},
    {.name = "--plain-loopback",
     .help = "allow TCP without TLS on 127.0.0.1 and ::1; tokens are still needed"},
    {.name = "--guard",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "library that holds the limits inside of programs (default: beside this program; "
             "`none`: limits are advisory)"},
};

constexpr Example kExamples[] = {
    {"berth serve", "on a machine with GPUs"},
    {"berth serve --simulate 2x16GiB --listen unix:/tmp/berth.sock --state /tmp/berth",
     "two GPUs that are not there, to try it on any machine"},
    {"berth serve --listen unix:/run/berth/berth.sock --listen 0.0.0.0:7443 --tokens "
     "/etc/berth/tokens --tls-certificate /etc/berth/tls.pem --tls-key /etc/berth/tls.key",
     "for workflow engines on other machines too"},
};

Result<core::QueueConfig> read_queues(const std::string& files,
                                      const std::vector<std::string>& classes, Console& console) {
  config::QueueReader reader;
  for (const std::string_view path : sim::split_at(files, ',')) {
    TRY(const std::string text, sim::read_input_file(std::string(path)));
    reader.add_file(text, std::string(path));
  }
  config::QueueFile file = std::move(reader).finish(classes);
  if (file.refused()) {
    return file.refusals();
  }
  if (!file.complaints.empty()) {
    console.err << printable_lines(file.text()) << "\n";
  }
  return std::move(file.config);
}

core::Node this_machine(std::string name) {
  core::Node node;
  if (name.empty()) {
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    name = host;
  }
  node.name = std::move(name);
  node.cpu = Milli{std::max<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1) * 1000};
  node.ram = Memory::bytes(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE));
  node.pod_slots = 1'000'000;
  return node;
}

void log_line(Console& console, std::string_view level, std::string_view text) {
  static std::mutex mutex;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  const std::lock_guard lock(mutex);
  console.err << fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z {} {}\n", parts.tm_year + 1900,
                             parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                             parts.tm_sec, level, printable(text))
              << std::flush;
}

Result<serve::DaemonOptions> options_from(const Arguments& arguments, Console& console) {
  serve::DaemonOptions options;
  options.version = std::string(kVersion);
  options.log = [&console](std::string_view level, std::string_view text) {
    log_line(console, level, text);
  };
  options.server.listen = arguments.values("--listen");
  if (options.server.listen.empty()) {
    options.server.listen.push_back("unix:" + own_socket());
    std::error_code error;
    std::filesystem::create_directories(
        std::filesystem::path(options.server.listen.front().substr(5)).parent_path(), error);
  }
  for (std::string& address : options.server.listen) {
    if (address.starts_with("unix:") && !address.starts_with("unix:/")) {
      address = "unix:" + std::filesystem::absolute(address.substr(5)).string();
    }
  }
  options.server.inherited = net::take_inherited_sockets();
  // A shell's 1024 would leave no room for a thousand who wait with a long poll and a stream each.
  net::raise_open_files(2 * options.server.max_connections);
  options.server.token_file = arguments.value("--tokens").value_or("");
  options.server.certificate_file = arguments.value("--tls-certificate").value_or("");
  options.server.key_file = arguments.value("--tls-key").value_or("");
  options.server.allow_plain_loopback = arguments.has("--plain-loopback");
  options.state_directory = arguments.value("--state").value_or(default_state_directory());
  TRY(options.sampling, config::parse_duration(*arguments.value("--sampling")));
  options.service.engine.policy = *arguments.value("--policy");
  options.service.engine.max_sample_age = Duration(3 * options.sampling.count());
  std::string name = arguments.value("--node").value_or("");
  std::vector<std::string> classes;
  if (const auto spec = arguments.value("--simulate")) {
    TRY(options.simulated, fleet_from(*spec, "--simulate"));
    classes = scenario::device_classes(*options.simulated);
    if (name.empty() && !options.simulated->empty()) {
      name = options.simulated->front().name;
    }
    options.manual_clock = arguments.value("--simulate-clock") == "manual";
  } else if (arguments.value("--simulate-clock") == "manual") {
    return invalid_argument("--simulate-clock manual goes with --simulate");
  }
  const std::string nvml = arguments.value("--nvml").value_or("");
  options.sources.use_nvml = nvml != "none";
  if (!nvml.empty() && options.sources.use_nvml) {
    options.sources.nvml.library = nvml;
  }
  options.sources.dcgm = arguments.values("--dcgm");
  options.sources.prometheus = arguments.value("--prometheus").value_or("");
  options.node = this_machine(name);
  if (options.simulated.has_value()) {
    for (const core::Node& node : *options.simulated) {
      if (node.name == name) {
        options.node = node;
        options.node.devices.clear();
        options.node.links.clear();
      }
    }
  }
  options.service.node = options.node.name;
  if (const auto files = arguments.value("--queues")) {
    options.read_queues = [files = *files, classes, &console] {
      return read_queues(files, classes, console);
    };
    TRY(options.service.queues, options.read_queues());
  }
  options.guard_library = arguments.value("--guard").value_or(default_guard_library());
  if (options.guard_library == "none") {
    options.guard_library.clear();
  }
  return options;
}

// SIGTERM and SIGINT end the daemon, SIGHUP makes it read its files again.
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

  void serve(serve::Daemon& daemon) {
    thread_ = std::thread([this, &daemon] {
      while (true) {
        int signal = 0;
        sigwait(&set_, &signal);
        if (signal == SIGUSR2) {
          return;
        }
        if (signal == SIGHUP) {
          daemon.reload();
        } else {
          daemon.stop();
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

ExitCode run_serve(const Arguments& arguments, Console& console) {
  const auto fail = [&](const Error& error) {
    console.err << "berth serve: " << printable_lines(error.to_string()) << "\n";
    return error.code() == ErrorCode::invalid_argument ? ExitCode::usage : ExitCode::failed;
  };
  Result<serve::DaemonOptions> options = options_from(arguments, console);
  if (!options) {
    return fail(options.error());
  }
  Signals signals;
  const std::string state = options->state_directory;
  const std::string guard = options->guard_library;
  Result<std::unique_ptr<serve::Daemon>> daemon = serve::Daemon::start(std::move(*options));
  if (!daemon) {
    return fail(daemon.error());
  }
  signals.serve(**daemon);
  for (const std::string& address : (*daemon)->addresses()) {
    log_line(console, "info", "listening on " + address);
  }
  log_line(console, "info",
           fmt::format("state in {}; limits are {}", state,
                       guard.empty() ? std::string("advisory: no guard library was found")
                                     : "held by " + guard));
  const Result<void> ended = (*daemon)->run();
  signals.end();
  if (!ended) {
    return fail(ended.error());
  }
  log_line(console, "info", "ended");
  return ExitCode::done;
}

}  // namespace

constinit const Command kServeCommand{
    .name = "serve",
    .summary = "grant GPU memory to programs of this machine and to workflow engines",
    .description =
        "One daemon keeps the books of this machine's GPUs: what was promised to whom, what the "
        "driver reports, what is left. Programs ask through `berth run`, workflow engines over "
        "HTTP (docs/api.md). Every promise is on disk before its answer leaves; after a crash "
        "the books are as they were.\n\n"
        "Over the Unix socket a caller is who the kernel says; over TCP there is TLS, and a "
        "bearer token for every call.\n\n"
        "SIGTERM ends it (running programs go on, and are known again after the next start); "
        "SIGHUP makes it read tokens, certificate and queues again.\n\n"
        "Exit status: 0 ended as asked; 1 it could not start or go on; 2 a word or a file is "
        "wrong.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_serve,
};

}  // namespace berth::cli
