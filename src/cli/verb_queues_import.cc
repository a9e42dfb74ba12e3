#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/simulate_words.h"
#include "cli/verbs.h"
#include "config/import.h"
#include "config/queue_writer.h"
#include "sim/files.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--output",
     .letter = 'o',
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "write the queue file here instead of to standard output"},
};

constexpr Example kExamples[] = {
    {"kubectl get clusterqueues,cohorts,localqueues,resourceflavors -A -o yaml > kueue.yaml\n"
     "  berth queues import kueue.yaml -o queues.yaml",
     "the queues of Kueue; what has no equal is listed"},
    {"kubectl get queues.scheduling.run.ai -o yaml > kai.yaml\n"
     "  berth queues import kai.yaml | less",
     "the queues of KAI"},
};

ExitCode import_queues(const Arguments& arguments, Console& console) {
  std::vector<config::ManifestText> manifests;
  for (const std::string& path : arguments.operands()) {
    Result<std::string> text = sim::read_input_file(path);
    if (!text.ok()) return report_error(console, "queues import", text.error());
    manifests.push_back({.file = path, .text = *std::move(text)});
  }
  const Result<config::Import> import = config::import_manifests(manifests);
  if (!import.ok()) {
    console.err << printable_lines(import.error().message()) << "\n";
    return ExitCode::usage;
  }
  for (const std::string& remark : import->remarks)
    console.err << printable(remark) << "\n";
  std::string sources;
  for (const std::string& path : arguments.operands())
    sources += " " + printable(path);
  const std::string text =
      config::queue_file_text(import->config, "Written by berth queues import from" + sources);
  Result<std::optional<sim::OutputFile>> output = open_output(arguments.value("--output"));
  if (!output.ok()) return report_error(console, "queues import", output.error());
  if (!*output) {
    console.out << text;
    return ExitCode::done;
  }
  Result<void> written = (*output)->write(text);
  if (written.ok()) written = (*output)->commit();
  if (!written.ok()) return report_error(console, "queues import", written.error());
  console.err << "berth queues import: " << import->config.queues.size() << " queues written to "
              << printable((*output)->path()) << ", " << import->remarks.size() << " remarks\n";
  return ExitCode::done;
}

}  // namespace

constinit const Command kQueuesImportCommand{
    .name = "queues import",
    .summary = "turn the queues of Kueue or KAI into a queue file",
    .description =
        "Reads manifests of Kueue (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, "
        "WorkloadPriorityClass) and of KAI (Queue of scheduling.run.ai/v2), lists too, and writes "
        "a queue file (docs/queues.md). Each value that has no equal there, or whose meaning "
        "changes, is named on standard error with its place, object, path and why: nothing is "
        "dropped silently.",
    .options = kOptions,
    .operand = {.name = "FILE",
                .help = "manifests, YAML or JSON",
                .kind = ValueKind::file,
                .required = true,
                .repeats = true},
    .examples = kExamples,
    .run = import_queues,
};

}  // namespace berth::cli
