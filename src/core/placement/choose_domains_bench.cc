// Choosing domains and keeping counts: 2,000 nodes in 4 blocks of 25 racks of 20.
#include <benchmark/benchmark.h>
#include <string>

#include "core/placement/choose_domains.h"

namespace berth::core {
namespace {

struct Hall {
  Hall() {
    for (int i = 0; i < 2000; ++i) {
      Node node;
      node.name = "n" + std::to_string(i);
      node.labels = {{"block", std::to_string(i / 500)},
                     {"rack", std::to_string(i / 20)},
                     {"kubernetes.io/hostname", node.name}};
      const NodeId id = fleet.upsert(std::move(node)).value().node;
      domains.sync(fleet, id);
      counts.set(id, {.members = i * 7 % 9, .with_leader = kNoRoom, .hole = i % 5});
    }
  }

  Fleet fleet;
  Topology topology{.name = "t", .levels = {"block", "rack", "kubernetes.io/hostname"}};
  Domains domains{topology};
  MemberCounts counts{domains};
};

void choose(benchmark::State& state, const LevelRule& rule) {
  const Hall hall;
  const DomainAsk ask{.members = 512, .leader = false, .within = kWholePool};
  for (auto _ : state) {
    benchmark::DoNotOptimize(choose_domains(hall.counts, rule, ask));
  }
}

BENCHMARK_CAPTURE(choose, required_block, LevelRule{.required = 0});
BENCHMARK_CAPTURE(choose, preferred_rack, LevelRule{.required = kNoLevel, .preferred = 1});
BENCHMARK_CAPTURE(choose, unconstrained, LevelRule{});
BENCHMARK_CAPTURE(choose, segments_of_16_by_rack,
                  LevelRule{.required = 0, .preferred = kNoLevel, .segments = {{1, 16}}});

void set(benchmark::State& state) {
  Hall hall;
  std::size_t node = 0;
  std::int64_t members = 0;
  for (auto _ : state) {
    hall.counts.set(NodeId(node), {.members = members});
    node = (node + 7) % 2000;
    members = (members + 1) % 9;
  }
}
BENCHMARK(set);

}  // namespace
}  // namespace berth::core
