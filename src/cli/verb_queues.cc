#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/books.h"
#include "cli/daemon_client.h"
#include "cli/grid.h"
#include "cli/live_view.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {
    kWatchOption,      kIntervalOption, kWideOutputOption, kKubeOption,      kNamespaceOption,
    kKubeconfigOption, kContextOption,  kAddressOption,    kTokenFileOption, kCaFileOption,
};

constexpr Example kExamples[] = {
    {"berth queues", "who waits and what each queue uses of its share"},
    {"berth queues check queues.yaml --fleet 8x80GiB:H100",
     "try a file before the daemon reads it"},
};

// A quota of memory is in MiB, all others are thousandths of a device.
std::string amount_text(const Value& figure, std::string_view field) {
  const Value* amount = figure.find(field);
  if (amount == nullptr || !amount->is_integer()) {
    return "unlimited";
  }
  const std::int64_t value = amount->as_integer();
  if (figure.text("resource").contains("memory")) {
    return memory_text(value);
  }
  std::string text = fmt::format("{}.{:03}", value / 1000, value % 1000);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string name_text(const Value& queue, bool wide) {
  const std::string_view path = queue.text("path", queue.text("name"));
  if (wide) {
    return std::string(path);
  }
  // "root/research/vision" stands two steps in.
  const auto depth = static_cast<std::size_t>(std::ranges::count(path, '/'));
  return std::string(depth > 1 ? 2 * (depth - 1) : 0, ' ') + std::string(queue.text("name"));
}

std::string table_of(const json::Array& queues, const Look& look, bool wide) {
  std::vector<Grid::Column> columns{{.title = "QUEUE"},
                                    {.title = "WAITING", .right = true},
                                    {.title = "RUNNING", .right = true},
                                    {.title = "RESOURCE", .rank = 1},
                                    {.title = "USED", .right = true},
                                    {.title = "DESERVED", .right = true},
                                    {.title = "SHARE", .right = true, .rank = 3},
                                    {.title = "LIMIT", .right = true},
                                    {.title = "DEMAND", .right = true, .rank = 2},
                                    {.title = "HELD", .elastic = true}};
  Grid grid(std::move(columns));
  for (const Value& queue : queues) {
    std::vector<Cell> first{name_text(queue, wide), std::to_string(queue.integer("waiting")),
                            std::to_string(queue.integer("running"))};
    const Cell held(std::string(queue.text("held")), Tone::bad);
    const Value* quota = queue.find("quota");
    if (quota == nullptr || !quota->is_array() || quota->as_array().empty()) {
      first.insert(first.end(), {"-", "-", "-", "-", "-", "-", held});
      grid.add(std::move(first));
      continue;
    }
    for (const Value& figure : quota->as_array()) {
      std::vector<Cell> row = first;
      row.insert(row.end(), {figure.text("resource"), amount_text(figure, "used"),
                             amount_text(figure, "deserved"), amount_text(figure, "fair_share"),
                             amount_text(figure, "limit"), amount_text(figure, "demand"), held});
      grid.add(std::move(row));
      first = {"", "", ""};
    }
  }
  return grid.text(look);
}

ExitCode run_queues(const Arguments& arguments, Console& console) {
  const Result<std::unique_ptr<Books>> opened = open_books(arguments);
  if (!opened) {
    return fail("queues", opened.error(), console);
  }
  Books& books = **opened;
  const std::string format = *arguments.value("--output");
  const auto draw = [&](const Look& look) -> Result<std::string> {
    TRY(json::Array queues, books.list("/v1/queues", "queues"));
    if (format == "json" || format == "yaml") {
      return text_of(json::object({{"queues", std::move(queues)}}), format,
                     arguments.has("--watch"));
    }
    return table_of(queues, look, format == "wide");
  };
  const Result<void> shown = show_books(arguments, console, books, draw);
  return shown ? ExitCode::done : fail("queues", shown.error(), console);
}

}  // namespace

constinit const Command kQueuesCommand{
    .name = "queues",
    .summary = "list the queues: who waits, what is used of which share",
    .description =
        "DESERVED is what a queue gets back whenever it asks for it, SHARE what it is entitled to "
        "now, LIMIT what it can never exceed, DEMAND what it would use if it could. HELD says why "
        "a queue admits nothing.\n\n"
        "`berth queues check`, `fields` and `import` work on queue files and need no books.",
    .options = kOptions,
    .examples = kExamples,
    .run = run_queues,
};

}  // namespace berth::cli
