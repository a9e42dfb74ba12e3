// What programs see: the interface of the driver, memory, processes, messages, the probe.
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

constexpr std::int64_t kMib = 1 << 20;

std::map<std::string, std::int64_t> values_of(const std::string& text) {
  std::map<std::string, std::int64_t> values;
  std::istringstream stream(text);
  std::string name;
  std::int64_t value = 0;
  while (stream >> name >> value)
    values[name] = value;
  return values;
}

// Where the fake driver's own cuGetProcAddress_v2 lies, past the guard.
std::string own_resolver() {
  const Outcome symbols =
      run_to_end({"nm", "-D", std::string(BERTH_BIN_DIR) + "/../fake/libcuda.so.1"}, {});
  for (const std::string& line : lines_with(symbols.out, "cuGetProcAddress_v2"))
    return line.substr(0, line.find(' '));
  return "0";
}

TEST(GuardResolver, AnswersTheTwentyFiveProbes) {
  for (const std::string driver : {"535", "570", "580"}) {
    const Machine machine({.driver = driver});
    const Outcome seen = machine.run({"abi", "probes", own_resolver()});
    EXPECT_EQ(seen.out, "wrong 0 of 25\n") << driver << seen.err;
  }
}

TEST(GuardResolver, EveryNameVersionAndFlagMeansWhatTheDriverMeans) {
  const Machine machine({.driver = "580"});
  const Outcome seen =
      machine.run({"abi", "matrix", own_resolver(),
                   std::string(BERTH_SOURCE_DIR) + "/tests/fake/cuda/symbols.txt"});
  EXPECT_EQ(seen.exit_code, 0) << seen.out << seen.err;
}

TEST(GuardResolver, DecidesByExactNameWhateverTheHandle) {
  const Machine machine({});
  const Outcome seen = machine.run({"abi", "handles"});
  EXPECT_EQ(seen.out, "wrong 0\n") << seen.err;
}

TEST(GuardView, ShowsTheShareAsTheWholeCard) {
  const Machine machine({.limit_mib = 1024});
  const Outcome seen = machine.run({"view"});
  auto value = values_of(seen.out);
  ASSERT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(value["total"], 1024 * kMib);
  EXPECT_EQ(value["device_total"], 1024 * kMib);
  EXPECT_EQ(value["free"], (1024 - 16 - 100) * kMib);
  EXPECT_EQ(value["v1.total"], 1024 * kMib);
  EXPECT_EQ(value["v1.free"], value["free"]);
  EXPECT_EQ(value["v1.used"], value["v1.total"] - value["v1.free"]);
  EXPECT_EQ(value["v2.used"], (16 + 100) * kMib);
  EXPECT_EQ(value["v2.total"], value["v2.used"] + value["v2.free"] + value["v2.reserved"]);
  EXPECT_EQ(value["v1.used"], value["v2.used"] + value["v2.reserved"]);
  EXPECT_EQ(value["bad_version"], 1);
  EXPECT_EQ(value["null"], 1);
}

TEST(GuardView, ALimitLargerThanTheCardShowsTheCard) {
  const Machine machine({.gpus = "1x4GiB", .limit_mib = 16'384});
  auto value = values_of(machine.run({"view"}).out);
  auto bare = values_of(machine.run({"view"}, {{"LD_PRELOAD", ""}}).out);
  EXPECT_EQ(value["total"], bare["total"]);
  EXPECT_EQ(value["device_total"], bare["device_total"]);
  EXPECT_EQ(value["free"], bare["free"]);
}

TEST(GuardView, OverTheCapNothingIsFreeAndTheCallSucceeds) {
  const Machine machine({.limit_mib = 1024, .cap_mib = 200});
  auto directory = grant::GrantDirectory::open(machine.grant_directory());
  ASSERT_TRUE(directory.ok());
  ASSERT_TRUE(directory->set_overhead(machine.uuids()[0], Memory::mib(184)).ok());
  auto value = values_of(machine.run({"view"}).out);
  EXPECT_EQ(value["alloc"], 2);
  EXPECT_EQ(value["free"], 0);
  EXPECT_EQ(value["total"], 1024 * kMib);
}

TEST(GuardProcesses, AreTheGrantsOwnWithASizeQueryThatCountsThem) {
  const Machine machine({.filter = true});
  ASSERT_EQ(machine.fake({"foreign", "4711", "1073741824"}).exit_code, 0);
  const Machine open({.filter = false});
  ASSERT_EQ(open.fake({"foreign", "4711", "1073741824"}).exit_code, 0);
  auto filtered = values_of(machine.run({"view"}).out);
  auto all = values_of(open.run({"view"}).out);
  EXPECT_EQ(filtered["size"], 1);
  EXPECT_EQ(filtered["processes"], 1);
  EXPECT_EQ(all["processes"], 2);
  EXPECT_EQ(filtered["size_query"], 7);
}

TEST(GuardProbe, FindsEveryFamilyHeld) {
  const Machine machine({.limit_mib = 512});
  const Outcome seen = machine.run_program({std::string(BERTH_BIN_DIR) + "/berth-guard-probe"});
  EXPECT_EQ(seen.exit_code, 0) << seen.out << seen.err;
  EXPECT_EQ(lines_with(seen.out, " held").size(), 11U) << seen.out;  // ten families and the sum
  // One line however many refusals.
  EXPECT_EQ(lines_with(seen.err, "berth: GPU memory limit: ").size(), 1U) << seen.err;
}

TEST(GuardProbe, SaysSoWhereNothingHolds) {
  const Machine machine({.limit_mib = 512});
  const Outcome seen = machine.run_program({std::string(BERTH_BIN_DIR) + "/berth-guard-probe"},
                                           {{"LD_PRELOAD", ""}});
  EXPECT_EQ(seen.exit_code, 1) << seen.out;
  EXPECT_NE(seen.out.find("NOT HELD"), std::string::npos) << seen.out;
}

TEST(GuardMessage, SaysWhatWasAskedHeldAndAllowed) {
  const Machine machine({.limit_mib = 100});
  const Outcome seen = machine.run({"hold", "90"});
  const std::string uuid = grant::uuid_text(machine.uuids()[0]);
  EXPECT_EQ(seen.out, "code 2\n");
  EXPECT_EQ(seen.err.find("berth: GPU memory limit: asked 94371840 B (90 MiB), held 16777216 B "
                          "(16 MiB), limit 104857600 B (100 MiB), device " +
                          uuid + ", grant test, pid "),
            0U)
      << seen.err;
}

TEST(GuardMessage, NamesTheBurstCap) {
  const Machine machine({.limit_mib = 1024, .cap_mib = 100});
  const Outcome seen = machine.run({"hold", "90"});
  EXPECT_NE(seen.err.find(", burst now capped at 104857600 B"), std::string::npos) << seen.err;
}

// Launches of 5 ms kernels for two seconds at a tenth of the device.
// Whatever function a program launches by, and whether it is linked with the driver or not.
TEST(GuardShareSlow, ATenthOfTheDeviceIsATenthOfTheKernels) {
  for (const std::string road : {"kernel", "direct", "ex", "cooperative"}) {
    const Machine machine({.share = 100});
    auto value = values_of(machine.run({"share", "3000", "train_5ms", road}).out);
    EXPECT_GE(value["launches"], 50) << road;
    EXPECT_LE(value["launches"], 90) << road;  // 60, and 100 ms of the bucket at the start
  }
}

TEST(GuardShareSlow, WithSeveralDevicesEachHasItsTenth) {
  const Machine machine({.gpus = "2x16GiB", .share = 100, .granted_devices = 2});
  auto value = values_of(machine.run({"share", "3000", "train_5ms"}).out);
  EXPECT_GE(value["launches"], 50);
  EXPECT_LE(value["launches"], 90);
}

TEST(GuardShare, WithoutAComputeLimitKernelsRunAsFastAsTheDeviceAllows) {
  for (const std::string road : {"kernel", "direct", "ex", "cooperative"}) {
    const Machine machine({});
    auto value = values_of(machine.run({"share", "500", "train_1ms", road}).out);
    EXPECT_GE(value["launches"], 300) << road;
  }
}

// Two grants on one device, both wanting all of it. What a program gets before its kernels were
// first measured does not count.
TEST(GuardShareSlow, OneAndNineTenthsOfADeviceAreOneToNine) {
  const Machine machine({.share = 100});
  grant::GrantSpec other;
  other.id = "other";
  other.closed = true;
  other.share = Milli(900);
  other.devices.push_back({.uuid = machine.uuids()[0],
                           .request = Memory::mib(1024),
                           .limit = Memory::mib(1024),
                           .cap = Memory::mib(1024),
                           .context_bytes = Memory::mib(16)});
  const std::string directory = machine.folder() + "/other";
  ASSERT_TRUE(grant::create(directory, other).ok());
  const std::string share =
      std::string(BERTH_BIN_DIR) + "/../tests/guard_client share 6000 train_5ms";
  const std::string both = "BERTH_GRANT_DIR=" + directory + " " + share + " >" + machine.folder() +
                           "/nine & " + share + " >" + machine.folder() + "/one; wait; cat " +
                           machine.folder() + "/one; sed s/steady/nine/ " + machine.folder() +
                           "/nine";
  // On a machine that is busy with other things a program may be too slow to ask for its share.
  double ratio = 0;
  std::string told;
  for (int attempt = 0; attempt < 3 && (ratio < 8.1 || ratio > 9.9); ++attempt) {
    const Outcome seen = machine.run_program({"sh", "-c", both});
    auto value = values_of(seen.out);
    ASSERT_GT(value["steady"], 0) << seen.out << seen.err;
    ratio = static_cast<double>(value["nine"]) / static_cast<double>(value["steady"]);
    told = seen.out;
  }
  EXPECT_GE(ratio, 8.1) << told;
  EXPECT_LE(ratio, 9.9) << told;
}

}  // namespace
}  // namespace berth::guard_test
