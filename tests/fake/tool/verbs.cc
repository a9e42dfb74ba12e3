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

constexpr Verb kVerbs[] = {
    {{"init", "SPEC", 1, 1, "make the machine's state file, e.g. 2x16GiB or 8x80GiB:H100",
      kInitOptions},
     init},
    {{"dump", "", 0, 0, "print what every process holds: the truth", kDumpOptions}, dump},
};

}  // namespace

std::span<const Verb> all_verbs() { return kVerbs; }

Result<std::string> state_path(const Words& words) {
  if (auto path = words.text("--state")) return *path;
  const char* path = std::getenv("BERTH_FAKE_STATE");
  if (path != nullptr && *path != '\0') return std::string(path);
  return invalid_argument("no state file is named; set BERTH_FAKE_STATE or give --state FILE");
}

Result<Books*> opened(const Words& words) {
  TRY(const std::string path, state_path(words));
  const char* why = nullptr;
  Books* books = Books::open_path(path.c_str(), &why);
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
  TRY(Books * books, opened(words));
  const std::string text = format == "json" ? dump_json(*books) : dump_table(*books);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return Error(ErrorCode::unavailable, "standard output cannot be written");
  }
  return success();
}

}  // namespace berth::fake::tool
