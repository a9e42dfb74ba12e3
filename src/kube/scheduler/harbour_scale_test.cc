// What a large cluster costs. Figures are printed; the bounds are wide, for shared machines.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "kube/objects/grant.h"
#include "kube/scheduler/harbour_test_support.h"

namespace berth::kube {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Without the checks of Cluster, which look at everything.
struct Large {
  std::unique_ptr<Harbour> harbour;
  Time now{1'000'000};

  explicit Large(int nodes) {
    HarbourConfig config;
    config.nodes.allow_advisory = true;
    harbour = Harbour::create(config, now).value();
    for (int i = 0; i < nodes; ++i) {
      harbour->node_changed(test_node("n" + std::to_string(i), 8, 81559), now);
    }
    harbour->set_ready(true, now);
  }

  // Every binding succeeds at once and is shown by the watch.
  int bind_all(std::map<std::string, Pod>& pods) {
    int bound = 0;
    harbour->settle(now);
    while (harbour->has_deeds()) {
      for (Deed& deed : harbour->take({.bindings = 72, .conditions = 64, .events = 64}, now)) {
        harbour->answered(deed.number, {.status = 201}, now);
        if (const auto* bind = std::get_if<Bind>(&deed.body)) {
          harbour->pod_changed(bound_by(pods.at(bind->pod.name), *bind), now);
          ++bound;
        }
      }
      harbour->settle(now);
    }
    return bound;
  }
};

TEST(HarbourScaleSlow, DecidesThousandsOfPodsASecond) {
  Large large(5'000);
  std::map<std::string, Pod> pods;
  constexpr int kPods = 20'000;
  for (int i = 0; i < kPods; ++i) {
    Pod pod = share_pod("p" + std::to_string(i), 4096);
    pods.emplace(pod.meta.name, pod);
  }
  const auto start = std::chrono::steady_clock::now();
  for (const auto& [name, pod] : pods) {
    large.harbour->pod_changed(pod, large.now);
  }
  const double told = seconds_since(start);
  EXPECT_EQ(large.bind_all(pods), kPods);
  const double all = seconds_since(start);
  std::printf("told in %.3f s, decided and bound in %.3f s: %.0f decisions/s\n", told, all,
              kPods / all);
  EXPECT_GT(kPods / all, 2'000);
  std::printf("events: %lld\n", static_cast<long long>(large.harbour->figures().events));
  EXPECT_EQ(large.harbour->figures().events, kPods);
  EXPECT_EQ(large.harbour->figures().patches, 0);
}

TEST(HarbourScaleSlow, StartsWithTenThousandPodsInASecond) {
  std::map<std::string, Pod> pods;
  std::vector<Pod> bound;
  {
    Large large(1'000);
    for (int i = 0; i < 10'000; ++i) {
      Pod pod = share_pod("p" + std::to_string(i), 4096);
      pods.emplace(pod.meta.name, pod);
      large.harbour->pod_changed(pod, large.now);
    }
    large.harbour->settle(large.now);
    while (large.harbour->has_deeds()) {
      for (Deed& deed : large.harbour->take({.bindings = 100'000, .events = 100'000}, large.now)) {
        if (const auto* bind = std::get_if<Bind>(&deed.body)) {
          bound.push_back(bound_by(pods.at(bind->pod.name), *bind));
        }
      }
    }
  }
  ASSERT_EQ(bound.size(), 10'000U);
  const auto start = std::chrono::steady_clock::now();
  Large large(1'000);
  for (const Pod& pod : bound) {
    large.harbour->pod_changed(pod, large.now);
  }
  large.harbour->settle(large.now);
  const double took = seconds_since(start);
  std::printf("books of 10,000 pods on 1,000 nodes in %.3f s\n", took);
  EXPECT_LT(took, 5.0);
}

double rss_mib() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * 4096 / (1024 * 1024);
}

TEST(HarbourScaleSlow, KeepsFiftyThousandPodsInLittleMemory) {
  const double before = rss_mib();
  Large large(5'000);
  for (int i = 0; i < 50'000; ++i) {
    Pod pod = share_pod("p" + std::to_string(i), 4096);
    pod.meta.uid = fmt::format("00000000-0000-0000-0000-{:012}", i);
    const std::string node = "n" + std::to_string(i % 5'000);
    const std::string uuid = fmt::format("GPU-{}-{}", node, i / 5'000 % 8);
    GrantRecord record{.id = "g-1", .node = node};
    record.containers.push_back(
        {.name = "main", .devices = {{.uuid = uuid, .request_mib = 4096, .limit_mib = 4096}}});
    pod.meta.annotations["berth.dev/grant"] = grant_text(record);
    pod.words.annotations = pod.meta.annotations;
    pod.words.preset_node = node;
    pod.phase = "Running";
    large.harbour->pod_changed(pod, large.now);
  }
  large.harbour->settle(large.now);
  EXPECT_EQ(large.harbour->figures().alarms, 0);
  std::printf("5,000 nodes and 50,000 pods take %.0f MiB\n", rss_mib() - before);
  EXPECT_LT(rss_mib() - before, 290);
}

// kubernetes-api.md 23.8.
TEST(HarbourScaleSlow, TenThousandPodsThatWaitAreToldOnceAndThenNothing) {
  Large large(1'000);
  std::map<std::string, Pod> pods;
  for (int i = 0; i < 10'000; ++i) {
    Pod pod = share_pod("p" + std::to_string(i), 90'000 + i % 7);
    pods.emplace(pod.meta.name, pod);
    large.harbour->pod_changed(pod, large.now);
  }
  const auto start = std::chrono::steady_clock::now();
  large.bind_all(pods);
  std::printf("told 10,000 pods why they wait in %.3f s\n", seconds_since(start));
  EXPECT_EQ(large.harbour->figures().patches, 10'000);
  EXPECT_EQ(large.harbour->figures().events, 10'000);
  const auto quiet = std::chrono::steady_clock::now();
  for (int minute = 0; minute < 30; ++minute) {
    large.now = large.now + Duration(60'000);
    large.bind_all(pods);
  }
  std::printf("half an hour of nothing in %.3f s\n", seconds_since(quiet));
  EXPECT_EQ(large.harbour->figures().patches, 10'000);
  EXPECT_EQ(large.harbour->figures().events, 10'000);
}

}  // namespace
}  // namespace berth::kube
