#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/daemon_client.h"
#include "cli/job_client.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"
#include "net/target.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    {.name = "--key",
     .kind = ValueKind::text,
     .value = "KEY",
     .help = "the lease with exactly this key; may be given often",
     .repeats = true},
    {.name = "--if-gone",
     .help = "of a running lease: end it only when none of its processes is left"},
    {.name = "--reason", .kind = ValueKind::text, .value = "TEXT", .help = "kept with the lease"},
    kOutputOption,
    kAddressOption,
    kTokenFileOption,
    kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth cancel l-0004", "it leaves the queue, or gives back what it holds"},
    {"berth cancel --key airflow:d/r/t/-1/1", "where only the key is known"},
};

std::string sentence(const Value& answer, std::string_view words) {
  const Value* lease = answer.find("lease");
  if (lease == nullptr || !lease->is_object()) {
    return fmt::format("{}: nothing of that name is known; nothing was ended\n", words);
  }
  const std::string_view id = lease->text("id");
  const std::string_view state = lease->text("state");
  if (!answer.flag("released")) {
    return fmt::format("{} had ended already ({})\n", id, state);
  }
  if (state == "ending") {
    return fmt::format("{} ends when its last process has ended\n", id);
  }
  return state == "cancelled" ? fmt::format("{} has left the queue\n", id)
                              : fmt::format("{} is {}\n", id, state);
}

class Cancelling {
 public:
  Cancelling(const Arguments& arguments, DaemonClient& daemon)
      : arguments_(arguments), daemon_(daemon) {}

  Result<Value> by_id(const std::string& id) {
    // The call itself says nothing about unknown ids, which are success for hooks; people mistype.
    TRY(const Value lease, find_lease(daemon_, id));
    return daemon_.send("POST", "/v1/leases/" + net::percent_encoded(lease.text("id")) + "/release",
                        body());
  }

  Result<Value> by_key(const std::string& key) {
    Value request = body();
    request.set("key", key);
    return daemon_.send("POST", "/v1/release", request);
  }

 private:
  Value body() const {
    Value body = json::object({{"if_gone", arguments_.has("--if-gone")}});
    if (const auto reason = arguments_.value("--reason")) {
      body.set("reason", *reason);
    }
    return body;
  }

  const Arguments& arguments_;
  DaemonClient& daemon_;
};

ExitCode run_cancel(const Arguments& arguments, Console& console) {
  const std::vector<std::string> keys = arguments.values("--key");
  if (arguments.operands().empty() && keys.empty()) {
    return fail("cancel",
                invalid_argument("nothing is named: give an ID (`berth ps`) or --key KEY"),
                console);
  }
  Result<DaemonClient> daemon = DaemonClient::open(arguments);
  if (!daemon) {
    return fail("cancel", daemon.error(), console);
  }
  Cancelling cancelling(arguments, *daemon);
  const bool table = arguments.value("--output") == "table";
  ExitCode code = ExitCode::done;
  json::Array answers;
  const auto note_jobs = [&](const std::string& id) {
    Result<json::Array> jobs = find_jobs(*daemon, id);
    Result<Value> answer =
        jobs ? daemon->send("DELETE", "/v1/jobs/" + net::percent_encoded(id)) : jobs.error();
    if (!answer) {
      code = fail("cancel", answer.error(), console);
      return;
    }
    for (const Value& job : answer->find("jobs")->as_array()) {
      if (table) {
        console.out << fmt::format("{} is {}\n", job.text("id"), job.text("state"));
      }
      answers.push_back(job);
    }
  };
  // One that fails does not keep the others.
  const auto note = [&](const std::string& words, Result<Value> answer) {
    if (!answer) {
      code = fail("cancel", answer.error(), console);
      return;
    }
    if (table) {
      console.out << sentence(*answer, words);
    }
    answers.push_back(std::move(*answer));
  };
  for (const std::string& id : arguments.operands()) {
    if (is_job_id(id)) {
      note_jobs(id);
      continue;
    }
    note(id, cancelling.by_id(id));
  }
  for (const std::string& key : keys) {
    note(key, cancelling.by_key(key));
  }
  if (!table) {
    console.out << text_of(json::object({{"answers", std::move(answers)}}),
                           *arguments.value("--output"));
  }
  return code;
}

}  // namespace

constinit const Command kCancelCommand{
    .name = "cancel",
    .summary = "take a lease or job out of the queue, or end what runs",
    .description =
        "What waits leaves the queue at once. A job (j-…) that runs is told to end, and killed "
        "after its "
        "grace time. A lease (l-…) that runs loses its claim; its program is not killed by this, "
        "and what it still holds counts as foreign until it is gone.\n\n"
        "Exit status: 0 all have ended, now or before; 1 one is not known or may not be ended by "
        "you.",
    .options = kOptions,
    .operand = {.name = "ID", .help = "of leases, jobs or arrays (berth ps)", .repeats = true},
    .examples = kExamples,
    .run = run_cancel,
};

}  // namespace berth::cli
