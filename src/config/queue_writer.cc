#include "config/queue_writer.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/amount.h"
#include "config/instant.h"
#include "config/written.h"

namespace berth::config {

namespace {

using core::QueueDimension;
using core::QueueSpec;

// "{a: 1, b: 2}" from what differs from the default.
class Braces {
 public:
  void add(std::string_view key, std::string_view value) {
    parts_.push_back(fmt::format("{}: {}", key, value));
  }

  bool empty() const { return parts_.empty(); }

  std::string text() const { return fmt::format("{{{}}}", fmt::join(parts_, ", ")); }

 private:
  std::vector<std::string> parts_;
};

std::string dimension_text(const QueueDimension& dimension) {
  const QueueDimension plain;
  Braces braces;
  if (dimension.deserved != plain.deserved) {
    braces.add("deserved", amount_text(dimension.deserved, dimension.kind));
  }
  if (dimension.limit != plain.limit) {
    braces.add("limit", amount_text(dimension.limit, dimension.kind));
  }
  if (dimension.reserved != plain.reserved) {
    braces.add("reserved", amount_text(dimension.reserved, dimension.kind));
  }
  if (dimension.weight != plain.weight) braces.add("weight", std::to_string(dimension.weight));
  return braces.text();
}

std::string_view order_word(core::QueueOrder order) {
  switch (order) {
    case core::QueueOrder::fifo: return "fifo";
    case core::QueueOrder::strict: return "strict";
    case core::QueueOrder::best_effort: return "bestEffort";
  }
  return "";
}

std::string_view reclaim_word(core::ReclaimRight right) {
  switch (right) {
    case core::ReclaimRight::never: return "never";
    case core::ReclaimRight::guarantee: return "guarantee";
    case core::ReclaimRight::fair_share: return "fairShare";
  }
  return "";
}

std::string_view preempt_word(core::PreemptRight right) {
  return right == core::PreemptRight::never ? "never" : "lowerPriority";
}

std::string_view stop_word(core::QueueStop stop) {
  switch (stop) {
    case core::QueueStop::none: return "none";
    case core::QueueStop::hold: return "hold";
    case core::QueueStop::hold_and_drain: return "holdAndDrain";
  }
  return "";
}

std::string protection_text(Duration reclaim, Duration preempt) {
  Braces braces;
  braces.add("reclaim", duration_text(reclaim));
  braces.add("preempt", duration_text(preempt));
  return braces.text();
}

std::string min_runtime_text(const core::MinRuntime& runtime) {
  Braces braces;
  braces.add("reclaim", duration_text(runtime.reclaim));
  braces.add("preempt", duration_text(runtime.preempt));
  Braces classes;
  for (const core::MinRuntime::ByPriority& row : runtime.by_priority) {
    classes.add(std::to_string(row.at_least), protection_text(row.reclaim, row.preempt));
  }
  if (!classes.empty()) braces.add("classes", classes.text());
  return braces.text();
}

class QueueText {
 public:
  explicit QueueText(const QueueSpec& spec) : spec_(spec) {}

  std::string text() && {
    out_ = fmt::format("  - name: {}\n", scalar(spec_.name));
    add_place();
    add_rights();
    add_limits();
    return std::move(out_);
  }

 private:
  void add(std::string_view key, std::string_view value) {
    out_ += fmt::format("    {}: {}\n", key, value);
  }

  void add_place() {
    if (spec_.parent != plain_.parent) add("parent", scalar(spec_.parent));
    if (spec_.priority != plain_.priority) add("priority", std::to_string(spec_.priority));
    if (!spec_.dimensions.empty()) out_ += "    dims:\n";
    for (const QueueDimension& dimension : spec_.dimensions) {
      out_ += fmt::format("      {}: {}\n", scalar(core::dimension_name(dimension)),
                          dimension_text(dimension));
    }
    if (spec_.order != plain_.order) add("order", order_word(spec_.order));
  }

  void add_rights() {
    if (spec_.reclaim != plain_.reclaim) add("reclaim", reclaim_word(spec_.reclaim));
    if (spec_.preempt != plain_.preempt) add("preempt", preempt_word(spec_.preempt));
    if (spec_.min_runtime != plain_.min_runtime) {
      add("minRuntime", min_runtime_text(spec_.min_runtime));
    }
    if (spec_.preemption_delay != plain_.preemption_delay) {
      add("preemptionDelay", duration_text(spec_.preemption_delay));
    }
    if (spec_.history) {
      add("history", fmt::format("{{halfLife: {}, k: {}}}", duration_text(spec_.history->half_life),
                                 spec_.history->k));
    }
    if (spec_.aging != plain_.aging) {
      add("aging",
          fmt::format("{{step: {}, max: {}}}", duration_text(spec_.aging.step), spec_.aging.max));
    }
  }

  void add_limits() {
    if (spec_.evictions != plain_.evictions) {
      add("evictions",
          fmt::format("{{perWorkloadPerHour: {}, perClaim: {}}}",
                      spec_.evictions.per_workload_per_hour, spec_.evictions.per_claim));
    }
    if (spec_.stop != plain_.stop) add("stop", stop_word(spec_.stop));
    if (spec_.policy != plain_.policy) add("policy", scalar(spec_.policy));
    if (spec_.device_cap) add("deviceCap", std::to_string(*spec_.device_cap));
    if (spec_.created != plain_.created) add("created", instant_text(spec_.created));
  }

  const QueueSpec plain_;
  const QueueSpec& spec_;
  std::string out_;
};

}  // namespace

std::string queue_file_text(const core::QueueConfig& config, std::string_view remark) {
  std::string out;
  while (!remark.empty()) {
    const std::string_view line = remark.substr(0, remark.find('\n'));
    out += line.empty() ? "#\n" : fmt::format("# {}\n", line);
    remark.remove_prefix(std::min(remark.size(), line.size() + 1));
  }
  if (config.priority_rule == core::PriorityRule::kai) out += "priorityRule: kai\n";
  out += config.queues.empty() ? "queues: []\n" : "queues:\n";
  for (const QueueSpec& spec : config.queues)
    out += QueueText(spec).text();
  return out;
}

}  // namespace berth::config
