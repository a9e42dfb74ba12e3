#include <ostream>

#include "cli/verbs.h"
#include "config/queue_file.h"

namespace berth::cli {

namespace {

constexpr Example kExamples[] = {
    {"berth queues fields", "every field of a queue file, with its meaning and an example"},
};

ExitCode print_fields(const Arguments& /*arguments*/, Console& console) {
  console.out << config::kQueueReferenceMarker << "\n\n" << config::queue_reference_text();
  return ExitCode::done;
}

}  // namespace

constinit const Command kQueuesFieldsCommand{
    .name = "queues fields",
    .summary = "print every field of a queue file",
    .examples = kExamples,
    .run = print_fields,
};

}  // namespace berth::cli
