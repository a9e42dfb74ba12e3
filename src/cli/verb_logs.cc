#include <algorithm>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cli/daemon_client.h"
#include "cli/job_client.h"
#include "cli/verbs.h"
#include "config/value.h"
#include "net/target.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    {.name = "--follow",
     .letter = 'f',
     .help = "go on until the job is over; one that waits is waited for"},
    {.name = "--tail", .kind = ValueKind::text, .value = "N", .help = "only the last N lines"},
    kAddressOption,
    kTokenFileOption,
    kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth logs j-0001", "what it has printed"},
    {"berth logs -f j-0001_3", "what an element of an array prints, as it does"},
    {"berth logs --tail 20 j-0001", "the last lines"},
};

constexpr std::int64_t kPiece = 1 << 20;

struct Part {
  std::int64_t offset = 0;
  std::int64_t end = 0;
  std::string bytes;
};

Result<Part> read_part(DaemonClient& daemon, const std::string& id, std::int64_t offset) {
  TRY(net::Response response,
      daemon.wire().call({.target = fmt::format("/v1/jobs/{}/log?offset={}&limit={}",
                                                net::percent_encoded(id), offset, kPiece)}));
  if (response.status != 200) {
    return DaemonClient::error_of(response);
  }
  const auto number = [&](std::string_view name) {
    const std::string* text = response.header(name);
    return text != nullptr ? std::atoll(text->c_str()) : 0;
  };
  return Part{.offset = number("Berth-Log-Offset"),
              .end = number("Berth-Log-End"),
              .bytes = std::move(response.body)};
}

// Where the last `lines` lines begin. Looks back in growing steps.
Result<std::int64_t> tail_offset(DaemonClient& daemon, const std::string& id, std::int64_t lines) {
  for (std::int64_t back = std::int64_t{64} * 1024;; back *= 4) {
    TRY(const Part part, read_part(daemon, id, -std::min(back, kPiece)));
    std::int64_t seen = 0;
    std::size_t at = part.bytes.size();
    // A last line without its end counts too.
    if (at > 0 && part.bytes[at - 1] == '\n') {
      --at;
    }
    while (at > 0) {
      if (part.bytes[at - 1] == '\n' && ++seen == lines) {
        return part.offset + static_cast<std::int64_t>(at);
      }
      --at;
    }
    if (part.offset == 0 || back >= kPiece) {
      return part.offset;
    }
  }
}

// Prints what there is; the offset behind it.
Result<std::int64_t> print_from(DaemonClient& daemon, const std::string& id, std::int64_t offset,
                                Console& console) {
  while (true) {
    TRY(const Part part, read_part(daemon, id, offset));
    if (part.offset > offset && offset > 0) {
      console.err << fmt::format("berth logs: {} bytes are gone, the log is limited in size\n",
                                 part.offset - offset);
    }
    console.out << part.bytes << std::flush;
    offset = part.offset + static_cast<std::int64_t>(part.bytes.size());
    if (part.bytes.empty() || offset >= part.end || !console.out) {
      return offset;
    }
  }
}

Result<Value> the_job(DaemonClient& daemon, const std::string& id) {
  TRY(json::Array jobs, find_jobs(daemon, id));
  if (jobs.size() != 1) {
    return invalid_argument(
        fmt::format("{} is an array of {} jobs, each with a log of its own: name "
                    "one, such as {}",
                    id, jobs.size(), jobs.front().text("id")));
  }
  return std::move(jobs.front());
}

// Attempt by attempt: a job that had to leave prints anew when it runs again.
Result<void> follow(DaemonClient& daemon, const std::string& id, std::int64_t offset,
                    Console& console) {
  std::int64_t attempt = -1;
  while (true) {
    TRY(const Value job, the_job(daemon, id));
    if (job.integer("attempt") == attempt || job.integer("attempt") == 0) {
      if (is_over(job)) {
        return success();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      continue;
    }
    const bool first = attempt < 0;
    attempt = job.integer("attempt");
    net::StreamCall call{.target = fmt::format("/v1/jobs/{}/log?follow=1&offset={}",
                                               net::percent_encoded(id), first ? offset : 0)};
    call.on_chunk = [&](std::string_view bytes) {
      console.out << bytes << std::flush;
      return static_cast<bool>(console.out);
    };
    call.silence = Duration(86'400'000);  // a program may be silent for long
    TRY(const net::Response response, daemon.wire().stream(call));
    if (response.status != 200) {
      return DaemonClient::error_of(response);
    }
  }
}

ExitCode run_logs(const Arguments& arguments, Console& console) {
  std::int64_t lines = -1;
  if (const auto tail = arguments.value("--tail")) {
    const Result<std::int64_t> count = config::parse_count(*tail, 1'000'000'000);
    if (!count) {
      return fail("logs", invalid_argument("--tail is a whole number of lines, not " + *tail),
                  console);
    }
    lines = *count;
  }
  Result<DaemonClient> daemon = DaemonClient::open(arguments);
  if (!daemon) {
    return fail("logs", daemon.error(), console);
  }
  const std::string& id = arguments.operands().front();
  const auto print = [&]() -> Result<void> {
    TRY(const Value job, the_job(*daemon, id));
    std::int64_t offset = 0;
    if (lines > 0) {
      TRY(offset, tail_offset(*daemon, id, lines));
    } else if (lines == 0) {
      TRY(const Part part, read_part(*daemon, id, 0));
      offset = part.end;
    }
    if (arguments.has("--follow")) {
      return follow(*daemon, id, offset, console);
    }
    if (job.integer("attempt") == 0) {
      console.err << fmt::format("{} is {} and has printed nothing yet\n", id, job.text("state"));
      return success();
    }
    TRY(offset, print_from(*daemon, id, offset, console));
    return success();
  };
  const Result<void> printed = print();
  return printed ? ExitCode::done : fail("logs", printed.error(), console);
}

}  // namespace

constinit const Command kLogsCommand{
    .name = "logs",
    .summary = "show what a submitted job has printed",
    .description =
        "Standard output and error together, as they came, of the job's latest attempt. Logs are "
        "kept as long as the job is known, at most a week; of a long one the beginning goes first.",
    .options = kOptions,
    .operand = {.name = "ID", .help = "of a job, or of one element of an array", .required = true},
    .examples = kExamples,
    .run = run_logs,
};

}  // namespace berth::cli
