// berth config check, berth config fields.
#include <ostream>
#include <string>
#include <vector>

#include "base/printable.h"
#include "cli/serve_options.h"
#include "cli/verbs.h"
#include "config/daemon_file.h"

namespace berth::cli {

namespace {

constexpr Example kCheckExamples[] = {
    {"berth config check /etc/berth/berth.yaml", "before a restart or a reload"},
    {"berth config check", "the file that the daemon of this user would read"},
};

constexpr Example kFieldsExamples[] = {
    {"berth config fields", "every key, with its meaning and an example"},
};

ExitCode check_config(const Arguments& arguments, Console& console) {
  std::string path;
  if (!arguments.operands().empty()) {
    path = arguments.operands().front();
  } else if (const auto found = default_config_file()) {
    path = *found;
  } else {
    console.err << "# no file: these are the defaults\n";
    console.out << config::daemon_file_text(effective({}));
    return ExitCode::done;
  }
  const Result<config::DaemonFile> file = load_daemon_file(path);
  if (!file) {
    console.err << printable_lines(file.error().message()) << "\n";
    return ExitCode::usage;
  }
  const std::vector<std::string> complaints = check_named(*file, path);
  for (const std::string& complaint : complaints) {
    console.err << printable_lines(complaint) << "\n";
  }
  if (!complaints.empty()) {
    return ExitCode::usage;
  }
  console.out << config::daemon_file_text(effective(file->config));
  return ExitCode::done;
}

ExitCode print_fields(const Arguments& /*arguments*/, Console& console) {
  console.out << config::kDaemonReferenceMarker << "\n\n" << config::daemon_reference_text();
  return ExitCode::done;
}

}  // namespace

constinit const Command kConfigCheckCommand{
    .name = "config check",
    .summary = "check a daemon's configuration file, and print what it comes to",
    .description =
        "Says everything that is wrong with the file, each with its line and column, and looks at "
        "what it names: addresses, users, tokens, certificates, queues. If all is well it prints "
        "every key with its value, as a file that means the same.\n\n"
        "Exit status: 0 all is well; 2 something is wrong.",
    .operand = {.name = "FILE",
                .help = "default: /etc/berth/berth.yaml for root, if it is there",
                .kind = ValueKind::file},
    .examples = kCheckExamples,
    .run = check_config,
};

constinit const Command kConfigFieldsCommand{
    .name = "config fields",
    .summary = "print every key of a daemon's configuration file",
    .examples = kFieldsExamples,
    .run = print_fields,
};

}  // namespace berth::cli
