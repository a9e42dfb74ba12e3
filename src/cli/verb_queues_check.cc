#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/fleet_words.h"
#include "cli/queues_view.h"
#include "cli/verbs.h"
#include "config/queue_file.h"
#include "config/queue_plan.h"
#include "scenario/script.h"
#include "sim/files.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--fleet",
     .kind = ValueKind::file,
     .value = "FLEET",
     .help = "SPEC (8x80GiB:H100, n1=2x16GiB,n2=2x16GiB), or a YAML file with a section `fleet:`; "
             "default: the `fleet:` of the first FILE"},
    kOutputOption,
};

constexpr Example kExamples[] = {
    {"berth queues check queues.yaml --fleet n1=8x80GiB:H100,n2=8x80GiB:H100",
     "what every queue is entitled to on two machines"},
    {"berth queues check queues.yaml --fleet fleet.yaml -o json", "the same for a script"},
};

Result<std::vector<core::Node>> fleet_of(const Arguments& arguments, const std::string& path,
                                         const std::string& text) {
  if (const auto option = arguments.value("--fleet")) return fleet_from(*option);
  auto fleet = scenario::parse_fleet(text, path);
  if (fleet.ok()) return fleet;
  return invalid_argument(fleet.error().message() +
                          "\nThe fleet is looked for there because --fleet is not given; it takes "
                          "SPEC (8x80GiB:H100), or a file with a section `fleet:`");
}

ExitCode refuse(Console& console, const std::string& message) {
  console.err << printable_lines(message) << "\n";
  return ExitCode::usage;
}

ExitCode check_queues(const Arguments& arguments, Console& console) {
  std::vector<std::string> texts;
  for (const std::string& path : arguments.operands()) {
    Result<std::string> text = sim::read_input_file(path);
    if (!text.ok()) return refuse(console, text.error().message());
    texts.push_back(*std::move(text));
  }
  const auto fleet = fleet_of(arguments, arguments.operands().front(), texts.front());
  if (!fleet.ok()) return refuse(console, fleet.error().message());
  config::QueueReader reader;
  for (std::size_t i = 0; i < texts.size(); ++i)
    reader.add_file(texts[i], arguments.operands()[i]);
  const config::QueueFile file = std::move(reader).finish(scenario::device_classes(*fleet));
  if (!file.complaints.empty()) console.err << printable_lines(file.text()) << "\n";
  if (file.refused()) return ExitCode::usage;
  const config::QueuePlan plan = config::plan_queues(file.config, *fleet);
  const std::string format = arguments.value("--output").value_or("table");
  if (format == "json") {
    console.out << queues_document(plan, file).json();
  } else if (format == "yaml") {
    console.out << queues_document(plan, file).yaml();
  } else {
    console.out << queues_table(plan);
  }
  return file.complaints.empty() ? ExitCode::done : ExitCode::failed;
}

}  // namespace

constinit const Command kQueuesCheckCommand{
    .name = "queues check",
    .summary = "check a quota tree, and show what each queue is entitled to on a fleet",
    .description =
        "Reads queue files (docs/queues.md), says everything that is wrong with them, and shows "
        "for each queue and dimension what it deserves, its limit and what it is entitled to when "
        "everybody asks for everything; for the whole fleet, and for half of it.\n\n"
        "Exit status: 0 all is well; 1 some queue would be on hold (a circle of parents, a parent "
        "that does not exist); 2 a file is refused.",
    .options = kOptions,
    .operand = {.name = "FILE",
                .help = "queue files; several are one tree",
                .kind = ValueKind::file,
                .required = true,
                .repeats = true},
    .examples = kExamples,
    .run = check_queues,
};

}  // namespace berth::cli
