#include <chrono>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/daemon_client.h"
#include "cli/job_client.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"
#include "net/target.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    {.name = "--for",
     .kind = ValueKind::choice,
     .value = "WHAT",
     .help = "granted: until it has its GPU; ended: until it is over",
     .fallback = "ended",
     .choices = [] { return std::vector<std::string>{"granted", "ended"}; }},
    {.name = "--timeout",
     .kind = ValueKind::text,
     .value = "TIME",
     .help = "give up after this long: 90s, 2h (default: never)"},
    kOutputOption,
    kAddressOption,
    kTokenFileOption,
    kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth wait l-0004", "returns when it has ended"},
    {"berth wait l-0004 --for granted --timeout 10m", "returns when it has its GPU"},
};

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPollSeconds = 50;  // the daemon holds a question for at most 60

bool has_ended(std::string_view state) {
  return state != "waiting" && state != "granted" && state != "active" && state != "suspect" &&
         state != "ending";
}

// Ended as its owner wanted.
bool ended_well(std::string_view state) { return state == "released"; }

class Waiting {
 public:
  Waiting(DaemonClient& daemon, bool for_grant, Clock::time_point until, Console& console)
      : daemon_(daemon), for_grant_(for_grant), until_(until), console_(console) {}

  ~Waiting() { status({}); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // The lease as it was when the wait was over; exhausted: the time was.
  Result<Value> operator()(const std::string& words) {
    TRY(Value lease, find_lease(daemon_, words));
    while (!is_over(lease.text("state"))) {
      const auto left = std::chrono::duration_cast<std::chrono::seconds>(until_ - Clock::now());
      if (left.count() <= 0) {
        return Error{ErrorCode::exhausted, fmt::format("{} is still {}; --timeout is over",
                                                       lease.text("id"), lease.text("state"))};
      }
      status(lease);
      // A poll ends early on news; the place in the queue is no news, so it is asked for anew.
      const std::int64_t most = console_.err_is_terminal ? 5 : kPollSeconds;
      TRY(lease, daemon_.get(fmt::format(
                     "/v1/leases/{}?wait={}&version={}", net::percent_encoded(lease.text("id")),
                     std::min<std::int64_t>(most, left.count() + 1), lease.integer("version"))));
    }
    return lease;
  }

 private:
  bool is_over(std::string_view state) const {
    return has_ended(state) || (for_grant_ && state != "waiting");
  }

  // One line on a terminal, written over.
  void status(const Value& lease) {
    if (!console_.err_is_terminal || (lease.is_null() && !shown_)) {
      return;
    }
    console_.err << "\r\x1b[K";
    shown_ = !lease.is_null();
    if (shown_) {
      std::string text = fmt::format("{} {}", lease.text("id"), lease.text("state"));
      if (const Value* queue = lease.find("queue");
          lease.text("state") == "waiting" && queue != nullptr) {
        text += fmt::format(", {} of {}", queue->integer("position"), queue->integer("of"));
        if (const std::int64_t missing = queue->integer("shortfall_mib"); missing > 0) {
          text += fmt::format(", {} short", memory_text(missing));
        }
      }
      console_.err << printable(text);
    }
    console_.err << std::flush;
  }

  DaemonClient& daemon_;
  bool for_grant_;
  Clock::time_point until_;
  Console& console_;
  bool shown_ = false;
};

// The worst of what its jobs ended with: 0 if all succeeded, the exit status of one job alone.
Result<ExitCode> wait_for_jobs(DaemonClient& daemon, const std::string& id, bool for_grant,
                               Clock::time_point until, bool table, Console& console,
                               json::Array& done) {
  std::string poll;  // the first question is answered at once
  while (true) {
    TRY(json::Array jobs, find_jobs(daemon, id, poll));
    std::int64_t open = 0;
    for (const Value& job : jobs) {
      const std::string_view state = job.text("state");
      open += !is_over(job) && (!for_grant || state == "held" || state == "waiting") ? 1 : 0;
    }
    if (open == 0) {
      ExitCode code = ExitCode::done;
      for (Value& job : jobs) {
        if (is_over(job) && job.text("state") != "succeeded") {
          const std::int64_t status = job.integer("exit_code");
          code = static_cast<ExitCode>(jobs.size() == 1 && status > 0 ? status : 1);
        }
        if (table) {
          const std::string outcome = outcome_of(job);
          console.out << fmt::format("{} {}{}\n", job.text("id"), job.text("state"),
                                     outcome.empty() ? "" : fmt::format(" ({})", outcome));
        }
        done.push_back(std::move(job));
      }
      return code;
    }
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(until - Clock::now());
    if (Clock::now() >= until) {
      return Error{ErrorCode::exhausted,
                   jobs.size() == 1 ? fmt::format("{} {}; --timeout is over", id,
                                                  for_grant ? "has no GPU yet" : "is not over")
                                    : fmt::format("{} of the {} jobs of {} {}; --timeout is over",
                                                  open, jobs.size(), id,
                                                  for_grant ? "have no GPU yet" : "are not over")};
    }
    poll = fmt::format("?wait={}&until={}", std::min<std::int64_t>(kPollSeconds, left.count() + 1),
                       for_grant ? "granted" : "over");
  }
}

ExitCode run_wait(const Arguments& arguments, Console& console) {
  auto until = Clock::time_point::max();
  if (const auto timeout = arguments.value("--timeout")) {
    const Result<Duration> span = time_given("--timeout", *timeout);
    if (!span) {
      return fail("wait", span.error(), console);
    }
    until = Clock::now() + std::chrono::milliseconds(span->count());
  }
  Result<DaemonClient> daemon = DaemonClient::open(arguments);
  if (!daemon) {
    return fail("wait", daemon.error(), console);
  }
  const bool for_grant = arguments.value("--for") == "granted";
  const bool table = arguments.value("--output") == "table";
  ExitCode code = ExitCode::done;
  json::Array leases;
  for (const std::string& id : arguments.operands()) {
    if (is_job_id(id)) {
      const Result<ExitCode> ended =
          wait_for_jobs(*daemon, id, for_grant, until, table, console, leases);
      if (!ended) {
        return fail("wait", ended.error(), console);
      }
      code = *ended != ExitCode::done ? *ended : code;
      continue;
    }
    Result<Value> lease = Waiting(*daemon, for_grant, until, console)(id);
    if (!lease) {
      return fail("wait", lease.error(), console);
    }
    const std::string_view state = lease->text("state");
    if (has_ended(state) ? for_grant || !ended_well(state) : false) {
      code = ExitCode::failed;
    }
    if (table) {
      const std::string_view reason = lease->text("reason");
      console.out << fmt::format("{} {}{}\n", lease->text("id"), state,
                                 reason.empty() ? "" : fmt::format(" ({})", reason));
    }
    leases.push_back(std::move(*lease));
  }
  if (!table) {
    console.out << text_of(json::object({{"items", std::move(leases)}}),
                           *arguments.value("--output"));
  }
  return code;
}

}  // namespace

constinit const Command kWaitCommand{
    .name = "wait",
    .summary = "wait until leases or jobs have their GPU, or are over",
    .description =
        "Waits for all that are named, one after the other, and prints how each stands then.\n\n"
        "Exit status: 0 all were granted (--for granted), all leases were released by their "
        "owners, "
        "all jobs succeeded; 1 one ended otherwise, --timeout is over, or the daemon does not "
        "answer; of a single job that failed its own exit status.",
    .options = kOptions,
    .operand = {.name = "ID",
                .help = "of leases, jobs or arrays (berth ps), or keys of leases",
                .required = true,
                .repeats = true},
    .examples = kExamples,
    .run = run_wait,
};

}  // namespace berth::cli
