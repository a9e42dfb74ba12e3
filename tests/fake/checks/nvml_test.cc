// The management library: what it says is what the state file says, by its own contracts.
#include <cstring>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"

namespace berth::fake::checks {
namespace {

using client::family_named;
using client::Session;
using Device = void*;

constexpr char kNvml[] = "libnvidia-ml.so.1";

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
struct ProcessV1 {
  unsigned int pid;
  unsigned long long used;
};
struct ProcessV3 {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
};
struct DetailList {
  unsigned int version, mode, count;
  struct Detail {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
    unsigned long long protected_used;
  }* processes;
};
struct Event {
  Device device;
  unsigned long long type, data;
  unsigned int gpu_instance, compute_instance;
};
struct Limits {
  const char* name;
  unsigned long long soft, hard, used;
};

template <class... Arguments>
int nvml(const char* name, Arguments... arguments) {
  auto* function = symbol<int(Arguments...)>(kNvml, name);
  if (function == nullptr) return -1;
  return function(arguments...);
}

Device device_at(unsigned int index) {
  Device device = nullptr;
  EXPECT_EQ(nvml("nvmlDeviceGetHandleByIndex_v2", index, &device), 0);
  return device;
}

TEST(FakeNvml, MemoryOfBothFormsAddsUp) {
  const Machine machine("2x16GiB");
  ASSERT_EQ(machine.tool({"foreign", "77", "1GiB"}).exit, 0);
  machine.client([&] {
    Session session = open_session();
    ASSERT_EQ(take(session, *family_named("linear"), kGiB), 0);
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    MemoryV2 memory{.version = 0x2000028, .total = 0, .reserved = 0, .free = 0, .used = 0};
    ASSERT_EQ(nvml("nvmlDeviceGetMemoryInfo_v2", device_at(0), &memory), 0);
    EXPECT_EQ(memory.total, 16 * kGiB);
    EXPECT_EQ(memory.reserved, 114 * kMiB);
    EXPECT_EQ(memory.used, 2 * kGiB + 128 * kMiB);
    EXPECT_EQ(memory.used, machine.used()) << "the same as the dump";
    EXPECT_EQ(memory.reserved + memory.used + memory.free, memory.total);
    MemoryV1 first{};
    ASSERT_EQ(nvml("nvmlDeviceGetMemoryInfo", device_at(0), &first), 0);
    EXPECT_EQ(first.used, memory.used + memory.reserved);
    EXPECT_EQ(first.used + first.free, first.total);
    EXPECT_EQ(memory.free, free_memory(session));
    memory.version = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo_v2", device_at(0), &memory), 25);
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo_v2", device_at(0), static_cast<MemoryV2*>(nullptr)), 2);
  });
}

TEST(FakeNvml, ProcessListsAnswerASizeQueryFirst) {
  const Machine machine("1x16GiB");
  ASSERT_EQ(machine.tool({"foreign", "77", "1GiB"}).exit, 0);
  ASSERT_EQ(machine.tool({"foreign", "78", "1MiB", "--graphics"}).exit, 0);
  machine.client([] {
    Session session = open_session();
    ASSERT_EQ(take(session, *family_named("linear"), kGiB), 0);
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    const Device device = device_at(0);
    ProcessV3 processes[4] = {};
    ProcessV1 old[4] = {};
    unsigned int count = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetComputeRunningProcesses_v3", device, &count,
                   static_cast<ProcessV3*>(nullptr)),
              7);
    EXPECT_EQ(count, 2U);
    count = 1;
    EXPECT_EQ(nvml("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, &processes[0]), 7);
    EXPECT_EQ(count, 2U);
    count = 4;
    ASSERT_EQ(nvml("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, &processes[0]), 0);
    ASSERT_EQ(count, 2U);
    EXPECT_EQ(processes[0].pid, static_cast<unsigned int>(getpid()));
    EXPECT_EQ(processes[0].used, kGiB + 128 * kMiB);
    EXPECT_EQ(processes[0].gpu_instance, 0xFFFFFFFF);
    EXPECT_EQ(processes[1].pid, 77U);
    count = 4;
    ASSERT_EQ(nvml("nvmlDeviceGetComputeRunningProcesses", device, &count, &old[0]), 0);
    EXPECT_EQ(old[1].used, kGiB) << "16-byte entries";
    count = 4;
    ASSERT_EQ(nvml("nvmlDeviceGetGraphicsRunningProcesses_v2", device, &count, &processes[0]), 0);
    ASSERT_EQ(count, 1U);
    EXPECT_EQ(processes[0].pid, 78U);
    DetailList::Detail details[4] = {};
    DetailList list{.version = 0x1000018, .mode = 0, .count = 4, .processes = details};
    ASSERT_EQ(nvml("nvmlDeviceGetRunningProcessDetailList", device, &list), 0);
    EXPECT_EQ(list.count, 2U);
    EXPECT_EQ(details[1].used, kGiB);
    list.version = 1;
    EXPECT_EQ(nvml("nvmlDeviceGetRunningProcessDetailList", device, &list), 25);
  });
}

TEST(FakeNvml, AnswersNothingBeforeInitAndAfterShutdown) {
  const Machine machine("1x16GiB");
  machine.client([] {
    unsigned int count = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), 1);
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), 0);
    EXPECT_EQ(count, 1U);
    Device device = nullptr;
    EXPECT_EQ(nvml("nvmlDeviceGetHandleByIndex_v2", 1U, &device), 2);
    EXPECT_EQ(nvml("nvmlDeviceGetHandleByUUID", "GPU-none", &device), 6);
    char text[4];
    EXPECT_EQ(nvml("nvmlDeviceGetUUID", device_at(0), &text[0], 4U), 7);
    EXPECT_EQ(nvml("nvmlDeviceGetFanSpeed", device_at(0), &count), 3);
    EXPECT_EQ(nvml("nvmlDeviceGetName", static_cast<Device>(&count), &text[0], 4U), 2)
        << "no handle of ours";
    EXPECT_EQ(nvml("nvmlShutdown"), 0);
    EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), 0) << "initialised twice";
    EXPECT_EQ(nvml("nvmlShutdown"), 0);
    EXPECT_EQ(nvml("nvmlDeviceGetCount_v2", &count), 1);
  });
}

TEST(FakeNvml, AnEventSetHearsOfAnXid) {
  const Machine machine("1x16GiB");
  const Signal ready;
  const pid_t pid = machine.start([&] {
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    Device set = nullptr;
    ASSERT_EQ(nvml("nvmlEventSetCreate", &set), 0);
    ASSERT_EQ(nvml("nvmlDeviceRegisterEvents", device_at(0), 8ULL, set), 0);
    Event event{};
    EXPECT_EQ(nvml("nvmlEventSetWait_v2", set, &event, 20U), 10) << "nothing has happened";
    ready.send();
    ASSERT_EQ(nvml("nvmlEventSetWait_v2", set, &event, 5000U), 0);
    EXPECT_EQ(event.type, 8U);
    EXPECT_EQ(event.data, 48U);
    EXPECT_EQ(event.device, device_at(0));
    EXPECT_EQ(nvml("nvmlEventSetFree", set), 0);
    EXPECT_EQ(nvml("nvmlEventSetFree", set), 2);
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(machine.tool({"xid", "0", "48"}).exit, 0);
  EXPECT_EQ(wait_for(pid), 0);
}

TEST(FakeNvml, ALostDeviceAndAReloadAreToldApart) {
  const Machine machine("2x16GiB");
  machine.client([&] {
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    const Device device = device_at(0);
    MemoryV1 memory{};
    EXPECT_EQ(machine.tool({"lose", "0"}).exit, 0);
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo", device, &memory), 15);
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo", device_at(1), &memory), 0);
    EXPECT_EQ(machine.tool({"driver-reload"}).exit, 0);
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo", device, &memory), 18) << "an old handle";
    EXPECT_EQ(nvml("nvmlShutdown"), 0);
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo", device_at(0), &memory), 0);
  });
}

TEST(FakeNvml, InstancesHaveMemoryAndIdentityOfTheirOwn) {
  const Machine machine("2x80GiB:A100");
  ASSERT_EQ(machine.tool({"mig", "0", "enable"}).exit, 0);
  std::string uuid = machine.tool({"mig", "0", "create", "3g.40gb"}).out;
  ASSERT_EQ(uuid.rfind("MIG-", 0), 0U) << uuid;
  uuid.pop_back();
  EXPECT_EQ(machine.tool({"mig", "0", "create", "7g.80gb"}).exit, 1) << "no room for it";
  EXPECT_EQ(machine.tool({"mig", "1", "create", "1g.10gb"}).exit, 1) << "not in MIG mode";
  machine.client([&] {
    (void)setenv("CUDA_VISIBLE_DEVICES", uuid.c_str(), 1);
    Session session = open_session();
    std::size_t total = 0;
    ASSERT_EQ(session.calls.cuDeviceTotalMem_v2(&total, 0), 0);
    EXPECT_EQ(total, 40 * kGiB);
    client::Uuid bytes{};
    ASSERT_EQ(session.calls.cuDeviceGetUuid_v2(&bytes, 0), 0);
    char first[3];
    (void)std::snprintf(first, sizeof first, "%02x", bytes.bytes[0]);
    EXPECT_EQ(uuid.substr(4, 2), first);
    ASSERT_EQ(take(session, *family_named("linear"), kGiB), 0);
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    unsigned int number = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetMaxMigDeviceCount", device_at(0), &number), 0);
    EXPECT_EQ(number, 7U);
    unsigned int current = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetMigMode", device_at(0), &current, &number), 0);
    EXPECT_EQ(current, 1U);
    Device instance = nullptr;
    ASSERT_EQ(nvml("nvmlDeviceGetMigDeviceHandleByIndex", device_at(0), 0U, &instance), 0);
    EXPECT_EQ(nvml("nvmlDeviceGetMigDeviceHandleByIndex", device_at(0), 1U, &instance), 6);
    MemoryV2 memory{.version = 0x2000028, .total = 0, .reserved = 0, .free = 0, .used = 0};
    ASSERT_EQ(nvml("nvmlDeviceGetMemoryInfo_v2", instance, &memory), 0);
    EXPECT_EQ(memory.total, 40 * kGiB);
    EXPECT_EQ(memory.used, kGiB + 128 * kMiB);
    ASSERT_EQ(nvml("nvmlDeviceGetMemoryInfo_v2", device_at(0), &memory), 0);
    EXPECT_EQ(memory.used, kGiB + 128 * kMiB) << "the GPU's use is its instances'";
    ProcessV3 processes[2] = {};
    number = 2;
    ASSERT_EQ(nvml("nvmlDeviceGetComputeRunningProcesses_v3", device_at(0), &number, &processes[0]),
              0);
    ASSERT_EQ(number, 1U);
    EXPECT_EQ(processes[0].gpu_instance, 1U);
  });
}

// Kernel limits by control group, driver 615. The groups are names here: BERTH_FAKE_CGROUP.
TEST(FakeNvml, AKernelLimitIsAWallForTheGroup) {
  const Machine machine("1x16GiB", {"--driver", "615"});
  const auto in_group = [&](const char* group, const std::function<void()>& body) {
    machine.client([&] {
      (void)setenv("BERTH_FAKE_CGROUP", group, 1);
      body();
    });
  };
  in_group("/pods/a", [] {
    Session session = open_session();
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    Limits limits{.name = "/sys/fs/cgroup/pods/a", .soft = 0, .hard = kGiB, .used = 0};
    ASSERT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 0);
    Limits read{.name = limits.name, .soft = 1, .hard = 1, .used = 0};
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryLimits_v1", device_at(0), &read), 0);
    EXPECT_EQ(read.hard, kGiB);
    EXPECT_EQ(read.used, 128 * kMiB);
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), kOutOfMemory);
    EXPECT_EQ(take(session, *family_named("linear"), 896 * kMiB), 0);
    EXPECT_EQ(take(session, *family_named("vmm"), 2 * kMiB), kOutOfMemory);
    std::size_t free_bytes = 1;
    std::size_t total = 0;
    EXPECT_EQ(session.calls.cuMemGetInfo_v2(&free_bytes, &total), 0);
    EXPECT_EQ(total, kGiB) << "the view follows the limit";
    EXPECT_EQ(free_bytes, 0U);
    MemoryV1 memory{};
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryInfo", device_at(0), &memory), 0);
    EXPECT_EQ(memory.total, kGiB);
    EXPECT_EQ(memory.used, kGiB);
  });
  in_group("/pods/ab", [] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), 2 * kGiB), 0) << "a neighbour has no limit";
  });
  in_group("/pods/a/leaf", [] {
    Session session = open_session();
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    EXPECT_EQ(session.calls.cuMemGetInfo_v2(&free_bytes, &total), 0);
    EXPECT_EQ(total, 16 * kGiB - 114 * kMiB) << "a limit above is not seen";
    EXPECT_EQ(take(session, *family_named("linear"), 2 * kGiB), kOutOfMemory) << "but enforced";
  });
  EXPECT_EQ(dump_of(machine)["limits"][0]["hard"].get<std::uint64_t>(), kGiB);
  in_group("/pods/a", [] {
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    Limits limits{.name = "/sys/fs/cgroup/pods/a", .soft = 0, .hard = ~0ULL, .used = 0};
    EXPECT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 0);
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), 2 * kGiB), 0) << "cleared";
    limits.name = "/tmp";
    EXPECT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 2);
    limits = {.name = "/sys/fs/cgroup/pods/a", .soft = 2, .hard = 1, .used = 0};
    EXPECT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 2);
  });
}

// The misc back end: what was there before is never charged, and a limit below the use is refused.
TEST(FakeNvml, TheMiscBackEndChargesOnlyWhatComesLater) {
  const Machine machine("1x16GiB", {"--driver", "615"});
  ASSERT_EQ(machine.tool({"set", "limits=misc"}).exit, 0);
  machine.client([] {
    (void)setenv("BERTH_FAKE_CGROUP", "/pods/a", 1);
    Session session = open_session();
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    Limits limits{.name = "/sys/fs/cgroup/pods/a", .soft = 0, .hard = 100 * kMiB, .used = 0};
    EXPECT_EQ(nvml("nvmlDeviceGetMemoryLimits_v1", device_at(0), &limits), 3) << "no limit yet";
    limits.hard = 100 * kMiB;
    EXPECT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 2) << "below the use";
    limits.hard = kGiB;
    EXPECT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 0);
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0) << "the context came before";
    EXPECT_EQ(take(session, *family_named("linear"), kMiB), kOutOfMemory);
  });
}

TEST(FakeNvml, OlderDriversHaveNoKernelLimits) {
  const Machine machine("1x16GiB", {"--driver", "580"});
  machine.client([] {
    ASSERT_EQ(nvml("nvmlInit_v2"), 0);
    Limits limits{.name = "/sys/fs/cgroup/a", .soft = 0, .hard = kGiB, .used = 0};
    EXPECT_EQ(nvml("nvmlDeviceSetMemoryLimits_v1", device_at(0), &limits), 3);
  });
}

}  // namespace
}  // namespace berth::fake::checks
