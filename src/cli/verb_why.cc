#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
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

constexpr Option kOptions[] = {
    kWatchOption,      kIntervalOption, kOutputOption,  kKubeOption,      kNamespaceOption,
    kKubeconfigOption, kContextOption,  kAddressOption, kTokenFileOption, kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth why l-0004", "why it waits, what is missing, and what would help"},
    {"berth why l-0004 --watch", "the same, live"},
    {"berth why l-0004 -o json", "with the verdict in all detail"},
    {"berth why train-0 -n team-a", "the same of a pod"},
};

const Value& member(const Value& value, std::string_view name) {
  static const Value nothing;
  const Value* found = value.find(name);
  return found != nullptr ? *found : nothing;
}

bool is_shown(const Value& list) { return list.is_array() && !list.as_array().empty(); }

// `id`: as it was asked for; of a job the lease is named beside it.
std::string headline(std::string id, const Value& lease, const Value& why,
                     const DeviceNames& names) {
  if (id != lease.text("id")) {
    id += fmt::format(" (lease {})", lease.text("id"));
  }
  const std::string_view state = lease.text("state");
  std::string message = names.in_words(why.text("message", lease.text("message")));
  while (message.ends_with('.')) {
    message.pop_back();
  }
  if (state == "waiting") {
    return fmt::format("{} waits: {}.", id, message.empty() ? lease.text("reason") : message);
  }
  if (member(lease, "evicting").is_object()) {
    return fmt::format("{} has to leave: {}.", id,
                       names.in_words(member(lease, "evicting").text("message")));
  }
  if (member(lease, "devices").is_array() && is_shown(member(lease, "devices"))) {
    std::string devices;
    for (const Value& device : member(lease, "devices").as_array()) {
      devices += devices.empty() ? "" : ", ";
      devices += names.name(device.text("uuid"));
    }
    std::string text = fmt::format("{} is {} on {}", id, state, devices);
    if (const std::string_view reason = lease.text("reason"); !reason.empty()) {
      text += fmt::format(" ({})", reason);
    }
    return text + ".";
  }
  std::string text = fmt::format("{} is {}", id, state);
  if (const std::string_view reason = lease.text("reason"); !reason.empty()) {
    text += fmt::format(" ({})", reason);
  }
  return text + (message.empty() ? "" : ": " + message) + ".";
}

std::string asked_text(const Value& lease, const Value& why) {
  std::string text(why.text("asked"));
  if (text.empty()) {
    const std::int64_t mib = lease.integer("memory_mib");
    text = mib > 0 ? memory_text(mib) : "a whole device";
  }
  if (const std::int64_t limit = lease.integer("limit_mib"); limit > lease.integer("memory_mib")) {
    text += fmt::format(", up to {} MiB", limit);
  }
  text += fmt::format("; queue {}, priority {}, by {}", member(lease, "queue").text("name"),
                      lease.integer("priority"), lease.text("owner"));
  return text + (lease.flag("preemptible") ? ", preemptible" : "");
}

// "1 of 5 (next)"
std::string place_text(const Value& why) {
  const std::int64_t place = why.integer("position");
  const std::int64_t of = why.integer("of");
  if (place <= 0) {
    return {};
  }
  return place == 1 ? fmt::format("1 of {}, nobody is before it", of)
                    : fmt::format("{} of {}", place, of);
}

std::string eta_text(const Value& lease, const Value& why) {
  if (const Value& eta = member(member(lease, "queue"), "eta_seconds"); eta.is_integer()) {
    return "in about " + span_text(eta.as_integer());
  }
  return member(member(why, "detail"), "eta").text("basis") == "unknown"
             ? "not known: what holds the room has declared no end (--time)"
             : "";
}

// The rule that chose among the devices it could have had.
std::string policy_text(const Value& why) {
  const Value& policy = member(why, "policy");
  if (policy.text("name").empty()) {
    return {};
  }
  const std::string_view summary = policy.text("summary");
  return fmt::format("by policy {}{}", policy.text("name"),
                     summary.empty() ? "" : fmt::format(": {}", summary));
}

// One fact a line, names in one column.
class Facts {
 public:
  explicit Facts(const Look& look) : look_(look) {}

  void add(std::string_view name, const std::string& text) {
    constexpr std::size_t kIndent = 12;
    if (!text.empty()) {
      out_ +=
          "  " + toned(fmt::format("{:<9}", name), Tone::faint, look_) + " " +
          wrapped(printable(text), {.width = look_.columns, .indent = kIndent, .used = kIndent}) +
          "\n";
    }
  }

  std::string take() { return std::move(out_); }

 private:
  const Look& look_;
  std::string out_;
};

std::string short_text(const Value& device, bool waits) {
  const std::int64_t missing = device.integer("shortfall_mib");
  return !waits ? std::string() : missing > 0 ? memory_text(missing) : std::string("-");
}

// Leases first, then what has none.
std::string who_text(const Value& device) {
  std::string who;
  for (const std::string_view name : {"leases", "foreign_processes"}) {
    const Value& list = member(device, name);
    if (!is_shown(list)) {
      continue;
    }
    who += who.empty() ? "" : "; ";
    who += name == "leases" ? "" : "no lease: ";
    std::string_view comma;
    for (const Value& one : list.as_array()) {
      who += comma;
      who += one.as_string();
      comma = ", ";
    }
  }
  return who;
}

// Nothing, or how far it uses more than it asked for.
std::string above_text(const Value& lease) {
  const std::int64_t use = lease.integer("use_bytes") / Memory::kBytesPerMib;
  const std::int64_t limit = lease.integer("limit_mib");
  const std::int64_t request = lease.integer("memory_mib");
  return use > limit ? fmt::format(", {} above its limit", rough_memory(use - limit))
         : use > request
             ? fmt::format(", {} of it lent above its request", rough_memory(use - request))
             : std::string();
}

std::string device_table(const Value& lease, const json::Array& devices, const DeviceNames& names,
                         const Look& look) {
  const bool waits = lease.text("state") == "waiting";
  std::vector<Grid::Column> columns{{.title = "GPU"},
                                    {.title = "TOTAL", .right = true},
                                    {.title = "PROMISED", .right = true},
                                    {.title = "FOREIGN", .right = true, .rank = 2},
                                    {.title = "FREE", .right = true}};
  if (waits) {
    columns.push_back({.title = "SHORT BY", .right = true});
  }
  columns.push_back({.title = waits ? "WHY NOT" : "NOW"});
  columns.push_back({.title = "WHO", .rank = 1, .elastic = true});
  Grid grid(std::move(columns));
  std::vector<std::string_view> mine;
  if (const Value& held = member(lease, "devices"); held.is_array()) {
    for (const Value& device : held.as_array()) {
      mine.push_back(device.text("uuid"));
    }
  }
  for (const Value& device : devices) {
    const std::string_view uuid = device.text("uuid");
    const std::string reason(device.text("reason"));
    const bool here = std::ranges::find(mine, uuid) != mine.end();
    const std::string_view hindrance = device.text("hindrance");
    const std::string who = who_text(device);
    std::vector<Cell> row{names.name(uuid), rough_memory(device.integer("total_mib")),
                          rough_memory(device.integer("promised_mib")),
                          rough_memory(device.integer("foreign_mib")),
                          rough_memory(device.integer("headroom_mib"))};
    if (waits) {
      row.push_back({short_text(device, waits), Tone::busy});
      row.push_back(reason.empty()
                        ? Cell("fits", Tone::good)
                        : Cell(hindrance.empty() ? reason : std::string(hindrance), Tone::busy));
    } else {
      row.push_back(here ? Cell("holds it", Tone::good) : Cell(reason.empty() ? "open" : reason));
    }
    row.push_back(who.empty() ? "-" : who);
    grid.add(std::move(row));
  }
  return grid.text(look);
}

std::string help_text(const Value& why, const DeviceNames& names, const Look& look) {
  const Value& ways = member(why, "alternatives");
  if (!is_shown(ways)) {
    return {};
  }
  std::string text = "\n" + toned("What would help", Tone::strong, look) +
                     (ways.as_array().size() > 1 ? ", any one of these:\n" : ":\n");
  for (const Value& way : ways.as_array()) {
    text += "  - " +
            wrapped(printable(names.in_words(way.as_string())),
                    {.width = look.columns, .indent = 4, .used = 4}) +
            "\n";
  }
  return text;
}

std::string time_left(const Value& lease, std::string_view field) {
  const auto since = seconds_since(lease.text(field));
  return since.has_value() ? "in " + span_text(-*since) : std::string();
}

Facts facts_of(const Value& lease, const Value& why, const DeviceNames& names, const Look& look) {
  Facts facts(look);
  const std::string_view state = lease.text("state");
  facts.add("asked for", asked_text(lease, why));
  facts.add(state == "waiting" ? "waits" : "waited",
            span_text(lease.integer("waited_seconds")) +
                fmt::format(", since {}", lease.text("queued_at")));
  if (state == "waiting") {
    facts.add("place", place_text(why));
    const std::int64_t missing = member(lease, "queue").integer("shortfall_mib");
    const std::string nearest(member(lease, "queue").text("nearest_device"));
    facts.add("missing", missing > 0 ? memory_text(missing) +
                                           (nearest.empty() ? "" : " on " + names.name(nearest))
                                     : std::string());
    facts.add("starts", eta_text(lease, why));
    facts.add("gives up", time_left(lease, "deadline"));
    return facts;
  }
  if (const Value& device = member(lease, "device"); device.is_object()) {
    facts.add("chosen", policy_text(why));
    const std::int64_t use = lease.integer("use_bytes");
    facts.add("uses", use > 0 ? rough_memory(use / Memory::kBytesPerMib) + " as measured" +
                                    above_text(lease)
                              : std::string("nothing that the driver has measured yet"));
    facts.add("isolation", std::string(lease.text("isolation")));
    facts.add("confirm", state == "granted" ? time_left(lease, "confirm_by") : std::string());
    facts.add("renew", time_left(lease, "renew_by"));
  }
  facts.add("ended", std::string(lease.text("ended_at")));
  return facts;
}

Result<std::string> text_for(Books& books, const std::string& asked, const Value& lease,
                             const Look& look) {
  const std::string id = net::percent_encoded(lease.text("id"));
  TRY(const Value why, books.get("/v1/leases/" + id + "/explain"));
  json::Array devices;
  if (const Value& rows = member(why, "devices"); rows.is_array()) {
    devices = rows.as_array();
  }
  const DeviceNames names(devices);
  const std::string_view state = lease.text("state");
  const Tone tone = state == "waiting" ? Tone::busy : Tone::strong;
  std::string text = toned(wrapped(printable(headline(asked, lease, why, names)),
                                   {.width = look.columns, .indent = 2}),
                           tone, look) +
                     "\n\n" + facts_of(lease, why, names, look).take();
  const bool ended = member(lease, "ended_at").is_string();
  if (!devices.empty() && !ended) {
    text += "\n" + device_table(lease, devices, names, look);
  }
  return text + help_text(why, names, look);
}

// What an ID means: a lease; or a job that has none now, because it is held or over.
struct Meant {
  std::string id;
  Value lease;
  Value job;
};

Result<Meant> meant_by(Books& books, const std::string& id) {
  if (!books.has_jobs() || !is_job_id(id)) {
    TRY(Value lease, find_lease(books, books.full_id(id)));
    std::string own(lease.text("id"));
    return Meant{.id = std::move(own), .lease = std::move(lease), .job = {}};
  }
  TRY(const json::Array jobs, find_jobs(books, id));
  if (jobs.size() > 1) {
    return invalid_argument(fmt::format("{} is an array of {} jobs: name one, such as {}", id,
                                        jobs.size(), jobs.front().text("id")));
  }
  const Value& job = jobs.front();
  Meant meant{.id = std::string(job.text("id")), .lease = {}, .job = job};
  if (const Value& lease = member(job, "lease"); lease.is_object() && !is_over(job)) {
    meant.lease = lease;
  }
  return meant;
}

std::string text_of_job(const Value& job, const Look& look) {
  const std::string outcome = outcome_of(job);
  const bool over = is_over(job);
  Facts facts(look);
  const auto since = seconds_since(job.text("submitted_at"));
  if (!over && since.has_value()) {
    facts.add("waits", span_text(*since) + fmt::format(", since {}", job.text("submitted_at")));
  }
  facts.add("ended", std::string(job.text("ended_at")));
  const std::string_view state = job.text("state");
  const bool is_verb = state == "succeeded" || state == "failed";
  return toned(wrapped(printable(fmt::format("{} {}{}{}.", job.text("id"), is_verb ? "" : "is ",
                                             state, outcome.empty() ? "" : ": " + outcome)),
                       {.width = look.columns, .indent = 2}),
               over ? Tone::strong : Tone::busy, look) +
         "\n\n" + facts.take();
}

ExitCode run_why(const Arguments& arguments, Console& console) {
  const Result<std::unique_ptr<Books>> opened = open_books(arguments);
  if (!opened) {
    return fail("why", opened.error(), console);
  }
  Books& books = **opened;
  const std::string format = *arguments.value("--output");
  const auto draw = [&](const Look& look) -> Result<std::string> {
    TRY(const Meant meant, meant_by(books, arguments.operands().front()));
    if (!meant.lease.is_object()) {
      return format == "table" ? Result<std::string>(text_of_job(meant.job, look))
                               : text_of(meant.job, format, arguments.has("--watch"));
    }
    if (format == "table") {
      return text_for(books, meant.id, meant.lease, look);
    }
    TRY(const Value why,
        books.get("/v1/leases/" + net::percent_encoded(meant.lease.text("id")) + "/explain"));
    return text_of(why, format, arguments.has("--watch"));
  };
  const Result<void> shown = show_books(arguments, console, books, draw);
  return shown ? ExitCode::done : fail("why", shown.error(), console);
}

}  // namespace

constinit const Command kWhyCommand{
    .name = "why",
    .summary = "say why a lease waits, or why it is where it is, and what would help",
    .description =
        "The verdict in words with the numbers behind it: what was asked for, the place in the "
        "queue, what is missing on which GPU, when it is expected to start, and changes that would "
        "let it start now. Each of those was tried on a copy of the books before it is named.",
    .options = kOptions,
    .operand = {.name = "ID",
                .help = "of a lease or job (berth ps), the key of a lease, or the name of a pod",
                .required = true},
    .examples = kExamples,
    .run = run_why,
};

}  // namespace berth::cli
