#include "cli/run_plan.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "cli/words_for_people.h"
#include "request/mig_profile.h"
#include "request/units.h"

namespace berth::cli {

namespace {

constexpr std::size_t kMostLabel = 512;                      // bytes of a label (leases.md 3.2)
constexpr std::size_t kMostValue = 80;                       // of what was typed, in a message
constexpr std::int64_t kLongestTimeMs = 366 * 86'400'000LL;  // what a lease may ask for
constexpr std::string_view kGuardName = "libberth_guard.so";

Error bad_option(std::string_view option, std::string_view value, std::string_view rule) {
  return invalid_argument(fmt::format(
      "{} {}: {}", option, value.empty() ? "''" : shortened(printable(value), kMostValue), rule));
}

Result<std::int64_t> whole(const Arguments& arguments, std::string_view option, std::int64_t least,
                           std::int64_t most) {
  const std::string text = *arguments.value(option);
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || rest != text.data() + text.size() || number < least ||
      number > most) {
    return bad_option(option, text, fmt::format("write a whole number from {} to {}", least, most));
  }
  return number;
}

Result<std::int64_t> mib(const Arguments& arguments, std::string_view option) {
  const std::string text = *arguments.value(option);
  const auto size = request::parse_lease_size(text);
  if (!size.has_value()) return bad_option(option, text, "write " + size.error().rule);
  if (size->ceil_mib() < 1) {
    return bad_option(option, text,
                      "write at least 1Mi; for work without a GPU, berth run is not needed");
  }
  return size->ceil_mib();
}

Result<Duration> time_of(const Arguments& arguments, std::string_view option) {
  const std::string text = *arguments.value(option);
  Result<Duration> time = time_given(option, text);
  if (!time.ok() || time->count() < 1000 || time->count() > kLongestTimeMs)
    return bad_option(option, text,
                      "write a time from 1s to 366d, a whole number with its unit: 30s, 10m, 2h");
  return time;
}

std::string gpus_text(std::int64_t count) {
  return count == 1 ? "one GPU" : fmt::format("each of {} GPUs", count);
}

// What is asked of the devices. Exactly one kind; --gpus alone means whole ones.
Result<void> read_claim(const Arguments& arguments, RunPlan& plan) {
  json::Value& body = plan.reservation;
  std::int64_t count = 1;
  if (arguments.has("--gpus")) {
    TRY(count, whole(arguments, "--gpus", 1, 16));
    body.set("count", count);
  }
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : {"--gpu-memory", "--fraction", "--mig-profile"}) {
    if (arguments.has(kind)) kinds.push_back(kind);
  }
  if (kinds.size() > 1) {
    return invalid_argument(
        fmt::format("{} cannot be combined: each says by itself how much of a GPU is asked",
                    fmt::join(kinds, " and ")));
  }
  if (kinds.empty() && !arguments.has("--gpus")) {
    return invalid_argument(
        "nothing says how much GPU is asked: write --gpu-memory 4Gi, --fraction 0.5, --mig-profile "
        "1g.10gb, or --gpus 1 for a whole GPU");
  }
  if (arguments.has("--gpu-memory")) {
    TRY(const std::int64_t request, mib(arguments, "--gpu-memory"));
    body.set("memory", request);
    plan.asked = fmt::format("{} MiB of {}", request, gpus_text(count));
    if (arguments.has("--limit")) {
      TRY(const std::int64_t limit, mib(arguments, "--limit"));
      if (limit < request) {
        return bad_option(
            "--limit", *arguments.value("--limit"),
            fmt::format("a limit is at least what --gpu-memory asks, {} MiB", request));
      }
      body.set("memory_limit", limit);
    }
    return success();
  }
  if (arguments.has("--limit"))
    return invalid_argument("--limit goes with --gpu-memory: it says how far memory may grow");
  if (const auto fraction = arguments.value("--fraction")) {
    const auto parsed = request::parse_fraction(*fraction);
    if (!parsed.has_value())
      return bad_option("--fraction", *fraction,
                        "write a share of a GPU, more than 0 and less than 1, with at most 9 "
                        "digits after the point, such as 0.25; for a whole GPU --gpus 1");
    body.set("fraction", *fraction);
    plan.asked = fmt::format("{} of {}", *fraction, gpus_text(count));
  } else if (const auto profile = arguments.value("--mig-profile")) {
    const auto parsed = request::parse_mig_profile(*profile);
    if (!parsed.has_value())
      return bad_option("--mig-profile", *profile, "write " + parsed.error().rule);
    body.set("mig_profile", *profile);
    plan.asked = count == 1 ? fmt::format("one MIG device {}", *profile)
                            : fmt::format("{} MIG devices {}", count, *profile);
  } else {
    body.set("exclusive", true);
    plan.asked = count == 1 ? "a whole GPU" : fmt::format("{} whole GPUs", count);
  }
  return success();
}

std::string label_of(const std::vector<std::string>& command) {
  return shortened(printable(fmt::format("{}", fmt::join(command, " "))), kMostLabel);
}

// The value of a number in the lease; nothing if it is null or absent.
std::optional<std::int64_t> number_in(const json::Value* object, std::string_view name) {
  const json::Value* value = object == nullptr ? nullptr : object->find(name);
  return value != nullptr && value->is_integer() ? std::optional(value->as_integer())
                                                 : std::nullopt;
}

// Of a preload list: what is not the guard (of an outer lease).
std::string without_guards(std::string_view list) {
  std::string kept;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(": "), list.size());
    const std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (one.empty() || one.substr(one.rfind('/') + 1) == kGuardName) continue;
    kept += kept.empty() ? "" : ":";
    kept += one;
  }
  return kept;
}

}  // namespace

Result<RunPlan> read_run_plan(const Arguments& arguments, const std::string& key) {
  RunPlan plan;
  plan.command = arguments.operands();
  plan.guard = !arguments.has("--no-guard");
  json::Value& body = plan.reservation;
  body = json::object({{"key", key}});
  TRY_VOID(read_claim(arguments, plan));
  if (const auto queue = arguments.value("--queue")) body.set("queue", *queue);
  if (arguments.has("--priority")) {
    TRY(const std::int64_t priority, whole(arguments, "--priority", -1'000'000'000, 1'000'000'000));
    body.set("priority", priority);
  }
  if (arguments.has("--preemptible")) body.set("preemptible", true);
  if (!plan.guard) body.set("guard", false);
  if (arguments.has("--wait-timeout")) {
    TRY(const Duration wait, time_of(arguments, "--wait-timeout"));
    body.set("queue_timeout_seconds", wait.count() / 1000);
  }
  if (arguments.has("--time")) {
    TRY(plan.run_time, time_of(arguments, "--time"));
    body.set("max_seconds", (plan.run_time->count() + 999) / 1000);
  }
  TRY(plan.grace, time_of(arguments, "--grace"));
  body.set("labels", json::object({{"command", label_of(plan.command)}}));
  return plan;
}

std::vector<std::string> run_environment(
    const std::vector<std::string>& own,
    const std::vector<std::pair<std::string, std::string>>& lease) {
  std::vector<std::string> environment;
  std::string preload;
  for (const std::string& entry : own) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    if (name == "LD_PRELOAD") {
      preload =
          without_guards(std::string_view(entry).substr(std::min(name.size() + 1, entry.size())));
      continue;
    }
    const bool ours =
        name == "BERTH_GRANT_DIR" || name == "BERTH_LEASE_ID" || name == "BERTH_JOURNAL_ID" ||
        name == "BERTH_DEVICE_UUID" || name.starts_with("BERTH_MEMORY_") ||
        std::ranges::any_of(lease, [&](const auto& one) { return one.first == name; });
    if (!ours) environment.push_back(entry);
  }
  for (const auto& [name, value] : lease) {
    if (name == "LD_PRELOAD") {
      preload = preload.empty() ? value : value + ":" + preload;
      continue;
    }
    environment.push_back(fmt::format("{}={}", name, value));
  }
  if (!preload.empty()) environment.push_back("LD_PRELOAD=" + preload);
  return environment;
}

std::vector<std::pair<std::string, std::string>> lease_variables(const json::Value& lease) {
  std::vector<std::pair<std::string, std::string>> variables;
  const json::Value* environment = lease.find("env");
  if (environment == nullptr || !environment->is_object()) return variables;
  for (const auto& [name, value] : environment->as_object()) {
    if (value.is_string()) variables.emplace_back(name, value.as_string());
  }
  return variables;
}

std::string waiting_line(const json::Value& lease) {
  const json::Value* queue = lease.find("queue");
  std::string text = "waiting";
  if (const auto position = number_in(queue, "position")) {
    text += fmt::format(", place {}", *position);
    if (const auto of = number_in(queue, "of"); of && *of >= *position)
      text += fmt::format(" of {}", *of);
    if (const std::string_view name = queue->text("name"); !name.empty())
      text += fmt::format(" in queue {}", printable(name));
  }
  if (const auto missing = number_in(queue, "shortfall_mib"); missing && *missing > 0)
    text += fmt::format(", {} MiB missing", *missing);
  if (const auto eta = number_in(queue, "eta_seconds"))
    text += *eta < 1 ? ", may start any moment" : fmt::format(", about {} left", span_text(*eta));
  if (const std::string_view message = lease.text("message"); !message.empty()) {
    text += fmt::format(": {}", printable(message));
  } else if (const std::string_view reason = lease.text("reason"); !reason.empty()) {
    text += fmt::format(": {}", printable(reason));
  }
  return text;
}

std::string granted_line(const json::Value& lease) {
  const json::Value* devices = lease.find("devices");
  if (devices == nullptr || !devices->is_array() || devices->as_array().empty()) return "no GPU";
  std::vector<std::string> names;
  for (const json::Value& device : devices->as_array()) {
    if (device.flag("mig")) {
      names.emplace_back(device.text("uuid"));
    } else {
      names.push_back(fmt::format("GPU {}", device.integer("index")));
    }
  }
  const json::Value& first = devices->as_array().front();
  const std::string_view model = first.text("model");
  return fmt::format("{}{} of {}, {} MiB{}", fmt::join(names, ", "),
                     model.empty() || model == "GPU" ? "" : fmt::format(" ({})", printable(model)),
                     printable(first.text("node")), lease.integer("memory_mib"),
                     names.size() > 1 ? " each" : "");
}

}  // namespace berth::cli
