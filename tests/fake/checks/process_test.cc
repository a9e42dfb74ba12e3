// Several processes on one card, and what is left when they die.
#include <csignal>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"

namespace berth::fake::checks {
namespace {

using client::family_named;
using client::Session;

TEST(FakeProcesses, SeeEachOthersMemory) {
  const Machine machine("1x16GiB");
  const Signal taken;
  const Signal done;
  const pid_t other = machine.start([&] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    taken.send();
    EXPECT_TRUE(done.wait());
  });
  ASSERT_TRUE(taken.wait());
  machine.client([] {
    Session session = open_session();
    // 16 GiB, less the driver's 114 MiB, two contexts and the other's GiB.
    EXPECT_EQ(free_memory(session), (16384 - 114 - 2 * 128 - 1024) * kMiB);
  });
  done.send();
  EXPECT_EQ(wait_for(other), 0);
}

TEST(FakeProcesses, MemoryOfAKilledProcessIsGoneAtOnce) {
  const Machine machine("1x16GiB");
  const Signal taken;
  const pid_t victim = machine.start([&] {
    Session session = open_session();
    for (const client::Family& family : client::all_families())
      (void)take(session, family, kMiB);
    taken.send();
    while (true)
      (void)pause();
  });
  ASSERT_TRUE(taken.wait());
  EXPECT_GT(machine.used(), 128 * kMiB);
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  ASSERT_EQ(wait_for(victim), -SIGKILL);
  EXPECT_EQ(machine.used(), 0U);
  EXPECT_TRUE(dump_of(machine)["devices"][0]["processes"].empty());
  machine.client([] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), free_memory(session)), 0);
  });
}

// A dead process that nobody has waited for still has its entry in /proc; its memory is gone all
// the same.
TEST(FakeProcesses, MemoryOfAZombieIsGone) {
  const Machine machine("1x16GiB");
  const Signal taken;
  const pid_t victim = machine.start([&] {
    Session session = open_session();
    (void)take(session, *family_named("linear"), kGiB);
    taken.send();
    while (true)
      (void)pause();
  });
  ASSERT_TRUE(taken.wait());
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(victim), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(machine.used(), 0U);
  EXPECT_EQ(wait_for(victim), -SIGKILL);
}

// SIGKILL at random moments of a storm of allocations: nothing is left, nothing hangs.
TEST(FakeProcesses, SurviveAStormOfKills) {
  const Machine machine("1x4GiB", {"--context-bytes", "1MiB"});
  constexpr int kRounds = 40;
  unsigned int random = 12345;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pid_t> storm;
    for (int number = 0; number < 4; ++number) {
      storm.push_back(machine.start([number] {
        Session session = open_session();
        while (true) {
          for (const char* family : {"linear", "mapped", "async", "array"}) {
            (void)take(session, *family_named(family), static_cast<std::size_t>(number + 1) * kMiB);
          }
          if (session.held.size() > 200) (void)give_back_all(session);
        }
      }));
    }
    random = random * 1103515245 + 12345;
    (void)usleep(2000 + random % 8000);
    for (const pid_t pid : storm)
      (void)kill(pid, SIGKILL);
    for (const pid_t pid : storm)
      EXPECT_EQ(wait_for(pid), -SIGKILL);
  }
  EXPECT_EQ(machine.used(), 0U);
  machine.client([] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), free_memory(session)), 0);
    EXPECT_EQ(free_memory(session), 0U);
  });
}

// Four processes race for room that only one of them can have: one gets it, always.
TEST(FakeProcesses, TheLastRoomGoesToExactlyOneOfARace) {
  const Machine machine("1x4GiB", {"--context-bytes", "1MiB"});
  constexpr int kRounds = 25;
  constexpr int kRacers = 4;
  for (int round = 0; round < kRounds; ++round) {
    const std::string line = machine.folder() + "/line" + std::to_string(round);
    std::vector<pid_t> racers;
    for (int number = 0; number < kRacers; ++number) {
      racers.push_back(machine.start([&] {
        Session session = open_session();
        FILE* file = std::fopen(line.c_str(), "a");
        (void)std::fputc('x', file);
        (void)std::fflush(file);
        while (ftell(file) >= 0 && std::fseek(file, 0, SEEK_END) == 0 && ftell(file) < kRacers) {
        }
        const int code = take(session, *family_named("linear"), 3 * kGiB);
        (void)std::fputc('y', file);
        (void)std::fflush(file);
        while (std::fseek(file, 0, SEEK_END) == 0 && ftell(file) < 2L * kRacers)
          (void)usleep(100);
        _exit(code == 0 ? 10 : code == kOutOfMemory ? 20 : 30);
      }));
    }
    int winners = 0;
    for (const pid_t pid : racers) {
      const int outcome = wait_for(pid);
      EXPECT_TRUE(outcome == 10 || outcome == 20) << outcome;
      winners += outcome == 10 ? 1 : 0;
    }
    EXPECT_EQ(winners, 1);
  }
}

TEST(FakeProcesses, ADaemonThatClosesItsDescriptorsKeepsItsMemory) {
  const Machine machine("1x16GiB");
  const Signal taken;
  const Signal done;
  const pid_t daemon = machine.start([&] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    const long closed = syscall(SYS_close_range, 100, ~0U, 0);
    for (int fd = 3; fd < 100; ++fd) {
      struct stat ignored{};
      char name[64];
      (void)std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
      char target[256] = {};
      const bool ours = readlink(name, target, sizeof target - 1) > 0 &&
                        std::string(target).find("gpus") != std::string::npos;
      if (ours) (void)close(fd);
      (void)ignored;
    }
    EXPECT_EQ(closed, 0);
    taken.send();
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    EXPECT_EQ(give_back_all(session), 0);
  });
  ASSERT_TRUE(taken.wait());
  EXPECT_EQ(machine.used(), kGiB + 128 * kMiB);
  machine.client([] {
    Session session = open_session();
    EXPECT_EQ(free_memory(session), (16384 - 114 - 2 * 128 - 1024) * kMiB);
  });
  done.send();
  EXPECT_EQ(wait_for(daemon), 0);
  EXPECT_EQ(machine.used(), 0U);
}

TEST(FakeProcesses, AnExecInPlaceGivesEverythingBack) {
  const Machine machine("1x16GiB");
  const pid_t pid = machine.start([] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    (void)execlp("sleep", "sleep", "20", nullptr);
  });
  for (int tries = 0; tries < 200 && machine.used() == 0; ++tries)
    (void)usleep(2000);
  for (int tries = 0; tries < 1000 && machine.used() != 0; ++tries)
    (void)usleep(2000);
  EXPECT_EQ(machine.used(), 0U) << "the new program has no GPU memory";
  (void)kill(pid, SIGKILL);
  EXPECT_EQ(wait_for(pid), -SIGKILL);
}

TEST(FakeProcesses, AForkedChildCannotUseTheParentsDriver) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    const std::size_t before = free_memory(session);
    const pid_t child = fork();
    if (child == 0) {
      client::Pointer pointer = 0;
      const bool refused =
          session.calls.cuMemAlloc_v2(&pointer, kMiB) == 3 && session.calls.cuInit(0) == 3;
      _exit(refused ? 0 : 1);
    }
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(free_memory(session), before) << "the child's end takes nothing away";
  });
}

TEST(FakeProcesses, AForkedChildMayBeginAnewWhereTheStateSaysSo) {
  const Machine machine("1x16GiB", {"--fork-works"});
  machine.client([] {
    Session session = open_session();
    EXPECT_EQ(take(session, *family_named("linear"), kGiB), 0);
    const std::size_t before = free_memory(session);
    const pid_t child = fork();
    if (child == 0) {
      Session own;
      own.calls = session.calls;
      EXPECT_EQ(own.open(0), 0);
      EXPECT_EQ(take(own, *family_named("linear"), kGiB), 0);
      EXPECT_EQ(before - free_memory(own), kGiB + 128 * kMiB);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(free_memory(session), before);
  });
}

// The child of a fork that the parent made before it used the driver is a process like any other.
TEST(FakeProcesses, AThousandShortOnesLeaveNothing) {
  const Machine machine("1x16GiB", {"--context-bytes", "1MiB"});
  constexpr int kAtOnce = 25;
  for (int round = 0; round < 1000 / kAtOnce; ++round) {
    std::vector<pid_t> pids;
    for (int number = 0; number < kAtOnce; ++number) {
      pids.push_back(machine.start([] {
        Session session = open_session();
        EXPECT_EQ(take(session, *family_named("linear"), kMiB), 0);
      }));
    }
    for (const pid_t pid : pids)
      EXPECT_EQ(wait_for(pid), 0);
  }
  EXPECT_EQ(machine.used(), 0U);
}

TEST(FakeProcesses, AnImporterKeepsExportedMemoryAlive) {
  const Machine machine("1x16GiB");
  int descriptors[2];
  ASSERT_EQ(pipe(descriptors), 0);
  const Signal imported;
  const Signal done;
  const pid_t exporter = machine.start([&] {
    Session session = open_session();
    client::Pointer linear = 0;
    ASSERT_EQ(session.calls.cuMemAlloc_v2(&linear, 64 * kMiB), 0);
    client::IpcHandle handle{};
    ASSERT_EQ(session.calls.cuIpcGetMemHandle(&handle, linear), 0);
    ASSERT_EQ(write(descriptors[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    while (true)
      (void)pause();
  });
  const pid_t importer = machine.start([&] {
    Session session = open_session();
    client::IpcHandle handle{};
    ASSERT_EQ(read(descriptors[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    client::Pointer pointer = 0;
    ASSERT_EQ(session.calls.cuIpcOpenMemHandle_v2(&pointer, handle, 1), 0);
    imported.send();
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(session.calls.cuIpcCloseMemHandle(pointer), 0);
  });
  ASSERT_TRUE(imported.wait());
  EXPECT_EQ(machine.used(), 64 * kMiB + std::size_t{2} * 128 * kMiB)
      << "counted once, for the exporter";
  (void)kill(exporter, SIGKILL);
  EXPECT_EQ(wait_for(exporter), -SIGKILL);
  const nlohmann::json process = dump_of(machine)["devices"][0]["processes"][0];
  EXPECT_EQ(process["adopted"].get<std::uint64_t>(), 64 * kMiB);
  EXPECT_EQ(machine.used(), 64 * kMiB + 128 * kMiB);
  done.send();
  EXPECT_EQ(wait_for(importer), 0);
  EXPECT_EQ(machine.used(), 0U);
  (void)close(descriptors[0]);
  (void)close(descriptors[1]);
}

TEST(FakeProcesses, PhysicalMemoryTravelsByDescriptor) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    const std::size_t before = free_memory(session);
    const client::AllocationProperties properties{.handle_types = 1};
    client::Pointer handle = 0;
    ASSERT_EQ(session.calls.cuMemCreate(&handle, 64 * kMiB, &properties, 0), 0);
    int fd = -1;
    ASSERT_EQ(session.calls.cuMemExportToShareableHandle(&fd, handle, 1, 0), 0);
    client::Pointer imported = 0;
    ASSERT_EQ(session.calls.cuMemImportFromShareableHandle(
                  &imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), 1),
              0);
    EXPECT_EQ(before - free_memory(session), 64 * kMiB) << "imported memory is not counted twice";
    EXPECT_EQ(session.calls.cuMemRelease(handle), 0);
    EXPECT_EQ(before - free_memory(session), 64 * kMiB) << "the import keeps it";
    EXPECT_EQ(session.calls.cuMemRelease(imported), 0);
    EXPECT_EQ(free_memory(session), before);
    (void)close(fd);
  });
}

TEST(FakeProcesses, SeeTheDevicesTheyAreGiven) {
  const Machine machine("4x16GiB");
  const nlohmann::json devices = dump_of(machine)["devices"];
  const std::string second = devices[2]["uuid"];
  const auto names = [&](const char* visible) {
    return machine.client_says([&] {
      (void)setenv("CUDA_VISIBLE_DEVICES", visible, 1);
      client::Calls calls;
      const char* why = "";
      EXPECT_TRUE(client::load(client::Road::dlsym_handle, &calls, &why));
      int count = 0;
      if (calls.cuInit(0) == 0) (void)calls.cuDeviceGetCount(&count);
      std::string order;
      for (int device = 0; device < count; ++device) {
        client::Uuid uuid{};
        EXPECT_EQ(calls.cuDeviceGetUuid_v2(&uuid, device), 0);
        order += std::to_string(uuid.bytes[5]);  // the index is part of derived UUIDs
      }
      return order;
    });
  };
  EXPECT_EQ(names("3,1"), "31");
  EXPECT_EQ(names(second.c_str()), "2");
  EXPECT_EQ(names((second.substr(0, 17) + ",0").c_str()), "20");
  EXPECT_EQ(names("1,9,0"), "1") << "the first wrong word ends the list";
  EXPECT_EQ(names(""), "");
  EXPECT_EQ(names("-1"), "");
}

}  // namespace
}  // namespace berth::fake::checks
