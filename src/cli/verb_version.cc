#include <ostream>

#include "cli/build_info.h"
#include "cli/verbs.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {kOutputOption};

constexpr Example kExamples[] = {
    {"berth version", "name, version and revision"},
    {"berth version -o json", "the same for a script or a bug report"},
};

// None of the values contains a character that JSON or YAML would have to escape.
ExitCode print_version(const Arguments& arguments, Console& console) {
  const std::string format = arguments.value("--output").value_or("table");
  if (format == "json") {
    console.out << "{\"version\":\"" << kVersion << "\",\"revision\":\"" << kRevision
                << "\",\"compiler\":\"" << kCompiler << "\"}\n";
  } else if (format == "yaml") {
    console.out << "version: \"" << kVersion << "\"\nrevision: \"" << kRevision
                << "\"\ncompiler: \"" << kCompiler << "\"\n";
  } else {
    console.out << "berth " << kVersion << " (" << kRevision << ")\n";
  }
  return ExitCode::done;
}

}  // namespace

constinit const Command kVersionCommand{
    .name = "version",
    .summary = "print version and revision",
    .options = kOptions,
    .examples = kExamples,
    .run = print_version,
};

}  // namespace berth::cli
