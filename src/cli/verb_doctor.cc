#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/build_info.h"
#include "cli/daemon_client.h"
#include "cli/doctor_checks.h"
#include "cli/look.h"
#include "cli/usual_places.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    {.name = "--state",
     .kind = ValueKind::directory,
     .value = "DIR",
     .help = "the daemon's state directory (default: as of `berth serve`)"},
    {.name = "--guard",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "the guard library (default: beside this program)"},
    {.name = "--driver",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "NVIDIA's management library",
     .fallback = "libnvidia-ml.so.1"},
    kOutputOption,
    kAddressOption,
    kTokenFileOption,
    kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth doctor", "look at everything, and say how to mend what is wrong"},
    {"berth doctor -o json", "for a monitoring script; exit status 1 if something fails"},
};

std::string_view health_name(Health health) {
  switch (health) {
    case Health::ok: return "ok";
    case Health::warn: return "warn";
    case Health::fail: break;
  }
  return "fail";
}

Tone tone_of(Health health) {
  return health == Health::ok ? Tone::good : health == Health::warn ? Tone::busy : Tone::bad;
}

// `address`: of the daemon that answers, if one does.
Finding check_daemon(const Arguments& arguments, std::string& address) {
  Finding finding{.name = "daemon"};
  Result<DaemonClient> daemon = DaemonClient::open(arguments);
  if (!daemon) {
    finding.health =
        daemon.error().code() == ErrorCode::invalid_argument ? Health::fail : Health::warn;
    finding.text = "none answers";
    // The first line says what, the rest what to do.
    const std::string& why = daemon.error().message();
    if (const auto at = why.find('\n'); at == std::string::npos) {
      finding.text = why;
      finding.mend = "`berth serve` starts one; --address or BERTH_SOCKET names another";
    } else {
      finding.mend = "`berth serve` starts one; looked for at " +
                     fmt::format("{}", fmt::join(usual_addresses(), " and "));
    }
    return finding;
  }
  address = daemon->address();
  Result<net::Response> ready = daemon->wire().call({.target = "/readyz"});
  if (!ready) {
    finding.health = Health::fail;
    finding.text = ready.error().message();
    finding.mend = "see its log; `kill -TERM` and a new start lose nothing";
    return finding;
  }
  const Result<Value> health = daemon->get("/healthz");
  const std::string version(health ? health->text("version") : "");
  finding.text = fmt::format("{} answers, version {}", daemon->address(), version);
  if (ready->status != 200) {
    const Result<Value> body = json::parse(ready->body);
    const std::string why(body ? body->text("reason") : "");
    finding.health = Health::fail;
    finding.text += fmt::format(", but is not ready: {}", why.empty() ? "no reason given" : why);
    finding.mend =
        why == "ledger-unwritable"
            ? "its journal cannot be written: look at the disk of its state directory; it "
              "goes on by itself when that is mended"
            : "it has not seen its devices yet: look at the driver above and at its log";
    if (const std::string said(body ? body->text("message") : ""); !said.empty()) {
      finding.text += fmt::format(" ({})", said);
    }
    return finding;
  }
  if (const auto devices = daemon->list("/v1/devices", "devices");
      devices && !devices->empty() && std::ranges::all_of(*devices, [](const Value& device) {
        return device.text("reason") == "no-source";
      })) {
    finding.health = Health::fail;
    finding.text += ", but nothing measures the devices now: nothing new is granted";
    finding.mend = "look at the driver above, at the exporters it reads, and at its log";
    return finding;
  }
  finding.text += ", ready";
  if (version != kVersion) {
    finding.health = Health::warn;
    finding.text += fmt::format("; this program is version {}", kVersion);
    finding.mend = "start the daemon anew with the new version; nothing that runs is disturbed";
  }
  return finding;
}

std::string text_of_findings(const std::vector<Finding>& findings, const Look& look) {
  constexpr std::size_t kIndent = 15;
  const Wrap wrap{.width = look.columns, .indent = kIndent, .used = kIndent};
  std::string text;
  for (const Finding& finding : findings) {
    text +=
        toned(fmt::format("{:<4}", health_name(finding.health)), tone_of(finding.health), look) +
        fmt::format("  {:<8} ", finding.name) + wrapped(printable(finding.text), wrap) + "\n";
    if (!finding.mend.empty()) {
      text += std::string(kIndent, ' ') +
              toned(wrapped(printable(finding.mend), wrap), Tone::faint, look) + "\n";
    }
  }
  return text;
}

Value value_of(const std::vector<Finding>& findings, int failed, int warned) {
  json::Array checks;
  for (const Finding& finding : findings) {
    checks.push_back(
        json::object({{"name", finding.name},
                      {"health", health_name(finding.health)},
                      {"text", finding.text},
                      {"mend", finding.mend.empty() ? Value() : Value(finding.mend)}}));
  }
  return json::object({{"checks", std::move(checks)}, {"failed", failed}, {"warnings", warned}});
}

ExitCode run_doctor(const Arguments& arguments, Console& console) {
  const int gpus = pci_gpu_count();
  std::vector<Finding> findings{
      check_driver(*arguments.value("--driver"), gpus),
      check_device_files(gpus),
      check_guard(arguments.value("--guard").value_or(default_guard_library())),
  };
  std::string address;
  findings.push_back(check_daemon(arguments, address));
  findings.push_back(check_clock());
  // Of the machine's daemon, disk and limits are its own user's, whom they are shown.
  const bool others = address == "unix:" + std::string(kMachineSocket) && geteuid() != 0;
  if (!others || arguments.has("--state")) {
    findings.push_back(
        check_state_directory(arguments.value("--state").value_or(default_state_directory())));
  }
  if (!others) {
    findings.push_back(check_open_files());
  }
  findings.push_back(check_cgroup());
  int failed = 0;
  int warned = 0;
  for (const Finding& finding : findings) {
    failed += finding.health == Health::fail ? 1 : 0;
    warned += finding.health == Health::warn ? 1 : 0;
  }
  const std::string format = *arguments.value("--output");
  if (format == "table") {
    const Look look = look_of(console);
    console.out << text_of_findings(findings, look);
  } else {
    console.out << text_of(value_of(findings, failed, warned), format);
  }
  return failed == 0 ? ExitCode::done : ExitCode::failed;
}

}  // namespace

constinit const Command kDoctorCommand{
    .name = "doctor",
    .summary = "look at driver, devices, guard, daemon, clock and disk, and say how to mend them",
    .description =
        "Run it as the user whose programs do not start, and once as the user of the daemon. It "
        "needs neither a GPU nor a daemon, and changes nothing.\n\n"
        "Exit status: 0 nothing fails (there may be warnings); 1 something does.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_doctor,
};

}  // namespace berth::cli
