// Calls that fail as they are told, devices that vanish, a driver that is reloaded.
#include <csignal>
#include <ctime>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"

namespace berth::fake::checks {
namespace {

using client::family_named;
using client::Session;

std::int64_t now_ms() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

std::string codes_of(const Session& session, int calls) {
  std::string codes;
  for (int number = 0; number < calls; ++number) {
    client::Pointer pointer = 0;
    const int code = session.calls.cuMemAlloc_v2(&pointer, 512);
    if (!codes.empty()) codes += ' ';
    codes += std::to_string(code);
  }
  return codes;
}

TEST(FakeFaults, TheNthCallFails) {
  const Machine machine("1x16GiB");
  ASSERT_EQ(
      machine.tool({"fail", "cuMemAlloc_v2", "--nth", "3", "--times", "2", "--code", "719"}).exit,
      0);
  machine.client([] {
    const Session session = open_session();
    const std::size_t before = free_memory(session);
    EXPECT_EQ(codes_of(session, 6), "0 0 719 719 0 0");
    EXPECT_EQ(before - free_memory(session), 4U * 512U) << "a failed call takes nothing";
  });
  EXPECT_EQ(dump_of(machine)["faults"][0]["hits"], 2);
  EXPECT_EQ(machine.tool({"fail", "--clear"}).exit, 0);
  machine.client([] { EXPECT_EQ(codes_of(open_session(), 4), "0 0 0 0"); });
}

TEST(FakeFaults, ProbabilityHitsTheSameCallsWithTheSameSeed) {
  std::string first;
  for (int round = 0; round < 2; ++round) {
    const Machine machine("1x16GiB");
    ASSERT_EQ(machine.tool({"fail", "cuMemAlloc_v2", "--probability", "0.3", "--seed", "7"}).exit,
              0);
    const std::string text = machine.client_says([] { return codes_of(open_session(), 40); });
    if (round == 0) first = text;
    EXPECT_EQ(first, text);
    const std::uint64_t hits = dump_of(machine)["faults"][0]["hits"];
    EXPECT_GT(hits, 4U);
    EXPECT_LT(hits, 22U);
  }
}

TEST(FakeFaults, PoisonFillsTheOutParameters) {
  const Machine machine("1x16GiB");
  ASSERT_EQ(machine.tool({"fail", "cuMemAlloc_v2", "--poison", "--code", "2"}).exit, 0);
  ASSERT_EQ(machine.tool({"fail", "cuMemGetInfo_v2", "--poison", "--code", "1"}).exit, 0);
  machine.client([] {
    const Session session = open_session();
    client::Pointer pointer = 0;
    EXPECT_EQ(session.calls.cuMemAlloc_v2(&pointer, 512), 2);
    EXPECT_EQ(pointer, 0xA5A5A5A5A5A5A5A5ULL);
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    EXPECT_EQ(session.calls.cuMemGetInfo_v2(&free_bytes, &total), 1);
    EXPECT_EQ(total, 0xA5A5A5A5A5A5A5A5ULL);
  });
}

TEST(FakeFaults, DelayHangAndKill) {
  const Machine machine("1x16GiB");
  ASSERT_EQ(machine.tool({"fail", "cuMemAlloc_v2", "--delay-us", "80000"}).exit, 0);
  machine.client([] {
    const Session session = open_session();
    const std::int64_t begin = now_ms();
    EXPECT_EQ(codes_of(session, 1), "0") << "a delayed call is done in the end";
    EXPECT_GE(now_ms() - begin, 80);
  });
  ASSERT_EQ(machine.tool({"fail", "cuMemFree_v2", "--kill"}).exit, 0);
  const pid_t killed = machine.start([] { (void)open_session().calls.cuMemFree_v2(0); });
  EXPECT_EQ(wait_for(killed), -SIGKILL);
  ASSERT_EQ(machine.tool({"fail", "cuInit", "--hang"}).exit, 0);
  const pid_t hanging = machine.start([] { (void)open_session(); });
  for (int tries = 0; tries < 500 && dump_of(machine)["faults"][2]["hits"] == 0; ++tries) {
    (void)usleep(2000);
  }
  EXPECT_EQ(dump_of(machine)["faults"][2]["hits"], 1);
  (void)kill(hanging, SIGKILL);
  EXPECT_EQ(wait_for(hanging), -SIGKILL);
}

TEST(FakeFaults, ALostDeviceFailsItsContextsUntilItIsBack) {
  const Machine machine("2x16GiB");
  const Signal ready;
  const Signal lost;
  const Signal back;
  const Signal seen;
  const pid_t pid = machine.start([&] {
    Session session = open_session();
    EXPECT_EQ(codes_of(session, 1), "0");
    ready.send();
    EXPECT_TRUE(lost.wait());
    EXPECT_EQ(codes_of(session, 1), "999");
    client::Handle context = nullptr;
    EXPECT_EQ(session.calls.cuCtxCreate_v2(&context, 0, 0), 999);
    EXPECT_EQ(session.calls.cuCtxCreate_v2(&context, 0, 1), 0) << "the other device is well";
    seen.send();
    EXPECT_TRUE(back.wait());
    EXPECT_EQ(session.calls.cuCtxSetCurrent(session.context), 0);
    EXPECT_EQ(codes_of(session, 1), "999") << "an old context stays broken";
    EXPECT_EQ(session.calls.cuCtxCreate_v2(&context, 0, 0), 0);
    EXPECT_EQ(codes_of(session, 1), "0");
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(machine.tool({"lose", "0", "--bus"}).exit, 0);
  EXPECT_TRUE(dump_of(machine)["devices"][0]["lost"].get<bool>());
  EXPECT_EQ(dump_of(machine)["devices"][0]["last_xid"], 79);
  lost.send();
  ASSERT_TRUE(seen.wait());
  EXPECT_EQ(machine.tool({"lose", "0", "--back"}).exit, 0);
  back.send();
  EXPECT_EQ(wait_for(pid), 0);
}

TEST(FakeFaults, AReloadWantsTheDriverUnusedOrForce) {
  const Machine machine("2x16GiB");
  const Signal ready;
  const Signal done;
  const pid_t pid = machine.start([&] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    ready.send();
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(codes_of(session, 1), "803") << "a client of the old driver";
  });
  ASSERT_TRUE(ready.wait());
  const Ran refused = machine.tool({"driver-reload", "--order", "1,0"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_NE(refused.err.find(std::to_string(pid)), std::string::npos) << refused.err;
  EXPECT_EQ(dump_of(machine)["devices"][0]["index"], 0);
  EXPECT_EQ(machine.tool({"driver-reload", "--order", "1,0", "--driver", "580", "--force"}).exit,
            0);
  EXPECT_EQ(machine.used(), 0U) << "memory does not outlive the driver";
  EXPECT_EQ(dump_of(machine)["devices"][0]["index"], 1);
  EXPECT_EQ(dump_of(machine)["driver"], "580.65.06");
  done.send();
  EXPECT_EQ(wait_for(pid), 0);
  machine.client([] { EXPECT_EQ(codes_of(open_session(), 1), "0"); });
}

TEST(FakeFaults, ForeignMemoryTakesRoom) {
  const Machine machine("1x16GiB");
  EXPECT_EQ(machine.tool({"foreign", "4242", "15GiB", "--name", "stranger"}).exit, 0);
  machine.client([] {
    Session session = open_session();
    EXPECT_EQ(free_memory(session), (16384 - 114 - 128 - 15360) * kMiB);
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), kOutOfMemory);
  });
  EXPECT_EQ(machine.used(), 15 * kGiB);
  EXPECT_EQ(machine.tool({"foreign", "4242", "1GiB"}).exit, 0);
  EXPECT_EQ(machine.used(), kGiB);
  EXPECT_EQ(machine.tool({"foreign", "4242", "0"}).exit, 0);
  EXPECT_EQ(machine.used(), 0U);
}

TEST(FakeFaults, AnExclusiveDeviceHasOneProcess) {
  const Machine machine("1x16GiB");
  EXPECT_EQ(machine.tool({"set", "compute-mode=exclusive"}).exit, 0);
  const Signal ready;
  const Signal done;
  const pid_t pid = machine.start([&] {
    Session session = open_session();
    ready.send();
    EXPECT_TRUE(done.wait());
  });
  ASSERT_TRUE(ready.wait());
  machine.client([] {
    Session session;
    const char* why = "";
    ASSERT_TRUE(client::load(client::Road::dlsym_handle, &session.calls, &why));
    EXPECT_EQ(session.open(0), 46);
  });
  done.send();
  EXPECT_EQ(wait_for(pid), 0);
  machine.client([] { (void)open_session(); });
}

TEST(FakeFaults, WithoutAStateFileThereIsNoDeviceAndOneLineSaysWhy) {
  const Machine machine("1x16GiB");
  const Ran ran = run({std::string(BERTH_BIN_DIR) + "/../clients/bin/gpu-client", "info"},
                      {"BERTH_FAKE_STATE=" + machine.folder() + "/nothing",
                       "LD_LIBRARY_PATH=" + std::string(BERTH_BIN_DIR) + "/../fake"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.out, "{\"do\":\"open\",\"what\":\"dlsym\",\"bytes\":0,\"code\":100}\n");
  EXPECT_EQ(ran.err,
            "berth fake driver: no device: the state file does not exist (berth-fake-gpu init SPEC "
            "makes it)\n");
}

}  // namespace
}  // namespace berth::fake::checks
