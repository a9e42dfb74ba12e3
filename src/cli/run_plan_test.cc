#include "cli/run_plan.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/keeper.h"

namespace berth::cli {
namespace {

using testing::ElementsAre;

TEST(RunEnvironment, TheLeasesVariablesWin) {
  EXPECT_THAT(run_environment({"A=1", "CUDA_VISIBLE_DEVICES=0,1", "B=2=3"},
                              {{"CUDA_VISIBLE_DEVICES", "GPU-1"}, {"BERTH_LEASE_ID", "l-1"}}),
              ElementsAre("A=1", "B=2=3", "CUDA_VISIBLE_DEVICES=GPU-1", "BERTH_LEASE_ID=l-1"));
}

TEST(RunEnvironment, NothingOfAnOuterLeaseStays) {
  EXPECT_THAT(run_environment({"BERTH_GRANT_DIR=/outer", "BERTH_LEASE_ID=l-0", "BERTH_MEMORY_MIB=9",
                               "BERTH_DEVICE_UUID=x", "BERTH_JOURNAL_ID=o", "BERTH_SOCKET=/s",
                               "LD_PRELOAD=/x/libberth_guard.so:/mine.so"},
                              {{"BERTH_LEASE_ID", "l-1"}}),
              ElementsAre("BERTH_SOCKET=/s", "BERTH_LEASE_ID=l-1", "LD_PRELOAD=/mine.so"));
}

TEST(RunEnvironment, AUsersPreloadStandsBehindTheGuard) {
  EXPECT_THAT(run_environment({"LD_PRELOAD=/a.so /b.so"}, {{"LD_PRELOAD", "/l/libberth_guard.so"}}),
              ElementsAre("LD_PRELOAD=/l/libberth_guard.so:/a.so:/b.so"));
  EXPECT_THAT(run_environment({"LD_PRELOAD="}, {}), ElementsAre());
}

json::Value lease(const std::string& text) { return json::parse(text).value(); }

TEST(WaitingLine, SaysPlaceAndWhatIsMissingFirst) {
  EXPECT_EQ(waiting_line(lease(R"({"state":"waiting","message":"needs 6144 MiB on one GPU",
      "queue":{"name":"team-a","position":3,"of":7,"shortfall_mib":1024,"eta_seconds":270}})")),
            "waiting, place 3 of 7 in queue team-a, 1024 MiB missing, about 4m30s left: needs 6144 "
            "MiB on one GPU");
  EXPECT_EQ(waiting_line(lease(R"({"state":"waiting","reason":"reconciling","message":null,
      "queue":{"name":"default","position":null,"shortfall_mib":null}})")),
            "waiting: reconciling");
  EXPECT_EQ(waiting_line(lease(R"({"queue":{"name":"q","position":1,"of":1,"eta_seconds":0}})")),
            "waiting, place 1 of 1 in queue q, may start any moment");
}

TEST(GrantedLine, NamesTheDevices) {
  EXPECT_EQ(granted_line(lease(R"({"memory_mib":4096,"devices":[
      {"uuid":"GPU-1","index":1,"model":"H100","node":"n1","mig":false}]})")),
            "GPU 1 (H100) of n1, 4096 MiB");
  EXPECT_EQ(granted_line(lease(R"({"memory_mib":9,"devices":[
      {"uuid":"GPU-1","index":0,"model":"GPU","node":"n1","mig":false},
      {"uuid":"MIG-2","index":0,"model":"GPU","node":"n1","mig":true}]})")),
            "GPU 0, MIG-2 of n1, 9 MiB each");
}

TEST(KeeperNews, PassesThroughThePipeAsOneLine) {
  const KeeperNews news{
      .kind = KeeperNews::Kind::leaving, .reason = "evicted", .text = "for l-2,\nwhich\tis older"};
  const std::string line = encode(news);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto back = decode_news(line.substr(0, line.size() - 1));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, news.kind);
  EXPECT_EQ(back->reason, "evicted");
  EXPECT_EQ(back->text, "for l-2,\\nwhich\\tis older");
  EXPECT_FALSE(decode_news("leaving"));
  EXPECT_FALSE(decode_news("else\ta\tb"));
}

}  // namespace
}  // namespace berth::cli
