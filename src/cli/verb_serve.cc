#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/serve_options.h"
#include "cli/verbs.h"
#include "serve/daemon.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--config",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "the configuration (docs/administration.md); what is said here wins over it (default: "
             "/etc/berth/berth.yaml for root, if it is there; `none`: no file)"},
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
     .help = "placement where a queue or request names none (`berth policies` lists them; default: "
             "spread)"},
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
     .help = "how often the devices are looked at (default: 1s)"},
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

// Tells systemd, if it asked to be told ($NOTIFY_SOCKET, a path or an abstract name).
void tell_systemd(std::string_view state) {
  const char* place = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (place == nullptr || (place[0] != '/' && place[0] != '@') ||
      std::strlen(place) >= sizeof(address.sun_path)) {
    return;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, place, std::strlen(place));
  if (place[0] == '@') {
    address.sun_path[0] = '\0';
  }
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return;
  }
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(place));
  ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address), length);
  ::close(fd);
}

ExitCode run_serve(const Arguments& arguments, Console& console) {
  ServeLog log(console);
  const auto fail = [&](const Error& error) {
    console.err << log.mark("error") << "berth serve: " << printable_lines(error.to_string())
                << "\n";
    return error.code() == ErrorCode::invalid_argument ? ExitCode::usage : ExitCode::failed;
  };
  Result<serve::DaemonOptions> options = serve_options(arguments, log);
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
    log.line("info", "listening on " + address);
  }
  log.line("info", fmt::format("state in {}; limits are {}", state,
                               guard.empty() ? std::string("advisory: no guard library was found")
                                             : "held by " + guard));
  tell_systemd("READY=1");
  const Result<void> ended = (*daemon)->run();
  tell_systemd("STOPPING=1");
  signals.end();
  if (!ended) {
    return fail(ended.error());
  }
  log.line("info", "ended");
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
        "SIGHUP makes it read configuration, tokens, certificate and queues again, and say what "
        "changed.\n\n"
        "Exit status: 0 ended as asked; 1 it could not start or go on; 2 a word or a file is "
        "wrong.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_serve,
};

}  // namespace berth::cli
