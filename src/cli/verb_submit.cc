#include <ostream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "cli/daemon_client.h"
#include "cli/ensure_daemon.h"
#include "cli/place_options.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    kGpuMemoryOption,
    kLimitOption,
    kGpusOption,
    kFractionOption,
    kMigProfileOption,
    {.name = "--name", .kind = ValueKind::text, .value = "NAME", .help = "shown beside its ID"},
    {.name = "--after",
     .kind = ValueKind::list,
     .value = "ID[,ID]",
     .help = "only when these jobs or arrays have succeeded; cancelled if one has not"},
    {.name = "--after-any",
     .kind = ValueKind::list,
     .value = "ID[,ID]",
     .help = "only when these are over, however they ended"},
    {.name = "--array",
     .kind = ValueKind::text,
     .value = "RANGE",
     .help = "one job for each number, in BERTH_ARRAY_INDEX: 0-15, or 0-15%4 for four at once"},
    kQueueOption,
    kPriorityOption,
    {.name = "--preemptible",
     .help = "may be ended for work that its queue owes a place; it is then queued again"},
    kWaitTimeoutOption,
    kTimeOption,
    kGraceOption,
    kNoGuardOption,
    kOutputOption,
    kAddressOption,
    kTokenFileOption,
    kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth submit --gpu-memory 4Gi --name train -- python train.py",
     "runs when there is room; prints its ID"},
    {"berth submit --gpu-memory 4Gi --array 0-15%4 -- python fold.py",
     "sixteen jobs, at most four at once, told apart by BERTH_ARRAY_INDEX"},
    {"berth submit --gpu-memory 8Gi --after j-0001 -- python evaluate.py",
     "when j-0001 has succeeded"},
};

Value words(const std::vector<std::string>& list) {
  json::Array array;
  for (const std::string& word : list) {
    array.emplace_back(word);
  }
  return array;
}

// "j-1,j-2" as words.
std::vector<std::string> ids_of(std::string_view text) {
  std::vector<std::string> ids;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (end > 0) {
      ids.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ids;
}

Value own_environment() {
  json::Array variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  return variables;
}

Result<Value> body_of(const Arguments& arguments) {
  if (arguments.has("--after") && arguments.has("--after-any")) {
    return invalid_argument(
        "--after and --after-any cannot be combined: one rule holds for all that it follows");
  }
  TRY(RunPlan plan, read_run_plan(arguments, "-"));
  json::Object fields;
  for (auto& [name, value] : plan.reservation.object()) {
    if (name != "key") {
      fields.emplace_back(name, std::move(value));
    }
  }
  std::string folder(4096, '\0');
  if (getcwd(folder.data(), folder.size()) == nullptr) {
    return Error{ErrorCode::unavailable,
                 "the working directory is gone: change to one that exists, and submit again"};
  }
  folder.resize(folder.find('\0'));
  const mode_t mask = umask(0);
  umask(mask);
  const bool any = arguments.has("--after-any");
  return json::object(
      {{"name", arguments.value("--name").value_or("")},
       {"command", words(plan.command)},
       {"environment", own_environment()},
       {"directory", folder},
       {"umask", mask},
       {"after", words(ids_of(arguments.value(any ? "--after-any" : "--after").value_or("")))},
       {"after_rule", any ? "any" : "ok"},
       {"array", arguments.value("--array").value_or("")},
       {"grace_seconds", (plan.grace.count() + 999) / 1000},
       {"lease", Value(std::move(fields))}});
}

ExitCode run_submit(const Arguments& arguments, Console& console) {
  const Result<Value> body = body_of(arguments);
  if (!body) {
    return fail("submit", body.error(), console);
  }
  // Like `berth run` it starts a daemon where there is none, unless one was named.
  if (!arguments.has(kAddressOption.name)) {
    const Result<DaemonFound> found = ensure_daemon({});
    if (!found) {
      return fail("submit", found.error(), console);
    }
    if (found->started) {
      console.err << fmt::format("no daemon ran here: started one at {} (log: {})\n",
                                 found->address, found->log);
    }
  }
  Result<DaemonClient> daemon = DaemonClient::open(arguments);
  if (!daemon) {
    return fail("submit", daemon.error(), console);
  }
  const Result<Value> answer = daemon->send("POST", "/v1/jobs", *body);
  if (!answer) {
    return fail("submit", answer.error(), console);
  }
  const std::string format = *arguments.value("--output");
  if (format != "table") {
    console.out << text_of(*answer, format);
    return ExitCode::done;
  }
  // The ID alone on stdout, so that a script can take it.
  const Value* jobs = answer->find("jobs");
  if (jobs == nullptr || !jobs->is_array() || jobs->as_array().empty()) {
    return fail("submit", Error{ErrorCode::internal, "the daemon named no job"}, console);
  }
  const Value& first = jobs->as_array().front();
  const std::string_view array = first.text("array");
  console.out << (array.empty() ? first.text("id") : array) << "\n";
  if (console.err_is_terminal) {
    console.err << fmt::format("{}; `berth logs -f {}` shows what it prints\n",
                               array.empty() ? std::string(first.text("state"))
                                             : fmt::format("{} jobs", jobs->as_array().size()),
                               first.text("id"));
  }
  return ExitCode::done;
}

}  // namespace

constinit const Command kSubmitCommand{
    .name = "submit",
    .summary = "queue a program that runs on a GPU as soon as there is room",
    .description =
        "Environment, working directory and umask are recorded; the program runs later as if "
        "started here and now, without a terminal. What it prints is kept: `berth logs ID`. It "
        "survives a restart of the daemon, running or waiting. Ended to make room for others, it "
        "is queued again and keeps its age.\n\n"
        "--after waits until all of these jobs have succeeded (exit status 0); if one of them ends "
        "otherwise, this one is cancelled. --after-any waits until they are over. The ID of an "
        "array stands for all its elements.\n\n"
        "Prints the ID. `berth wait ID` waits for the end, `berth ps` lists, `berth cancel ID` "
        "ends it.",
    .options = kOptions,
    .operand = {.name = "COMMAND",
                .help = "the program and its words; write -- before it",
                .kind = ValueKind::file,
                .required = true,
                .repeats = true,
                .is_command = true},
    .examples = kExamples,
    .run = run_submit,
};

}  // namespace berth::cli
