#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/suggest.h"
#include "cli/books.h"
#include "cli/daemon_client.h"
#include "cli/grid.h"
#include "cli/job_client.h"
#include "cli/live_view.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"
#include "net/target.h"

namespace berth::cli {

namespace {

using json::Value;

// Of leases and of jobs: whatever the column STATE may hold, and "live" for all that is not over.
std::vector<std::string> state_words() {
  return {"live",    "waiting",  "granted",   "active",   "suspect",   "ending",
          "held",    "starting", "running",   "released", "cancelled", "timed-out",
          "expired", "lost",     "succeeded", "failed",   "never"};
}

bool ends(std::string_view state) {
  static constexpr auto kEnds = std::to_array<std::string_view>(
      {"released", "cancelled", "timed-out", "expired", "lost", "never", "succeeded", "failed"});
  return std::ranges::find(kEnds, state) != kEnds.end();
}

constexpr Option kOptions[] = {
    {.name = "--all", .letter = 'a', .help = "also what has ended (kept for a day)"},
    {.name = "--state",
     .kind = ValueKind::list,
     .value = "STATE[,STATE]",
     .help = "only these states",
     .choices = state_words},
    {.name = "--queue", .kind = ValueKind::text, .value = "NAME", .help = "only this queue"},
    {.name = "--owner", .kind = ValueKind::text, .value = "NAME", .help = "only this owner"},
    {.name = "--device",
     .kind = ValueKind::text,
     .value = "DEVICE",
     .help = "only what is on this device: index, NODE/INDEX or UUID"},
    kWatchOption,
    kIntervalOption,
    kWideOutputOption,
    kKubeOption,
    kNamespaceOption,
    kKubeconfigOption,
    kContextOption,
    kAddressOption,
    kTokenFileOption,
    kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth ps", "what waits and what runs"},
    {"berth ps --state waiting --queue default -o wide", "who waits, and for what, in full"},
    {"berth ps --device 0 --watch", "who is on the first GPU, live"},
    {"berth ps --all -o json", "everything the daemon still knows, for a script"},
    {"berth ps --kube", "the pods of a cluster that Berth schedules"},
};

Tone tone_of(std::string_view state) {
  if (state == "active" || state == "granted" || state == "running" || state == "succeeded") {
    return Tone::good;
  }
  if (state == "waiting" || state == "held" || state == "starting") {
    return Tone::busy;
  }
  if (state == "suspect" || state == "ending" || state == "lost" || state == "never" ||
      state == "expired" || state == "timed-out" || state == "failed") {
    return Tone::bad;
  }
  return Tone::faint;
}

std::string devices_text(const Value& lease, const DeviceNames& names) {
  std::string text;
  if (const Value* devices = lease.find("devices"); devices != nullptr && devices->is_array()) {
    for (const Value& device : devices->as_array()) {
      text += text.empty() ? "" : ", ";
      text += names.name(device.text("uuid"));
    }
  }
  return text.empty() ? "-" : text;
}

// A whole device that waits has no claim in MiB yet.
std::string claim_text(const Value& lease, std::string_view field) {
  const std::int64_t mib = lease.integer(field);
  if (mib == 0) {
    return lease.text("state") == "waiting" ? "device" : "-";
  }
  const Value* devices = lease.find("devices");
  const std::size_t count =
      devices != nullptr && devices->is_array() ? devices->as_array().size() : 0;
  return count > 1 ? fmt::format("{}x{}", count, memory_text(mib)) : memory_text(mib);
}

std::string used_text(const Value& lease) {
  const std::int64_t bytes = lease.integer("use_bytes");
  return bytes == 0 ? "-" : rough_memory(bytes / Memory::kBytesPerMib);
}

// In a few words; `berth why` has the sentences.
std::string why_text(const Value& lease, const DeviceNames& names) {
  if (const Value* job = lease.find("job")) {
    const std::string name(job->text("name"));
    const std::string why = lease.text("state") == "waiting" ? "" : outcome_of(*job);
    if (!why.empty() || lease.text("state") != "waiting") {
      return name + (name.empty() || why.empty() ? "" : ": ") + names.in_words(why);
    }
  }
  if (const Value* leaves = lease.find("evicting")) {
    return "has to leave: " + names.in_words(leaves->text("message"));
  }
  const std::string_view reason = lease.text("reason");
  if (reason.empty()) {
    return {};
  }
  std::string text(reason);
  if (lease.text("state") != "waiting") {
    const std::string_view message = lease.text("message");
    return text + (message.empty() ? "" : ": " + names.in_words(message));
  }
  const Value* queue = lease.find("queue");
  if (queue == nullptr) {
    return text;
  }
  if (const std::int64_t missing = queue->integer("shortfall_mib"); missing > 0) {
    // That there is no room is then said.
    text = (reason == "no-room" ? "" : text + ", ") + memory_text(missing) + " short";
  }
  if (const std::int64_t place = queue->integer("position"); place > 0) {
    text += fmt::format(", {} of {}", place, queue->integer("of"));
  }
  if (const Value* eta = queue->find("eta_seconds"); eta != nullptr && eta->is_integer()) {
    text += ", in about " + span_text(eta->as_integer());
  }
  return text;
}

std::string runs_text(const Value& lease) {
  const std::optional<std::int64_t> since = seconds_since(lease.text("granted_at"));
  if (!since.has_value()) {
    return "-";
  }
  const std::optional<std::int64_t> ended = seconds_since(lease.text("ended_at"));
  return span_text(*since - ended.value_or(0));
}

Result<json::Array> jobs_of(Books& books, bool all) {
  if (!books.has_jobs()) {
    return json::Array();
  }
  return books.list(all ? "/v1/jobs?all=1" : "/v1/jobs", "jobs");
}

// A job stands in the place of its lease; `with_others`: one that has none yet, or no more, comes
// at the end.
Result<json::Array> with_jobs(Books& books, json::Array leases, bool all, bool with_others) {
  TRY(json::Array jobs, jobs_of(books, all));
  std::map<std::string, const Value*, std::less<>> by_id;
  for (const Value& job : jobs) {
    by_id.emplace(job.text("id"), &job);
  }
  const auto dressed = [](const Value& job, Value lease) {
    lease.set("lease_state", std::string(lease.text("state")));
    lease.set("id", job.text("id"));
    lease.set("state", job.text("state"));
    lease.set("job", job);
    return lease;
  };
  json::Array rows;
  std::set<std::string, std::less<>> shown;
  for (Value& lease : leases) {
    const Value* labels = lease.find("labels");
    const std::string id(labels != nullptr ? labels->text("berth.dev/job") : "");
    const auto job = by_id.find(id);
    if (id.empty() || job == by_id.end()) {
      rows.push_back(std::move(lease));
      continue;
    }
    // Earlier attempts of the same job are part of it.
    const Value* own = job->second->find("lease");
    if (own != nullptr && own->is_object() && own->text("id") == lease.text("id")) {
      shown.insert(id);
      rows.push_back(dressed(*job->second, std::move(lease)));
    }
  }
  for (const Value& job : jobs) {
    if (with_others && !shown.contains(job.text("id"))) {
      const std::int64_t waited = seconds_since(job.text("submitted_at")).value_or(0) -
                                  seconds_since(job.text("ended_at")).value_or(0);
      const Value* lease = job.find("lease");
      rows.push_back(dressed(job, lease != nullptr && lease->is_object()
                                      ? *lease
                                      : json::object({{"owner", job.text("owner")},
                                                      {"waited_seconds", waited},
                                                      {"queue", json::object({{"name", "-"}})}})));
    }
  }
  return rows;
}

std::string table_of(const json::Array& leases, const DeviceNames& names, const Look& look,
                     bool wide) {
  std::vector<Grid::Column> columns{{.title = "ID"},
                                    {.title = "STATE"},
                                    {.title = "MEMORY", .right = true},
                                    {.title = "USED", .right = true},
                                    {.title = "LIMIT", .right = true, .rank = 5},
                                    {.title = "DEVICE"},
                                    {.title = "WAITED", .right = true},
                                    {.title = "RUNS", .right = true, .rank = 3},
                                    {.title = "OWNER", .rank = 1},
                                    {.title = "QUEUE", .rank = 4},
                                    {.title = "ISOLATION", .rank = 6}};
  if (wide) {
    columns.insert(
        columns.end(),
        {{.title = "PRIORITY", .right = true}, {.title = "PID", .right = true}, {.title = "KEY"}});
  }
  columns.push_back({.title = "WHY", .elastic = true});
  Grid grid(std::move(columns));
  for (const Value& lease : leases) {
    const Value* queue = lease.find("queue");
    const std::string_view state = lease.text("state");
    std::vector<Cell> row{
        lease.text("id"),
        {std::string(state), tone_of(state)},
        claim_text(lease, "memory_mib"),
        used_text(lease),
        claim_text(lease, "limit_mib"),
        devices_text(lease, names),
        span_text(lease.integer("waited_seconds")),
        runs_text(lease),
        lease.text("owner"),
        queue != nullptr ? queue->text("name") : "",
        lease.text("isolation", "-"),
    };
    if (wide) {
      const std::int64_t pid = lease.integer("pid");
      row.insert(row.end(), {std::to_string(lease.integer("priority")),
                             pid > 0 ? std::to_string(pid) : std::string("-"), lease.text("key")});
      const std::string_view message = lease.text("message");
      row.emplace_back(message.empty() ? why_text(lease, names) : names.in_words(message));
    } else {
      row.emplace_back(why_text(lease, names));
    }
    grid.add(std::move(row));
  }
  return grid.text(look);
}

// In a cluster the owner of a pod is its namespace.
std::string owner_of(const Arguments& arguments) {
  const std::string owner = arguments.value("--owner").value_or("");
  return owner.empty() ? arguments.value(kNamespaceOption.name).value_or("") : owner;
}

// `states` as the call takes them; empty: all.
std::string query_of(const Arguments& arguments, const std::string& device,
                     const std::string& states) {
  std::string query = "/v1/leases?limit=1000";
  if (!states.empty()) {
    query += "&state=" + net::percent_encoded(states);
  }
  for (const auto& [name, value] :
       {std::pair("queue", arguments.value("--queue").value_or("")),
        std::pair("owner", owner_of(arguments)), std::pair("device", device)}) {
    if (!value.empty()) {
      query += fmt::format("&{}={}", name, net::percent_encoded(value));
    }
  }
  return query;
}

// How many there are of each state, for the line below the table.
std::string tally(const json::Array& leases) {
  std::map<std::string_view, int> counts;
  for (const Value& lease : leases) {
    ++counts[lease.text("state")];
  }
  std::string text;
  for (const auto& [state, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  }
  return text + "\n";
}

Result<std::vector<std::string>> wanted_states(const Arguments& arguments) {
  const std::string given = arguments.value("--state").value_or("");
  std::string_view rest = given;
  const std::vector<std::string> known = state_words();
  std::vector<std::string> wanted;
  while (!rest.empty()) {
    const std::string word(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (std::ranges::find(known, word) == known.end()) {
      return invalid_argument(fmt::format("--state cannot be '{}'; did you mean '{}'? Known are {}",
                                          word, nearest(word, known), fmt::join(known, ", ")));
    }
    wanted.push_back(word);
  }
  return wanted;
}

// Of a job its own state counts, which is what is shown, and that of its lease.
void keep_states(json::Array& rows, const std::vector<std::string>& wanted) {
  std::erase_if(rows, [&](const Value& row) {
    return std::ranges::none_of(wanted, [&](const std::string& state) {
      return state == "live" ? !ends(row.text("state"))
                             : state == row.text("state") || state == row.text("lease_state");
    });
  });
}

ExitCode run_ps(const Arguments& arguments, Console& console) {
  const Result<std::vector<std::string>> wanted = wanted_states(arguments);
  if (!wanted) {
    return fail("ps", wanted.error(), console);
  }
  const bool all = arguments.has("--all") || std::ranges::any_of(*wanted, ends);
  const Result<std::unique_ptr<Books>> opened = open_books(arguments);
  if (!opened) {
    return fail("ps", opened.error(), console);
  }
  Books& books = **opened;
  const std::string format = *arguments.value("--output");
  const auto draw = [&](const Look& look) -> Result<std::string> {
    TRY(const json::Array devices, books.list("/v1/devices", "devices"));
    std::string device;
    if (const auto words = arguments.value("--device")) {
      TRY(device, device_meant(devices, *words));
    }
    TRY(json::Array leases, books.list(query_of(arguments, device, all ? "" : "live"), "leases"));
    if (format != "json" && format != "yaml") {
      // The other filters are of leases, which not every job has.
      const bool filtered = arguments.has("--queue") || arguments.has("--owner") || !device.empty();
      TRY(leases, with_jobs(books, std::move(leases), all, !filtered));
    }
    if (!wanted->empty()) {
      keep_states(leases, *wanted);
    }
    if (format == "json" || format == "yaml") {
      TRY(json::Array jobs, jobs_of(books, all));
      if (!wanted->empty()) {
        keep_states(jobs, *wanted);
      }
      return text_of(json::object({{"leases", std::move(leases)}, {"jobs", std::move(jobs)}}),
                     format, arguments.has("--watch"));
    }
    if (leases.empty()) {
      return std::string(!wanted->empty() ? "Nothing is in these states.\n"
                         : all            ? "Nothing is known.\n"
                                          : "Nothing waits or runs. `berth ps --all` shows what "
                                            "has ended.\n");
    }
    return table_of(leases, DeviceNames(devices), look, format == "wide") +
           (look.terminal ? toned(tally(leases), Tone::faint, look) : "");
  };
  const Result<void> shown = show_books(arguments, console, books, draw);
  return shown ? ExitCode::done : fail("ps", shown.error(), console);
}

}  // namespace

constinit const Command kPsCommand{
    .name = "ps",
    .summary = "list who holds GPU memory and who waits for it",
    .description =
        "One line per lease or submitted job: what waits first, in the order in which it will be "
        "served, then what "
        "runs. You see your own; root and administrators see all.\n\n"
        "MEMORY is what is promised on each device, USED what the driver measured (- where it "
        "cannot be known), LIMIT how far it may burst. WAITED is the time from asking to the grant "
        "(or until now), RUNS the time since. WHY is in short: a wait's reason, what is missing "
        "where it is nearest, the place in the queue; `berth why ID` says it in full.\n\n"
        "On a narrow terminal columns are left out; -o wide shows all of them.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_ps,
};

}  // namespace berth::cli
