// What `berth doctor` says of machines that are made up, and of files that are wrong on purpose.
#include "cli/doctor_checks.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using testing::HasSubstr;

class Doctor : public testing::Test {
 protected:
  Doctor() {
    std::string pattern = (std::filesystem::temp_directory_path() / "doctor-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Doctor() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }

 private:
  std::string folder_;
};

TEST_F(Doctor, CountsTheGpusOfTheBusAndNothingElse) {
  EXPECT_EQ(pci_gpu_count(path("bus")), 0);
  write("bus/0000:01:00.0/vendor", "0x10de\n");
  write("bus/0000:01:00.0/class", "0x030200\n");
  write("bus/0000:01:00.1/vendor", "0x10de\n");  // the sound of the same card
  write("bus/0000:01:00.1/class", "0x040300\n");
  write("bus/0000:02:00.0/vendor", "0x1002\n");  // somebody else's
  write("bus/0000:02:00.0/class", "0x030000\n");
  write("bus/0000:03:00.0/vendor", "0x10de\n");
  write("bus/0000:03:00.0/class", "0x030000\n");
  EXPECT_EQ(pci_gpu_count(path("bus")), 2);
}

TEST_F(Doctor, WithoutDriverSaysWhetherThatIsWrong) {
  const Finding none = check_driver(path("libnone.so"), 0);
  EXPECT_EQ(none.health, Health::warn);
  EXPECT_THAT(none.mend, HasSubstr("--simulate"));
  const Finding missing = check_driver(path("libnone.so"), 2);
  EXPECT_EQ(missing.health, Health::fail);
  EXPECT_THAT(missing.text, HasSubstr("2 GPUs are on the PCI bus, but no driver"));
  EXPECT_THAT(missing.text, HasSubstr("libnone.so"));
  EXPECT_THAT(missing.mend, HasSubstr("nvidia-driver"));
}

TEST_F(Doctor, ALibraryThatIsAnotherOneIsNoDriver) {
  const Finding other = check_driver("libm.so.6", 1);
  EXPECT_EQ(other.health, Health::fail);
  EXPECT_THAT(other.text, HasSubstr("the driver refuses: libm.so.6"));
}

TEST_F(Doctor, DeviceFilesAreThereAndOpen) {
  std::filesystem::create_directory(path("dev"));
  EXPECT_EQ(check_device_files(0, path("dev")).health, Health::warn);
  EXPECT_EQ(check_device_files(1, path("dev")).health, Health::fail);
  write("dev/nvidia0", "");
  write("dev/nvidia10", "");
  write("dev/nvidiactl", "");
  write("dev/nvidia-caps", "");
  const Finding no_uvm = check_device_files(1, path("dev"));
  EXPECT_EQ(no_uvm.health, Health::warn);
  EXPECT_EQ(no_uvm.text, "nvidia0, nvidia10, nvidiactl can be opened; no nvidia-uvm");
  write("dev/nvidia-uvm", "");
  EXPECT_EQ(check_device_files(1, path("dev")).health, Health::ok);
  if (geteuid() == 0) GTEST_SKIP() << "root may open everything";
  std::filesystem::permissions(path("dev/nvidia0"), std::filesystem::perms::none);
  const Finding closed = check_device_files(1, path("dev"));
  EXPECT_EQ(closed.health, Health::fail);
  EXPECT_THAT(closed.text, HasSubstr(path("dev/nvidia0") + " may not be opened"));
}

TEST_F(Doctor, TheGuardIsLoadedIntoAProgramToSee) {
  EXPECT_EQ(check_guard("").health, Health::warn);
  EXPECT_EQ(check_guard(path("none.so")).health, Health::fail);
  write("text.so", "this is no library\n");
  const Finding broken = check_guard(path("text.so"));
  EXPECT_EQ(broken.health, Health::fail);
  EXPECT_THAT(broken.text, HasSubstr("cannot be loaded into a program"));
}

TEST_F(Doctor, AStateDirectoryIsWrittenTo) {
  std::filesystem::create_directory(path("state"));
  const Finding good = check_state_directory(path("state"));
  EXPECT_NE(good.health, Health::fail) << good.text;
  EXPECT_THAT(good.text, HasSubstr(" free, a durable write takes "));
  EXPECT_TRUE(std::filesystem::is_empty(path("state"))) << "it leaves nothing behind";
  write("file", "");
  const Finding wrong = check_state_directory(path("file/state"));
  EXPECT_EQ(wrong.health, Health::warn);
  EXPECT_THAT(wrong.text, HasSubstr("cannot write there"));
  EXPECT_THAT(wrong.mend, HasSubstr("--state"));
}

TEST_F(Doctor, AFewOpenFilesAreTooFew) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = few.rlim_max = 256;
  // In a process of its own: a hard limit does not come back.
  EXPECT_EXIT(
      {
        setrlimit(RLIMIT_NOFILE, &few);
        const Finding finding = check_open_files();
        _exit(finding.health == Health::warn && finding.mend.contains("ulimit -n") ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Doctor, ACgroupThatIsOfTheOldVersionIsNamed) {
  EXPECT_EQ(check_cgroup(path("none")).health, Health::warn);
  write("v2/cgroup.controllers", "memory\n");
  write("v2/cgroup.procs", "");
  EXPECT_EQ(check_cgroup(path("v2")).health, Health::ok);
}

}  // namespace
}  // namespace berth::cli
