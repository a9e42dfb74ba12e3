// Kernels that declare how long they take, on a device that does one at a time.
#include <ctime>

#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"

namespace berth::fake::checks {
namespace {

using client::Handle;
using client::Session;

constexpr char kPtx[] =
    ".version 7.0\n.target sm_80\n.entry busy_20ms() { ret; }\n.entry quick() { ret; }\n";

double now_ms() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

Handle function(const Session& session, const char* name) {
  Handle module = nullptr;
  Handle found = nullptr;
  EXPECT_EQ(session.calls.cuModuleLoadData(&module, kPtx), 0);
  EXPECT_EQ(session.calls.cuModuleGetFunction(&found, module, name), 0);
  return found;
}

int launch(const Session& session, Handle kernel, Handle stream) {
  return session.calls.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
}

TEST(FakeTime, AKernelTakesAsLongAsItsNameSays) {
  const Machine machine("1x16GiB");
  machine.client([] {
    const Session session = open_session();
    const Handle kernel = function(session, "busy_20ms");
    Handle start = nullptr;
    Handle end = nullptr;
    ASSERT_EQ(session.calls.cuEventCreate(&start, 0), 0);
    ASSERT_EQ(session.calls.cuEventCreate(&end, 0), 0);
    const double begin = now_ms();
    ASSERT_EQ(session.calls.cuEventRecord(start, session.stream), 0);
    ASSERT_EQ(launch(session, kernel, session.stream), 0);
    ASSERT_EQ(launch(session, kernel, session.stream), 0);
    ASSERT_EQ(session.calls.cuEventRecord(end, session.stream), 0);
    EXPECT_EQ(session.calls.cuEventQuery(end), 600);
    EXPECT_EQ(session.calls.cuStreamQuery(session.stream), 600);
    ASSERT_EQ(session.calls.cuEventSynchronize(end), 0);
    EXPECT_GE(now_ms() - begin, 40.0);
    EXPECT_EQ(session.calls.cuStreamQuery(session.stream), 0);
    float elapsed = 0;
    ASSERT_EQ(session.calls.cuEventElapsedTime(&elapsed, start, end), 0);
    EXPECT_GE(elapsed, 40.0F);
    EXPECT_LT(elapsed, 1000.0F) << "milliseconds, on a busy machine too";
    ASSERT_EQ(launch(session, function(session, "quick"), session.stream), 0);
    EXPECT_EQ(session.calls.cuStreamQuery(session.stream), 0);
  });
}

TEST(FakeTime, FunctionsThatAModuleDoesNotHaveAreNotFound) {
  const Machine machine("1x16GiB");
  machine.client([] {
    const Session session = open_session();
    Handle module = nullptr;
    Handle found = nullptr;
    ASSERT_EQ(session.calls.cuModuleLoadData(&module, kPtx), 0);
    EXPECT_EQ(session.calls.cuModuleGetFunction(&found, module, "busy"), 500);
    EXPECT_EQ(session.calls.cuModuleGetFunction(&found, module, "quick"), 0);
    EXPECT_EQ(
        session.calls.cuLaunchKernel(found, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr), 1)
        << "too many threads";
  });
}

// Two streams, two processes: the device does one kernel after the other.
TEST(FakeTime, ProcessesShareTheDevicesTime) {
  const Machine machine("1x16GiB");
  const auto work = [] {
    const Session session = open_session();
    const Handle kernel = function(session, "busy_20ms");
    for (int number = 0; number < 5; ++number)
      EXPECT_EQ(launch(session, kernel, nullptr), 0);
    EXPECT_EQ(session.calls.cuCtxSynchronize(), 0);
  };
  const double begin = now_ms();
  const pid_t first = machine.start(work);
  const pid_t second = machine.start(work);
  EXPECT_EQ(wait_for(first), 0);
  EXPECT_EQ(wait_for(second), 0);
  EXPECT_GE(now_ms() - begin, 200.0);
  EXPECT_EQ(dump_of(machine)["devices"][0]["busy_ns"], 200'000'000);
}

TEST(FakeTime, AStreamWaitsForAnEventOfAnother) {
  const Machine machine("1x16GiB");
  machine.client([] {
    const Session session = open_session();
    Handle other = nullptr;
    Handle event = nullptr;
    ASSERT_EQ(session.calls.cuStreamCreate(&other, 1), 0);
    ASSERT_EQ(session.calls.cuEventCreate(&event, 2), 0);
    ASSERT_EQ(launch(session, function(session, "busy_20ms"), session.stream), 0);
    EXPECT_EQ(session.calls.cuStreamQuery(other), 0);
    ASSERT_EQ(session.calls.cuEventRecord(event, session.stream), 0);
    ASSERT_EQ(session.calls.cuStreamWaitEvent(other, event, 0), 0);
    EXPECT_EQ(session.calls.cuStreamQuery(other), 600);
    ASSERT_EQ(session.calls.cuStreamSynchronize(other), 0);
    EXPECT_EQ(session.calls.cuStreamQuery(session.stream), 0);
  });
}

// What is freed behind a running kernel is free when the kernel has ended.
TEST(FakeTime, AFreeInStreamOrderWaitsForTheWorkBeforeIt) {
  const Machine machine("1x16GiB");
  machine.client([] {
    const Session session = open_session();
    Handle pool = nullptr;
    client::Pointer pointer = 0;
    std::uint64_t used = 0;
    ASSERT_EQ(session.calls.cuDeviceGetDefaultMemPool(&pool, 0), 0);
    ASSERT_EQ(session.calls.cuMemAllocAsync(&pointer, kMiB, session.stream), 0);
    ASSERT_EQ(launch(session, function(session, "busy_20ms"), session.stream), 0);
    ASSERT_EQ(session.calls.cuMemFreeAsync(pointer, session.stream), 0);
    ASSERT_EQ(session.calls.cuMemPoolGetAttribute(pool, 7, &used), 0);
    EXPECT_EQ(used, kMiB);
    ASSERT_EQ(session.calls.cuStreamSynchronize(session.stream), 0);
    ASSERT_EQ(session.calls.cuMemPoolGetAttribute(pool, 7, &used), 0);
    EXPECT_EQ(used, 0U);
  });
}

TEST(FakeTime, UtilisationFollowsTheTimeLine) {
  const Machine machine("1x16GiB");
  machine.client([] {
    struct Rates {
      unsigned int gpu, memory;
    } rates{};
    void* device = nullptr;
    ASSERT_EQ(symbol<int()>("libnvidia-ml.so.1", "nvmlInit_v2")(), 0);
    ASSERT_EQ(symbol<int(unsigned int, void**)>("libnvidia-ml.so.1",
                                                "nvmlDeviceGetHandleByIndex_v2")(0, &device),
              0);
    auto* ask = symbol<int(void*, Rates*)>("libnvidia-ml.so.1", "nvmlDeviceGetUtilizationRates");
    ASSERT_EQ(ask(device, &rates), 0);
    EXPECT_EQ(rates.gpu, 0U);
    const Session session = open_session();
    const Handle kernel = function(session, "busy_20ms");
    for (int number = 0; number < 25; ++number)
      ASSERT_EQ(launch(session, kernel, nullptr), 0);
    ASSERT_EQ(session.calls.cuCtxSynchronize(), 0);
    ASSERT_EQ(ask(device, &rates), 0);
    EXPECT_GE(rates.gpu, 5U) << "up to half of the last second";
    EXPECT_LE(rates.gpu, 60U);
  });
}

}  // namespace
}  // namespace berth::fake::checks
