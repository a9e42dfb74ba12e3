#include <fmt/format.h>

#include "sim/output.h"
#include "sim/table.h"

namespace berth::sim {

Document load_document(const Scene& scene, const std::vector<LoadResult>& results) {
  Document runs = Document::array();
  for (const LoadResult& run : results) {
    const LatencyStats& latency = run.latency;
    runs.push(
        Document::object()
            .add("policy", run.spec.policy)
            .add("seed", run.spec.seed)
            .add("refused", run.refused)
            .add("departures", run.departures)
            .add("allocation", Document::object()
                                   .add("lowest", Document::fixed(run.lowest, 3))
                                   .add("mean", Document::fixed(run.mean, 3))
                                   .add("highest", Document::fixed(run.highest, 3)))
            .add("decisions", Document::object()
                                  .add("count", latency.count())
                                  .add("p50_us", Document::fixed(latency.quantile_us(0.5), 3))
                                  .add("p99_us", Document::fixed(latency.quantile_us(0.99), 3))
                                  .add("per_second", Document::fixed(latency.per_second(), 0)))
            .add("virtual_seconds", Document::fixed(run.virtual_seconds, 1)));
  }
  return Document::object()
      .add("version", "v1")
      .add("trace", scene.trace)
      .add("fleet", Document::object()
                        .add("nodes", scene.nodes.size())
                        .add("gpus", scene.capacity / kWholeDeviceMilli))
      .add("runs", std::move(runs));
}

std::string load_table(const Scene& scene, const std::vector<LoadResult>& results) {
  using Align = Table::Align;
  Table table({{"POLICY", Align::left},
               {"SEED", Align::right},
               {"DECISIONS", Align::right},
               {"REFUSED", Align::right},
               {"ALLOCATED %", Align::right},
               {"LOW - HIGH", Align::right},
               {"P50 US", Align::right},
               {"P99 US", Align::right},
               {"PER SECOND", Align::right}});
  for (const LoadResult& run : results) {
    table.add({run.spec.policy, std::to_string(run.spec.seed), with_commas(run.latency.count()),
               with_commas(run.refused), fmt::format("{:.2f}", run.mean),
               fmt::format("{:.1f} - {:.1f}", run.lowest, run.highest),
               fmt::format("{:.1f}", run.latency.quantile_us(0.5)),
               fmt::format("{:.1f}", run.latency.quantile_us(0.99)),
               with_commas(static_cast<std::int64_t>(run.latency.per_second()))});
  }
  return fmt::format("generated load from trace {} on {} nodes with {} GPUs\n\n{}", scene.trace,
                     with_commas(static_cast<std::int64_t>(scene.nodes.size())),
                     with_commas(scene.capacity / kWholeDeviceMilli), table.text());
}

}  // namespace berth::sim
