#include "cli/cluster_scan.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace berth::cli {

namespace {

using json::Value;

constexpr std::string_view kNodes = R"({"items":[{
  "metadata":{"name":"n0","uid":"u0","annotations":{"berth.dev/devices":
"{\"v\":1,\"backend\":\"none\",\"cdi\":false,\"owned\":true,\"devices\":[)"
                                    R"({\"uuid\":\"GPU-a\",\"index\":0,\"model\":\"H100\",)"
                                    R"(\"totalMiB\":20000,\"reserveMiB\":1000}]}"}},
  "status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"110"},
            "conditions":[{"type":"Ready","status":"True"}]}}]})";

constexpr std::string_view kGrant =
    R"({\"containers\":[{\"devices\":[{\"limitMiB\":8192,\"requestMiB\":4096,)"
    R"(\"uuid\":\"GPU-a\"}],\"exclusive\":false,\"kind\":\"app\",\"mode\":\"time-slicing\",)"
    R"(\"name\":\"main\"}],\"id\":\"g-1\",\"node\":\"n0\",\"v\":1})";

struct PodText {
  std::string name;
  std::string annotations;
  std::string spec;
  std::string phase;
  std::string condition;
};

std::string text_of(const PodText& pod) {
  return R"({"metadata":{"namespace":"team-a","creationTimestamp":"2026-01-01T00:00:00Z",)"
         R"("name":")" +
         pod.name + R"(","uid":"u-)" + pod.name + R"(","annotations":{)" + pod.annotations +
         R"(}},"spec":{"schedulerName":"berth-scheduler","containers":[{"name":"main"}])" +
         pod.spec + R"(},"status":{"phase":")" + pod.phase +
         R"(","conditions":[{"type":"PodScheduled",)" + pod.condition + "}]}}";
}

std::string running() {
  return text_of(
      {.name = "runs",
       .annotations = R"("gpu-memory":"4096","berth.dev/grant":")" + std::string(kGrant) + "\"",
       .spec = R"(,"nodeName":"n0")",
       .phase = "Running",
       .condition = R"("status":"True","lastTransitionTime":"2026-01-01T00:00:10Z")"});
}

std::string waiting() {
  return text_of({.name = "waits",
                  .annotations = R"("gpu-memory":"16000")",
                  .spec = "",
                  .phase = "Pending",
                  .condition = R"("status":"False","reason":"Unschedulable",)"
                               R"("message":"needs 16000 MiB on one GPU")"});
}

// A cluster of the paths that are asked for.
Result<std::string> read_path(const std::string& path) {
  if (path == "/api/v1/nodes") {
    return std::string(kNodes);
  }
  if (path.starts_with("/api/v1/pods?")) {
    return R"({"items":[)" + running() + "," + waiting() + R"(,{"metadata":7}]})";
  }
  const std::map<std::string, std::string> one{
      {"/api/v1/namespaces/team-a/pods/runs", running()},
      {"/api/v1/namespaces/team-a/pods/waits", waiting()},
      {"/api/v1/namespaces/team-a/pods/other",
       R"({"metadata":{"name":"other","namespace":"team-a","uid":"x"},)"
       R"("spec":{"schedulerName":"default-scheduler"}})"}};
  const auto found = one.find(path);
  return found == one.end() ? Result<std::string>(Error{ErrorCode::not_found, "404"})
                            : found->second;
}

Value scan(const std::string& target) {
  Result<Value> value = scan_cluster(target, read_path);
  if (!value) {
    ADD_FAILURE() << value.error().message();
    return {};
  }
  return *value;
}

}  // namespace

TEST(ClusterScan, BooksWhatPodsHoldOnTheDevicesOfNodes) {
  const Value devices = scan("/v1/devices");
  ASSERT_EQ(devices.find("devices")->as_array().size(), 1U);
  const Value& device = devices.find("devices")->as_array()[0];
  EXPECT_EQ(device.text("uuid"), "GPU-a");
  EXPECT_EQ(device.text("node"), "n0");
  EXPECT_EQ(device.integer("total_mib"), 20'000);
  EXPECT_EQ(device.integer("promised_mib"), 4'096);
  EXPECT_EQ(device.integer("headroom_mib"), 19'000 - 4'096);
  EXPECT_EQ(json::dump(*device.find("leases")), R"(["team-a/runs"])");
}

TEST(ClusterScan, ListsPodsWaitingFirstAndLeavesOutWhatIsNone) {
  const Value list = scan("/v1/leases?state=live");
  const json::Array& leases = list.find("leases")->as_array();
  ASSERT_EQ(leases.size(), 2U);
  EXPECT_EQ(leases[0].text("id"), "team-a/waits");
  EXPECT_EQ(leases[0].text("state"), "waiting");
  EXPECT_EQ(leases[0].integer("memory_mib"), 16'000);
  EXPECT_EQ(leases[0].text("message"), "needs 16000 MiB on one GPU");
  EXPECT_EQ(leases[1].text("state"), "active");
  EXPECT_EQ(leases[1].integer("memory_mib"), 4'096);
  EXPECT_EQ(leases[1].integer("limit_mib"), 8'192);
  EXPECT_EQ(leases[1].integer("waited_seconds"), 10);
}

TEST(ClusterScan, Filters) {
  EXPECT_EQ(scan("/v1/leases?state=waiting").find("leases")->as_array().size(), 1U);
  EXPECT_EQ(scan("/v1/leases?device=GPU-a").find("leases")->as_array().size(), 1U);
  EXPECT_EQ(scan("/v1/leases?owner=team-b").find("leases")->as_array().size(), 0U);
  EXPECT_EQ(scan("/v1/leases?queue=default").find("leases")->as_array().size(), 2U);
}

TEST(ClusterScan, ExplainsOnePodByItsOwnCondition) {
  EXPECT_EQ(scan("/v1/leases/team-a%2Fwaits/explain").text("message"),
            "needs 16000 MiB on one GPU");
  EXPECT_EQ(scan("/v1/leases/team-a%2Fruns").text("state"), "active");
}

TEST(ClusterScan, SaysWhatIsNotThere) {
  const auto words = [](const std::string& target) {
    const Result<Value> value = scan_cluster(target, read_path);
    return value ? std::string("found") : value.error().message();
  };
  EXPECT_EQ(words("/v1/leases/team-a%2Fnobody"),
            "there is no pod team-a/nobody; `berth ps --kube` lists those that Berth schedules");
  EXPECT_EQ(words("/v1/leases/team-a%2Fother"),
            "team-a/other names the scheduler default-scheduler, not berth-scheduler: set "
            "spec.schedulerName and create it anew");
  EXPECT_EQ(words("/v1/queues"),
            "only a running scheduler knows that: kubectl -n berth-system get pods");
}

}  // namespace berth::cli
