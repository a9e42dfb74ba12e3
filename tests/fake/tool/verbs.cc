#include "fake/tool/verbs.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "base/printable.h"
#include "fake/tool/dump.h"
#include "fake/tool/machine.h"
#include "fake/tool/opened.h"

namespace berth::fake::tool {

namespace {

constexpr OptionRule kState = {"--state", "FILE", "the state file; without it BERTH_FAKE_STATE"};

constexpr OptionRule kInitOptions[] = {
    kState,
    {"--driver", "LINE", "driver line: 495, 535 (default), 570, 580, 615, future"},
    {"--node", "NAME", "which node of SPEC this machine is; default the first"},
    {"--context-bytes", "SIZE", "what a context takes; default 128MiB"},
    {"--reserve", "SIZE", "what the driver keeps of each device; default 0.7 %"},
    {"--fork-works", "", "let a forked child use the driver (a real one refuses)"},
};
constexpr OptionRule kDumpOptions[] = {kState, {"-o", "FORMAT", "table (default) or json"}};

constexpr OptionRule kFailOptions[] = {
    kState,
    {"--code", "N", "what the call returns (default 999) instead of being done"},
    {"--nth", "N", "the Nth call from now on; default 1, the next"},
    {"--times", "N", "how many calls from the Nth on are hit; 0 = all; default 1"},
    {"--probability", "P", "instead: each call with this probability, e.g. 0.01"},
    {"--seed", "N", "of the probability; the same seed hits the same calls"},
    {"--delay-us", "N", "delay the call, then do it"},
    {"--hang", "", "never return"},
    {"--kill", "", "SIGKILL the caller"},
    {"--poison", "", "fill the out-parameters with garbage and return --code"},
    {"--clear", "", "forget the rules of FUNCTION, or all without FUNCTION"},
};
constexpr OptionRule kXidOptions[] = {
    kState, {"--contexts", "", "contexts on the device fail from now on, as after a fatal error"}};
constexpr OptionRule kLoseOptions[] = {kState,
                                       {"--bus", "", "fallen off the bus: Xid 79 too"},
                                       {"--back", "", "the device is there again"}};
constexpr OptionRule kForeignOptions[] = {
    kState,
    {"--device", "DEVICE", "index or UUID; default 0"},
    {"--graphics", "", "a graphics process, not a compute one"},
    {"--name", "NAME", "what nvidia-smi calls it"}};
constexpr OptionRule kReloadOptions[] = {
    kState,
    {"--driver", "LINE", "another driver line from now on"},
    {"--order", "LIST", "new numbers of the GPUs, e.g. 1,0"},
    {"--force", "", "although processes use the driver: their memory is gone"}};
constexpr OptionRule kStateOnly[] = {kState};

constexpr Verb kVerbs[] = {
    {{"init", "SPEC", 1, 1, "make the machine's state file, e.g. 2x16GiB or 8x80GiB:H100",
      kInitOptions},
     init},
    {{"dump", "", 0, 0, "print what every process holds: the truth", kDumpOptions}, dump},
    {{"fail", "FUNCTION", 0, 1, "make calls of FUNCTION ('*' = any) fail, hang, wait or kill",
      kFailOptions},
     fail},
    {{"xid", "DEVICE CODE", 2, 2, "report an Xid error of a device", kXidOptions}, xid},
    {{"lose", "DEVICE", 1, 1, "lose a device: its contexts fail, NVML says that it is lost",
      kLoseOptions},
     lose},
    {{"foreign", "PID BYTES", 2, 2, "memory of a process that is no client; 0 bytes ends it",
      kForeignOptions},
     foreign},
    {{"driver-reload", "", 0, 0, "reload the driver: what runs must start anew", kReloadOptions},
     reload},
    {{"mig", "DEVICE enable|disable|create|destroy [PROFILE]", 2, 3,
      "cut a GPU into MIG instances; DEVICE is the instance for destroy", kStateOnly},
     mig},
    {{"set", "KEY=VALUE", 1, 1,
      "launch-time=250us, call-cost=1us, count=on, log=on, context-bytes=SIZE,\n"
      "      compute-mode=default|exclusive|prohibited, limits=dmem|misc|off, fork-works=on",
      kStateOnly},
     set},
    {{"log", "", 0, 0, "what programs asked cuGetProcAddress for, after set log=on", kStateOnly},
     log},
};

}  // namespace

std::span<const Verb> all_verbs() { return kVerbs; }

Result<std::string> state_path(const Words& words) {
  if (auto path = words.text("--state")) return *path;
  const char* path = std::getenv("BERTH_FAKE_STATE");
  if (path != nullptr && *path != '\0') return std::string(path);
  return invalid_argument("no state file is named; set BERTH_FAKE_STATE or give --state FILE");
}

Result<std::unique_ptr<Books>> opened(const Words& words) {
  TRY(const std::string path, state_path(words));
  const char* why = nullptr;
  std::unique_ptr<Books> books(Books::open_path(path.c_str(), &why));
  if (books == nullptr) {
    return Error(ErrorCode::unavailable, fmt::format("{}: {}", printable(path), why));
  }
  return books;
}

Result<void> init(const Words& words) {
  Machine machine;
  machine.spec = words.operands()[0];
  TRY(machine.path, state_path(words));
  if (auto driver = words.text("--driver")) machine.driver = *driver;
  if (auto node = words.text("--node")) machine.node = *node;
  if (words.has("--context-bytes")) {
    TRY(machine.context_bytes, words.size("--context-bytes", 0));
  }
  if (words.has("--reserve")) {
    TRY(machine.reserved, words.size("--reserve", 0));
  }
  machine.fork_works = words.has("--fork-works");
  TRY(const std::string line, make_machine(machine));
  (void)std::fputs(line.c_str(), stderr);
  return success();
}

Result<void> dump(const Words& words) {
  const std::string format = words.text("-o").value_or("table");
  if (format != "table" && format != "json") {
    return invalid_argument(
        fmt::format("-o '{}' is unknown; known are table and json", printable(format)));
  }
  TRY(const std::unique_ptr<Books> books, opened(words));
  const std::string text = format == "json" ? dump_json(*books) : dump_table(*books);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return Error(ErrorCode::unavailable, "standard output cannot be written");
  }
  return success();
}

}  // namespace berth::fake::tool
