#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/books.h"
#include "cli/daemon_client.h"
#include "cli/grid.h"
#include "cli/live_view.h"
#include "cli/node_annotation.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    kWatchOption,      kIntervalOption,  kWideOutputOption,     kKubeOption,  kNamespaceOption,
    kKubeconfigOption, kContextOption,   kNodeAnnotationOption, kOwnedOption, kBackendOption,
    kAddressOption,    kTokenFileOption, kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth gpus", "what is promised, used and free on each GPU, and who is there"},
    {"berth gpus --watch", "the same, live"},
    {"berth gpus -o wide", "with UUIDs, reserves and the ages of the samples"},
    {"berth gpus --kube", "the GPUs of a cluster"},
    {"berth gpus --node-annotation --owned",
     "what to annotate this machine's Kubernetes node with"},
};

// What the memory of a device is, from left to right.
struct Parts {
  std::int64_t total = 0;
  std::int64_t used = 0;      // by those who were promised it
  std::int64_t promised = 0;  // and not used yet
  std::int64_t foreign = 0;
  std::int64_t reserve = 0;  // of the driver
};

Parts parts_of(const Value& device) {
  Parts parts{.total = device.integer("total_mib"),
              .foreign = device.integer("foreign_mib"),
              .reserve = device.integer("reserve_mib")};
  parts.used = std::max<std::int64_t>(device.integer("used_mib") - parts.foreign, 0);
  parts.promised =
      std::max<std::int64_t>(device.integer("committed_mib") - parts.foreign - parts.used, 0);
  return parts;
}

struct Ink {
  std::string_view mark;
  Tone tone;
};

// used, promised, foreign, free, reserve
using Palette = std::array<Ink, 5>;
constexpr Palette kAscii{{{"#", Tone::good},
                          {"=", Tone::busy},
                          {"x", Tone::bad},
                          {".", Tone::faint},
                          {"-", Tone::faint}}};
constexpr Palette kBlocks{{{"█", Tone::good},
                           {"▒", Tone::busy},
                           {"▚", Tone::bad},
                           {"·", Tone::faint},
                           {"-", Tone::faint}}};

const Palette& palette(const Look& look) { return look.terminal && look.utf8 ? kBlocks : kAscii; }

constexpr std::int64_t kBarWidth = 20;

std::string bar_of(const Parts& parts, const Palette& inks) {
  if (parts.total <= 0) {
    return std::string("?");
  }
  const std::int64_t free = std::max<std::int64_t>(
      parts.total - parts.used - parts.promised - parts.foreign - parts.reserve, 0);
  const std::array<std::int64_t, 5> amounts{parts.used, parts.promised, parts.foreign, free,
                                            parts.reserve};
  std::string bar;
  std::int64_t sum = 0;
  std::int64_t drawn = 0;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    sum += amounts[i];
    // Whatever is there at all is seen, as long as there is room.
    std::int64_t until = (sum * kBarWidth + parts.total / 2) / parts.total;
    if (amounts[i] > 0 && until == drawn && i < 3) {
      ++until;
    }
    until = std::min(until, kBarWidth);
    for (; drawn < until; ++drawn) {
      bar += inks[i].mark;
    }
  }
  return bar;
}

std::string legend(const Palette& inks) {
  return fmt::format(
      "{} used  {} promised, not used yet  {} foreign  {} free  {} kept by the driver\n",
      inks[0].mark, inks[1].mark, inks[2].mark, inks[3].mark, inks[4].mark);
}

using Owners = std::map<std::string, std::string, std::less<>>;  // by lease id

// "l-0001 alice, l-0003 bob; no lease: pid 4711 (python)"
std::string who_text(const Value& device, const Owners& owners) {
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (const Value* leases = device.find("leases"); leases != nullptr && leases->is_array()) {
    for (const Value& id : leases->as_array()) {
      const auto owner = owners.find(id.as_string());
      add(owner == owners.end() ? id.as_string() : id.as_string() + " " + owner->second);
    }
  }
  if (const Value* foreign = device.find("foreign_processes");
      foreign != nullptr && foreign->is_array()) {
    for (std::size_t i = 0; i < foreign->as_array().size(); ++i) {
      const std::string& process = foreign->as_array()[i].as_string();
      text += i > 0 ? ", " : text.empty() ? "no lease: " : "; no lease: ";
      text += process.empty() ? "a process" : process;
    }
  }
  return text.empty() ? "-" : text;
}

Cell health_cell(const Value& device) {
  const std::string health(device.text("health"));
  if (health != "ok") {
    return {health, Tone::bad};
  }
  if (device.flag("drained")) {
    return {"drained", Tone::busy};
  }
  const std::string reason(device.text("reason"));
  return reason.empty() || reason == "mig-parent" ? Cell("ok", Tone::good)
                                                  : Cell(reason, Tone::busy);
}

std::string amount(const Value& device, std::string_view field) {
  const Value* mib = device.find(field);
  return mib != nullptr && mib->is_integer() ? rough_memory(mib->as_integer()) : "?";
}

std::string age_text(const Value& device) {
  const Value* age = device.find("sample_age_ms");
  return age == nullptr || !age->is_integer()
             ? "-"
             : fmt::format("{}.{}s", age->as_integer() / 1000, age->as_integer() % 1000 / 100);
}

std::string table_of(const json::Array& devices, const Owners& owners, const Look& look,
                     bool wide) {
  const DeviceNames names(devices);
  std::vector<Grid::Column> columns{{.title = "GPU"},
                                    {.title = "MODEL", .rank = 4},
                                    {.title = "TOTAL", .right = true},
                                    {.title = "PROMISED", .right = true},
                                    {.title = "USED", .right = true},
                                    {.title = "FOREIGN", .right = true},
                                    {.title = "FREE", .right = true},
                                    {.title = "MEMORY", .rank = 3},
                                    {.title = "MODE", .rank = 5},
                                    {.title = "HEALTH"}};
  if (wide) {
    columns.insert(columns.end(), {{.title = "RESERVE", .right = true},
                                   {.title = "SAMPLE", .right = true},
                                   {.title = "ISOLATION"},
                                   {.title = "UUID"}});
  }
  columns.push_back({.title = "WHO", .elastic = true});
  Grid grid(std::move(columns));
  for (const Value& device : devices) {
    // The MIG parent is only the frame of its instances.
    const bool parent = device.flag("mig_parent");
    std::vector<Cell> row{
        names.name(device.text("uuid")),
        device.text("model"),
        amount(device, "total_mib"),
        amount(device, "promised_mib"),
        amount(device, "used_mib"),
        amount(device, "foreign_mib"),
        {parent ? std::string("-") : amount(device, "headroom_mib"), Tone::strong},
        bar_of(parts_of(device), palette(look)),
        device.text("mode"),
        health_cell(device)};
    if (wide) {
      row.insert(row.end(), {amount(device, "reserve_mib"), age_text(device),
                             device.text("isolation"), device.text("uuid")});
    }
    row.emplace_back(who_text(device, owners));
    grid.add(std::move(row));
  }
  return grid.text(look);
}

ExitCode run_gpus(const Arguments& arguments, Console& console) {
  if (arguments.has(kNodeAnnotationOption.name)) {
    return print_node_annotation(arguments, console);
  }
  const Result<std::unique_ptr<Books>> opened = open_books(arguments);
  if (!opened) {
    return fail("gpus", opened.error(), console);
  }
  Books& books = **opened;
  const std::string format = *arguments.value("--output");
  const auto draw = [&](const Look& look) -> Result<std::string> {
    TRY(json::Array devices, books.list("/v1/devices", "devices"));
    if (format == "json" || format == "yaml") {
      return text_of(json::object({{"devices", std::move(devices)}}), format,
                     arguments.has("--watch"));
    }
    if (devices.empty()) {
      return std::string(
          books.has_jobs()
              ? "The daemon sees no GPU; `berth doctor` looks for the reason.\n"
              : "No node says which GPUs it has: see docs/kubernetes.md, \"Nodes\".\n");
    }
    TRY(const json::Array leases, books.list("/v1/leases?state=live&limit=10000", "leases"));
    Owners owners;
    for (const Value& lease : leases) {
      owners[std::string(lease.text("id"))] = lease.text("owner");
    }
    std::string text = table_of(devices, owners, look, format == "wide");
    // Where the window is too narrow for the bars, they need no legend.
    if (look.terminal && text.contains("MEMORY")) {
      text += toned(legend(palette(look)), Tone::faint, look);
    }
    return text;
  };
  const Result<void> shown = show_books(arguments, console, books, draw);
  return shown ? ExitCode::done : fail("gpus", shown.error(), console);
}

}  // namespace

constinit const Command kGpusCommand{
    .name = "gpus",
    .summary = "list the GPUs: memory promised, used, foreign and free, and who is there",
    .description =
        "PROMISED is what leases were granted, whether they use it yet or not. USED is what the "
        "driver measures, FOREIGN the part of it that no lease explains; it is not given out. FREE "
        "is what can still be promised. The bar shows the same from left to right.\n\n"
        "HEALTH also says why nothing new comes to a device: drained, stale-samples, "
        "unknown-memory, no-source.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_gpus,
};

}  // namespace berth::cli
