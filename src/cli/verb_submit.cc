#include <ostream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/daemon_client.h"
#include "cli/ensure_daemon.h"
#include "cli/place_options.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"
#include "net/target.h"

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

// "j-1,j-2" as words. An empty one is a script's variable that was not set: a job that was to
// follow another must not start at once.
Result<std::vector<std::string>> ids_of(const Arguments& arguments, std::string_view option) {
  std::vector<std::string> ids;
  if (!arguments.has(option)) {
    return ids;
  }
  const std::string text = *arguments.value(option);
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    if (end == from) {
      return invalid_argument(
          fmt::format("{} '{}': an ID is empty; write the IDs of jobs or arrays with commas "
                      "between them, or leave {} out",
                      option, printable(text), option));
    }
    ids.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return ids;
}

// Requests are JSON, which is UTF-8: other bytes would come out as others.
Result<void> check_utf8(std::string_view what, std::string_view text) {
  if (net::is_utf8(text)) {
    return success();
  }
  return invalid_argument(
      fmt::format("{} is {}, which is not UTF-8 and cannot be recorded; rename it, or put the "
                  "words into a script and submit that",
                  what, printable(text)));
}

Value own_environment(Console& console) {
  json::Array variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    if (net::is_utf8(variable)) {
      variables.emplace_back(variable);
    } else {
      console.err << fmt::format(
          "berth submit: {} is not UTF-8: the job starts without this variable\n",
          printable(variable.substr(0, variable.find('='))));
    }
  }
  return variables;
}

Result<Value> body_of(const Arguments& arguments, Console& console) {
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
  TRY_VOID(check_utf8("the working directory", folder));
  TRY_VOID(check_utf8("--name", arguments.value("--name").value_or("")));
  for (const std::string& word : plan.command) {
    TRY_VOID(check_utf8("a word of COMMAND", word));
  }
  const mode_t mask = umask(0);
  umask(mask);
  const bool any = arguments.has("--after-any");
  TRY(const std::vector<std::string> after, ids_of(arguments, any ? "--after-any" : "--after"));
  if (arguments.has("--array") && arguments.value("--array")->empty()) {
    return invalid_argument(
        "--array '': write FIRST-LAST or FIRST-LAST%AT_ONCE, such as 0-15%4, or leave it out");
  }
  return json::object({{"name", arguments.value("--name").value_or("")},
                       {"command", words(plan.command)},
                       {"environment", own_environment(console)},
                       {"directory", folder},
                       {"umask", mask},
                       {"after", words(after)},
                       {"after_rule", any ? "any" : "ok"},
                       {"array", arguments.value("--array").value_or("")},
                       {"grace_seconds", (plan.grace.count() + 999) / 1000},
                       {"lease", Value(std::move(fields))}});
}

ExitCode run_submit(const Arguments& arguments, Console& console) {
  const Result<Value> body = body_of(arguments, console);
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
