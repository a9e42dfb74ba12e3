// Bad input and people who try: no crash, no hang, no raised limit.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

namespace fs = std::filesystem;

// 600 MiB under a limit of 500: refused by the limit (code 2), by a closed start (800), or allowed.
Outcome ask(const Machine& machine, const std::map<std::string, std::string>& extra = {}) {
  return machine.run({"hold", "600"}, extra);
}

constexpr std::int64_t kLimit = 500;

void overwrite(const std::string& path, const std::string& bytes, std::streamoff at = 0) {
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(GuardTamper, NoVariableRaisesTheLimit) {
  const Machine machine({.limit_mib = kLimit});
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"CUDA_DEVICE_MEMORY_LIMIT", "16g"},
                                          {"CUDA_DEVICE_MEMORY_LIMIT_0", "16g"},
                                          {"CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/other"},
                                          {"CUDA_VISIBLE_DEVICES", "0"},
                                          {"BERTH_GUARD_DISABLE", "1"},
                                          {"BERTH_MEMORY_MIB", "16384"}}) {
    EXPECT_EQ(ask(machine, {{name, value}}).out, "code 2\n") << name;
  }
}

TEST(GuardTamper, ASubsetOfTheDevicesByUuidIsStillLimited) {
  const Machine machine({.gpus = "2x16GiB", .limit_mib = kLimit, .granted_devices = 2});
  const std::string second = grant::uuid_text(machine.uuids()[1]);
  EXPECT_EQ(ask(machine, {{"CUDA_VISIBLE_DEVICES", second}}).out, "code 2\n");
}

TEST(GuardTamper, ADeviceOutsideTheGrantIsRefusedWhenClosedAndFreeWhenOpen) {
  for (const bool closed : {true, false}) {
    const Machine machine({.gpus = "2x16GiB", .limit_mib = kLimit, .closed = closed});
    const std::string second = grant::uuid_text(machine.uuids()[1]);
    EXPECT_EQ(ask(machine, {{"CUDA_VISIBLE_DEVICES", second}}).out, closed ? "code 2\n" : "held\n");
  }
}

struct Damage {
  const char* name;
  std::function<void(const std::string& directory)> harm;
  bool policy_readable;  // else its flag counts as closed
};

// What the test framework shows, the same on every run.
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class GuardDamage : public testing::TestWithParam<Damage> {};

TEST_P(GuardDamage, FailsAsThePolicySays) {
  for (const bool closed : {true, false}) {
    const Machine machine({.limit_mib = kLimit, .closed = closed});
    GetParam().harm(machine.grant_directory());
    const Outcome seen = ask(machine);
    const bool refuses = closed || !GetParam().policy_readable;
    EXPECT_EQ(seen.out, refuses ? "code 800\n" : "held\n") << seen.err;
    EXPECT_EQ(lines_with(seen.err, "berth: GPU access refused: ").size(), refuses ? 1U : 0U)
        << seen.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, GuardDamage,
    testing::Values(
        Damage{"PolicyMissing", [](const auto& d) { fs::remove(d + "/policy"); }, false},
        Damage{"PolicyTruncated", [](const auto& d) { fs::resize_file(d + "/policy", 100); },
               false},
        Damage{"PolicyEmpty", [](const auto& d) { fs::resize_file(d + "/policy", 0); }, false},
        Damage{"PolicyMagic", [](const auto& d) { overwrite(d + "/policy", "X"); }, false},
        Damage{"PolicyFuture", [](const auto& d) { overwrite(d + "/policy", "\x09", 8); }, false},
        Damage{"PolicyCount", [](const auto& d) { overwrite(d + "/policy", "\xff\xff\xff", 12); },
               false},
        Damage{"PolicyStranger",
               [](const auto& d) { ASSERT_EQ(chown((d + "/policy").c_str(), 12345, 0), 0); },
               false},
        Damage{"PolicyDirectory",
               [](const auto& d) {
                 fs::remove(d + "/policy");
                 fs::create_directory(d + "/policy");
               },
               false},
        Damage{"AccountMissing", [](const auto& d) { fs::remove(d + "/account"); }, true},
        Damage{"AccountTruncated", [](const auto& d) { fs::resize_file(d + "/account", 5000); },
               true},
        Damage{"AccountEmpty", [](const auto& d) { fs::resize_file(d + "/account", 0); }, true},
        Damage{"AccountMagic", [](const auto& d) { overwrite(d + "/account", "X"); }, true},
        Damage{"AccountFuture", [](const auto& d) { overwrite(d + "/account", "\x09", 8); }, true},
        Damage{"AccountSlots", [](const auto& d) { overwrite(d + "/account", "\xff\xff\xff", 16); },
               true},
        Damage{"AccountDevices",
               [](const auto& d) { overwrite(d + "/account", "\xff\xff\xff", 12); }, true}),
    [](const auto& damage) { return std::string(damage.param.name); });

TEST(GuardDamageSlow, GarbageInTheAccountCrashesAndHangsNobody) {
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    const Machine machine({.limit_mib = kLimit, .slots = 40});
    const std::string account = machine.grant_directory() + "/account";
    std::string garbage(fs::file_size(account) - 4096, '\0');
    for (char& byte : garbage)
      byte = static_cast<char>(random());
    const std::string uuid(reinterpret_cast<const char*>(machine.uuids()[0].bytes.data()), 16);
    garbage.replace(104, 16, uuid);
    overwrite(account, garbage, 4096);
    const Outcome seen = ask(machine);
    EXPECT_TRUE(seen.out == "code 2\n" || seen.out == "held\n") << seen.out << seen.exit_code;
  }
}

TEST(GuardLifetime, AFullTableRefusesWhenClosedAndPassesWhenOpen) {
  for (const bool closed : {true, false}) {
    const Machine machine({.limit_mib = kLimit, .closed = closed, .slots = 1});
    // Somebody else holds the only slot.
    const int fd = open((machine.grant_directory() + "/account").c_str(), O_RDWR | O_CLOEXEC);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_len = 1;
    ASSERT_EQ(fcntl(fd, 37 /* F_OFD_SETLK */, &lock), 0) << std::strerror(errno);
    EXPECT_EQ(machine.run({"hold", "10"}).out, closed ? "code 2\n" : "held\n");
    close(fd);
  }
}

// The library as another compiler makes it: what the two fold or reorder differs.
TEST(GuardCompilerSlow, ClangsLibraryHoldsAsWell) {
  if (run_to_end({"clang++-19", "--version"}, {}).exit_code != 0) GTEST_SKIP() << "no clang++-19";
  const Machine machine({.limit_mib = kLimit});
  const std::string library = machine.folder() + "/libberth_guard.so";
  const std::string folder = std::string(BERTH_SOURCE_DIR) + "/src/guard/preload";
  const Outcome built =
      run_to_end({"sh", "-c",
                  "clang++-19 -std=c++23 -O2 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden "
                  "-fno-exceptions -fno-rtti -fno-threadsafe-statics -ftls-model=initial-exec "
                  "-fno-semantic-interposition -fno-stack-protector -Wall -Wextra -Werror -I" +
                      std::string(BERTH_SOURCE_DIR) +
                      "/src -shared -nostdlib -Wl,-Bsymbolic-functions,-z,now,-z,nodelete,"
                      "--no-undefined,--version-script=" +
                      folder + "/guard.map -o " + library + " " + folder + "/*.cc -lc -lgcc"},
                 {});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_EQ(machine.run({"hold", "300"}, {{"LD_PRELOAD", library}}).out, "held\n");
  EXPECT_EQ(machine.reading().devices.at(0).charged, Memory::mib(316));
  EXPECT_EQ(ask(machine, {{"LD_PRELOAD", library}}).out, "code 2\n");
}

TEST(GuardLifetime, WithoutAGrantNothingChanges) {
  const Machine machine({.limit_mib = kLimit});
  EXPECT_EQ(ask(machine, {{"BERTH_GRANT_DIR", "/nowhere"}}).out, "held\n");
  EXPECT_EQ(ask(machine, {{"BERTH_GRANT_DIR", ""}}).out, "held\n");
}

TEST(GuardLifetime, ThePreloadListNamingItTwiceCountsOnce) {
  const Machine machine({.limit_mib = kLimit});
  const std::string library = std::string(BERTH_BIN_DIR) + "/../lib/libberth_guard.so";
  const std::string copy = machine.folder() + "/second_berth_guard.so";
  fs::copy_file(library, copy);
  EXPECT_EQ(machine.run({"hold", "300"}, {{"LD_PRELOAD", library + ":" + copy}}).out, "held\n");
  const grant::GrantReading reading = machine.reading();
  EXPECT_EQ(reading.devices.at(0).charged, Memory::mib(316));
  EXPECT_EQ(ask(machine, {{"LD_PRELOAD", library + ":" + copy}}).out, "code 2\n");
}

TEST(GuardLifetime, AKilledProcessLeavesNothingOnceReclaimed) {
  const Machine machine({.limit_mib = kLimit});
  ASSERT_EQ(machine.run({"hold", "300"}).out, "held\n");
  auto directory = grant::GrantDirectory::open(machine.grant_directory());
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(directory->read().devices.at(0).charged, Memory::mib(316));
  EXPECT_EQ(directory->reclaim(), 1);
  EXPECT_EQ(directory->read().devices.at(0).charged, Memory());
}

TEST(GuardLifetime, WhatTheDeadHeldIsTakenBackBeforeARefusal) {
  const Machine machine({.limit_mib = kLimit});
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(machine.run({"hold", "300"}).out, "held\n");
}

TEST(GuardDriver, InjectedFailuresPassUnchangedAndChargeNothing) {
  const Machine machine({.limit_mib = 1536});
  for (const char* name : {"cuMemAlloc_v2",
                           "cuMemFree_v2",
                           "cuMemAllocPitch_v2",
                           "cuMemAllocManaged",
                           "cuArrayCreate_v2",
                           "cuArray3DCreate_v2",
                           "cuArrayDestroy",
                           "cuMipmappedArrayCreate",
                           "cuMemCreate",
                           "cuMemRelease",
                           "cuMemMap",
                           "cuMemUnmap",
                           "cuMemRetainAllocationHandle",
                           "cuMemAllocAsync",
                           "cuMemAllocFromPoolAsync",
                           "cuMemFreeAsync",
                           "cuMemPoolDestroy",
                           "cuMemPoolTrimTo",
                           "cuCtxSetLimit",
                           "cuGraphInstantiateWithFlags",
                           "cuGraphLaunch",
                           "cuGraphExecDestroy",
                           "cuDevicePrimaryCtxRetain",
                           "cuCtxDestroy_v2"}) {
    ASSERT_EQ(
        machine.fake({"fail", name, "--probability", "0.05", "--seed", "11", "--poison"}).exit_code,
        0);
  }
  const Outcome seen = machine.run({"random", "11", "300000", machine.grant_directory()});
  EXPECT_EQ(seen.exit_code, 0) << seen.out;
}

TEST(GuardDriver, EveryDriverLineLoadsAndIsHeld) {
  for (const std::string line : {"535", "570", "580", "615", "future"}) {
    const Machine machine({.driver = line, .limit_mib = kLimit});
    EXPECT_EQ(ask(machine).out, "code 2\n") << line;
    EXPECT_EQ(machine.run({"hold", "300"}).out, "held\n") << line;
  }
}

TEST(GuardUnprivileged, HoldsWithAGrantOfTheUsersOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "the whole suite runs unprivileged then";
  const Machine machine({.limit_mib = kLimit});
  for (const std::string& path :
       {machine.folder(), machine.grant_directory(), machine.grant_directory() + "/policy",
        machine.grant_directory() + "/account", machine.state_file()}) {
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  }
  const std::string client = std::string(BERTH_BIN_DIR) + "/../tests/guard_client";
  const Outcome refused = machine.run_program(
      {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", client, "hold", "600"});
  const Outcome held = machine.run_program(
      {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", client, "hold", "300"});
  EXPECT_EQ(refused.out, "code 2\n") << refused.err;
  EXPECT_EQ(held.out, "held\n") << held.err;
}

}  // namespace
}  // namespace berth::guard_test
