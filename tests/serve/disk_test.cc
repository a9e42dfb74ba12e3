// A daemon whose disk is full, or slow, under clients that go on asking.
#include <cerrno>
#include <chrono>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "json/value.h"
#include "served_test.h"

namespace berth::serve {
namespace {

// Steered from the test's process while the daemon runs in another one.
struct Weather {
  volatile int error = 0;    // of every write
  volatile int sync_ms = 0;  // how long a sync takes
  volatile int syncs = 0;
};

class Disk final : public store::FaultHook {
 public:
  Disk()
      : weather_(static_cast<Weather*>(mmap(nullptr, sizeof(Weather), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  ~Disk() override { munmap(weather_, sizeof(Weather)); }

  store::DiskFault before(const store::DiskStep& step) override {
    if (step.deed == store::DiskDeed::sync) {
      weather_->syncs = weather_->syncs + 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(weather_->sync_ms));
    }
    return {.error = step.deed == store::DiskDeed::read ? 0 : weather_->error, .written = 0};
  }

  Weather& weather() { return *weather_; }

 private:
  Weather* weather_;
};

std::string reserve_body(std::string_view key, int mib) {
  return fmt::format(R"({{"key":"{}","memory":{}}})", key, mib);
}

json::Value parsed(const std::optional<net::Response>& answer) {
  if (!answer.has_value()) return json::object();
  Result<json::Value> value = json::parse(answer->body);
  return value.ok() ? std::move(*value) : json::object();
}

TEST(ServeDisk, AFullDiskGrantsNothingLosesNothingAndNeedsNoRestart) {
  for (const int error : {ENOSPC, EROFS, EIO}) {
    const Folder folder;
    Disk disk;
    const Served served(folder.path(), &disk);
    ASSERT_TRUE(served.ready());
    const json::Value a = parsed(served.call("POST", "/v1/leases", reserve_body("a", 9000)));
    const json::Value w = parsed(served.call("POST", "/v1/leases", reserve_body("w", 9000)));
    ASSERT_EQ(a.text("state"), "granted");
    ASSERT_EQ(w.text("state"), "waiting");

    disk.weather().error = error;
    const auto refused = served.call("POST", "/v1/leases", reserve_body("b", 1000));
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->status, 503) << refused->body;
    EXPECT_EQ(parsed(refused).find("error")->text("code"), "ledger-unwritable");
    EXPECT_NE(refused->header("Retry-After"), nullptr);
    // Also the room that a release would make goes to nobody before it is written down.
    const auto release =
        served.call("POST", fmt::format("/v1/leases/{}/release", a.text("id")), "{}");
    EXPECT_EQ(release->status, 503) << release->body;
    EXPECT_EQ(served.call("GET", "/readyz", "")->status, 503);
    EXPECT_EQ(served.call("GET", "/healthz", "")->status, 200);
    const auto waiting = served.call("GET", fmt::format("/v1/leases/{}", w.text("id")), "");
    if (waiting->status == 200) {
      EXPECT_EQ(parsed(waiting).text("state"), "waiting");
      EXPECT_EQ(parsed(waiting).text("reason"), "ledger-unwritable");
    }

    disk.weather().error = 0;
    for (int tries = 0; tries < 500 && served.call("GET", "/readyz", "")->status != 200; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(served.call("GET", "/readyz", "")->status, 200);
    // The release was decided and is written down now; who waited has its turn.
    served.call("POST", fmt::format("/v1/leases/{}/release", a.text("id")), "{}");
    EXPECT_EQ(
        parsed(served.call("GET", fmt::format("/v1/leases/{}", w.text("id")), "")).text("state"),
        "granted");
    EXPECT_EQ(served.call("POST", "/v1/leases", reserve_body("b", 1000))->status, 201);
  }
}

TEST(ServeDisk, WhoIsGrantedWhatCannotBeWrittenDownWaitsOnInItsPlace) {
  const Folder folder;
  Disk disk;
  const Served served(folder.path(), &disk);
  ASSERT_TRUE(served.ready());
  const json::Value a = parsed(served.call("POST", "/v1/leases", reserve_body("a", 9000)));
  const json::Value w = parsed(served.call("POST", "/v1/leases", reserve_body("w", 9000)));
  const json::Value behind = parsed(served.call("POST", "/v1/leases", reserve_body("v", 9000)));
  ASSERT_EQ(behind.text("state"), "waiting");
  disk.weather().error = ENOSPC;
  const std::string release = fmt::format("/v1/leases/{}/release", a.text("id"));
  EXPECT_EQ(served.call("POST", release, "{}")->status, 503);
  const auto state = [&served](const json::Value& lease) {
    const std::string path = "/v1/leases/" + std::string(lease.text("id"));
    return std::string(parsed(served.call("GET", path, "")).text("state"));
  };
  disk.weather().error = 0;
  for (int i = 0; i < 500 && state(w) != "granted"; ++i) {
    static_cast<void>(served.call("POST", release, "{}"));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(state(w), "granted");
  EXPECT_EQ(state(behind), "waiting");
}

TEST(ServeDisk, OnASlowDiskWhatArrivesMeanwhileSharesOneSync) {
  const Folder folder;
  Disk disk;
  const Served served(folder.path(), &disk);
  ASSERT_TRUE(served.ready());
  disk.weather().sync_ms = 1000;
  const int syncs_before = disk.weather().syncs;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> clients;
  std::vector<int> status(40, 0);
  clients.reserve(status.size());
  for (std::size_t i = 0; i < status.size(); ++i) {
    clients.emplace_back([&, i] {
      const auto answer =
          served.call("POST", "/v1/leases", reserve_body(fmt::format("s{}", i), 100));
      status[i] = answer.has_value() ? answer->status : 0;
    });
  }
  for (std::thread& client : clients)
    client.join();
  const auto took = std::chrono::steady_clock::now() - begin;
  for (const int one : status)
    EXPECT_EQ(one, 201);
  EXPECT_GE(took, std::chrono::milliseconds(1000)) << "an answer came before its sync";
  EXPECT_LE(disk.weather().syncs - syncs_before, 8) << "forty clients, forty syncs: no group";
}

TEST(ServeDisk, ASecondDaemonOnTheSameStateRefusesAndNamesTheFirst) {
  const Folder folder;
  const Served served(folder.path());
  ASSERT_TRUE(served.ready());
  DaemonOptions options;
  options.server.listen = {"unix:" + folder.path() + "/other.sock"};
  options.state_directory = folder.path() + "/state";
  options.simulated = *scenario::fleet_from_spec("n0=1x16GiB");
  options.node.name = "n0";
  const Result<std::unique_ptr<Daemon>> second = Daemon::start(std::move(options));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_NE(second.error().message().find(std::to_string(served.pid())), std::string::npos)
      << second.error().message();
  EXPECT_EQ(served.call("POST", "/v1/leases", reserve_body("a", 100))->status, 201);
}

}  // namespace
}  // namespace berth::serve
