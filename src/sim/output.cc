#include "sim/output.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "sim/table.h"

namespace berth::sim {

namespace {

constexpr int kPercentDecimals = 3;

std::optional<double> mean_at(const PolicySummary& summary, int percent) {
  const auto index = static_cast<std::size_t>(percent);
  if (index >= summary.curve.size() || !summary.curve[index]) return std::nullopt;
  return summary.curve[index]->mean;
}

std::optional<double> value_at(const RunResult& run, int percent) {
  const auto index = static_cast<std::size_t>(percent);
  return index < run.curve.size() ? run.curve[index] : std::nullopt;
}

template <typename ValueAt>
Document allocation_document(ValueAt value) {
  Document points = Document::object();
  for (const int percent : kShownPercents) {
    points.add(std::to_string(percent), Document::fixed(value(percent), kPercentDecimals));
  }
  return points;
}

Document fragmentation_document(const Fragmentation& shares) {
  Document causes = Document::object();
  for (std::size_t i = 0; i < kIdleCauses; ++i) {
    causes.add(std::string(idle_cause_key(static_cast<IdleCause>(i))),
               Document::fixed(shares[i], kPercentDecimals));
  }
  return causes;
}

Document decisions_document(const LatencyStats& latency) {
  Document decisions = Document::object();
  decisions.add("count", latency.count())
      .add("p50_us", Document::fixed(latency.quantile_us(0.5), 3))
      .add("p99_us", Document::fixed(latency.quantile_us(0.99), 3))
      .add("per_second", Document::fixed(latency.per_second(), 0));
  return decisions;
}

Document refused_document(const RunResult& run) {
  Document refused = Document::array();
  for (const auto& [key, pods] : run.refused) {
    refused.push(Document::object()
                     .add("work", key.first.label())
                     .add("reason", refusal_key(key.second))
                     .add("pods", pods));
  }
  return refused;
}

Document run_document(const std::string& trace, const RunResult& run) {
  Document document = Document::object();
  document.add("trace", trace)
      .add("policy", run.spec.policy)
      .add("seed", run.spec.seed)
      .add("arrivals", run.arrivals)
      .add("failed", run.failed)
      .add("allocation", allocation_document([&](int percent) { return value_at(run, percent); }))
      .add("fragmentation", fragmentation_document(run.fragmentation))
      .add("refused", refused_document(run))
      .add("decisions", decisions_document(run.latency))
      .add("seconds", Document::fixed(run.seconds, 3));
  return document;
}

Document summary_document(const Comparison& comparison, const PolicySummary& summary) {
  Document seeds = Document::array();
  for (const std::uint64_t seed : comparison.seeds)
    seeds.push(seed);
  Document document = Document::object();
  document.add("trace", comparison.scene->trace)
      .add("policy", summary.policy)
      .add("seeds", std::move(seeds))
      .add("failed", Document::fixed(summary.failed, 1))
      .add("allocation",
           allocation_document([&](int percent) { return mean_at(summary, percent); }))
      .add("fragmentation", fragmentation_document(summary.fragmentation));
  return document;
}

std::string shown(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "-";
}

Table result_table(bool with_seed) {
  std::vector<Table::Column> columns = {{"POLICY", Table::Align::left}};
  if (with_seed) columns.push_back({"SEED", Table::Align::right});
  for (const int percent : kShownPercents) {
    columns.push_back({fmt::format("@{}", percent), Table::Align::right});
  }
  for (const char* name : {"FAILED", "IDLE GPUS", "P50 US", "P99 US"}) {
    columns.push_back({name, Table::Align::right});
  }
  return Table(std::move(columns));
}

std::string headline(const Comparison& comparison) {
  const Scene& scene = *comparison.scene;
  const auto counted = [](auto count, std::string_view what) {
    return fmt::format("{} {}{}", with_commas(static_cast<std::int64_t>(count)), what,
                       count == 1 ? "" : "s");
  };
  return fmt::format("trace {}: {} on {} with {}, {}\n", scene.trace,
                     counted(scene.pods.size(), "pod"), counted(scene.nodes.size(), "node"),
                     counted(scene.capacity / kWholeDeviceMilli, "GPU"),
                     counted(comparison.seeds.size(), "seed"));
}

std::string footer(const Comparison& comparison) {
  std::string text =
      "\n@N = GPU allocation in percent when N % of the fleet's GPUs had been asked for; FAILED = "
      "refused pods.\n";
  if (comparison.bounds) {
    text += fmt::format(
        "Bound: no scheduler that places whatever fits gets past {:.2f} % before it first refuses; "
        "one that may\nrefuse at will could fill {:.2f} %.\n",
        comparison.bounds->no_reject, comparison.bounds->choose_any);
  }
  return text;
}

}  // namespace

std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

Document comparison_document(const Comparison& comparison) {
  Document runs = Document::array();
  for (const RunResult& run : comparison.runs) {
    runs.push(run_document(comparison.scene->trace, run));
  }
  Document summary = Document::array();
  for (const PolicySummary& policy : comparison.policies) {
    summary.push(summary_document(comparison, policy));
  }
  Document bound = Document::object();
  const std::optional<double> no_reject =
      comparison.bounds ? std::optional(comparison.bounds->no_reject) : std::nullopt;
  bound.add("no_reject", Document::fixed(no_reject, kPercentDecimals));
  if (comparison.bounds) {
    bound.add("choose_any", Document::fixed(comparison.bounds->choose_any, kPercentDecimals));
  }
  Document document = Document::object();
  document.add("version", "v1")
      .add("runs", std::move(runs))
      .add("summary", std::move(summary))
      .add("bound", std::move(bound));
  return document;
}

std::string comparison_table(const Comparison& comparison, TableDetail detail) {
  const bool every_run = detail == TableDetail::every_run;
  const double gpus = static_cast<double>(comparison.scene->capacity) / kWholeDeviceMilli;
  Table table = result_table(every_run);
  const auto add = [&](std::vector<std::string> row, auto value, double failed, double final,
                       const LatencyStats& latency) {
    for (const int percent : kShownPercents)
      row.push_back(shown(value(percent), 2));
    row.push_back(fmt::format("{:.0f}", failed));
    row.push_back(fmt::format("{:.0f}", gpus * (100 - final) / 100));
    row.push_back(fmt::format("{:.1f}", latency.quantile_us(0.5)));
    row.push_back(fmt::format("{:.1f}", latency.quantile_us(0.99)));
    table.add(std::move(row));
  };
  for (const PolicySummary& policy : comparison.policies) {
    if (every_run) {
      for (const std::size_t index : policy.runs) {
        const RunResult& run = comparison.runs[index];
        add(
            {policy.policy, std::to_string(run.spec.seed)},
            [&](int percent) { return value_at(run, percent); }, static_cast<double>(run.failed),
            run.final_allocation, run.latency);
      }
    }
    std::vector<std::string> row = {policy.policy};
    if (every_run) row.push_back("mean");
    add(
        std::move(row), [&](int percent) { return mean_at(policy, percent); }, policy.failed,
        policy.final_allocation, policy.latency);
  }
  return headline(comparison) + "\n" + table.text() + footer(comparison);
}

}  // namespace berth::sim
