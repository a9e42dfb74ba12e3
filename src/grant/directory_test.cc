// A grant directory's life without any process of the grant.
#include "grant/directory.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "grant/spec.h"
#include "grant/usage.h"
#include "guard/layout.h"
#include "guard/slots.h"
#include "guard/word.h"

namespace berth::grant {
namespace {

const Uuid kFirst = parse_uuid("GPU-8f6d0b9e-0a6f-4b52-9f0e-3a1f9c1d2e4b").value();
const Uuid kOther = parse_uuid("GPU-00000000-0a6f-4b52-9f0e-3a1f9c1d2e4b").value();

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): the test framework deletes it
class GrantDirectories : public testing::Test {
 protected:
  GrantDirectories() {
    char folder[] = "/tmp/grant-test-XXXXXX";
    folder_ = mkdtemp(folder);
    spec_.id = "g-17";
    spec_.slots = 8;
    spec_.devices = {{.uuid = kFirst,
                      .request = Memory::mib(512),
                      .limit = Memory::mib(2048),
                      .cap = Memory::mib(1024),
                      .context_bytes = Memory::mib(16)}};
  }

  ~GrantDirectories() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/grant"; }

  GrantDirectory opened() const { return GrantDirectory::open(path()).value(); }

  // What a process in `slot` would do to the account.
  void charge(std::uint32_t slot, std::int64_t bytes) {
    const int fd = ::open((path() + "/account").c_str(), O_RDWR | O_CLOEXEC);
    const std::size_t size = std::filesystem::file_size(path() + "/account");
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const auto view = guard::AccountView::over(memory, size);
    ASSERT_TRUE(view.valid());
    guard::DirectAccess access;
    const guard::DeviceBooks books = guard::books_of(view, 0);
    const std::uint64_t held = guard::settle_slot(access, books, slot);
    ASSERT_TRUE(guard::apply_charge(access, books, {.slot = slot, .held = held, .delta = bytes}));
    view.owner(slot).pid.store(4711);
    munmap(memory, size);
    close(fd);
  }

  std::string folder_;
  GrantSpec spec_;
};

TEST_F(GrantDirectories, AreMadeCompleteAndReadBack) {
  ASSERT_TRUE(create(path(), spec_).ok());
  const GrantReading reading = opened().read();
  EXPECT_EQ(reading.id, "g-17");
  ASSERT_EQ(reading.devices.size(), 1U);
  EXPECT_EQ(reading.devices[0].uuid, kFirst);
  EXPECT_EQ(reading.devices[0].cap, Memory::mib(1024));
  EXPECT_EQ(reading.devices[0].charged, Memory());
  const auto mode = [&](const char* name) {
    return std::filesystem::status(path() + "/" + name).permissions();
  };
  EXPECT_EQ(mode("account"), std::filesystem::perms{0666});
  EXPECT_EQ(mode("policy"), std::filesystem::perms{0444});
}

TEST_F(GrantDirectories, AreNotMadeTwice) {
  ASSERT_TRUE(create(path(), spec_).ok());
  const Result<void> again = create(path(), spec_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), ErrorCode::conflict);
  // Nothing of the attempt is left.
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_))
    ++entries;
  EXPECT_EQ(entries, 1);
}

TEST_F(GrantDirectories, KeepTheCapBetweenRequestAndLimit) {
  ASSERT_TRUE(create(path(), spec_).ok());
  GrantDirectory directory = opened();
  EXPECT_TRUE(directory.set_cap(kFirst, Memory::mib(512)).ok());
  EXPECT_TRUE(directory.set_cap(kFirst, Memory::mib(2048)).ok());
  for (const std::int64_t mib : {0, 511, 2049}) {
    const Result<void> set = directory.set_cap(kFirst, Memory::mib(mib));
    ASSERT_FALSE(set.ok());
    EXPECT_EQ(set.error().code(), ErrorCode::invalid_argument);
  }
  EXPECT_EQ(directory.set_cap(kOther, Memory::mib(512)).error().code(), ErrorCode::not_found);
  EXPECT_EQ(directory.read().devices[0].cap, Memory::mib(2048));
}

TEST_F(GrantDirectories, AreRepairedByAnAuditWhenSomebodyWroteIntoTheWord) {
  ASSERT_TRUE(create(path(), spec_).ok());
  charge(3, 100 << 20);
  GrantDirectory directory = opened();
  EXPECT_FALSE(directory.audit()[0].repaired);
  {
    std::fstream account(path() + "/account", std::ios::in | std::ios::out | std::ios::binary);
    account.seekp(guard::kHeaderBytes);
    account.put('\x7f');
  }
  EXPECT_NE(directory.read().devices[0].charged, Memory::mib(100));
  const AuditFinding found = directory.audit()[0];
  EXPECT_TRUE(found.repaired);
  EXPECT_EQ(found.held, Memory::mib(100));
  EXPECT_EQ(directory.read().devices[0].charged, Memory::mib(100));
}

TEST_F(GrantDirectories, AreRemovedOnlyIfNothingElseLiesThere) {
  ASSERT_TRUE(create(path(), spec_).ok());
  std::ofstream(path() + "/notes") << "mine";
  EXPECT_EQ(remove(path()).error().code(), ErrorCode::conflict);
  EXPECT_TRUE(std::filesystem::exists(path() + "/account"));
  std::filesystem::remove(path() + "/notes");
  EXPECT_TRUE(remove(path()).ok());
  EXPECT_EQ(remove(path()).error().code(), ErrorCode::not_found);
}

TEST_F(GrantDirectories, CompareWhatTheDriverReportsOfEachProcess) {
  ASSERT_TRUE(create(path(), spec_).ok());
  charge(3, 100 << 20);
  const std::vector<ReportedUse> reported = {
      {.device = kFirst, .pid = 4711, .used = Memory::mib(130)},
      {.device = kFirst, .pid = 4711, .used = Memory::mib(100)},
      {.device = kFirst, .pid = 4711, .used = Memory::mib(40)},
      {.device = kFirst, .pid = 815, .used = Memory::mib(7)}};
  const std::vector<UseFinding> found = compare_use(opened().read(), reported);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(meaning_of(found[0]), "31457280 B are used that no call was charged for");
  EXPECT_EQ(meaning_of(found[1]), "agrees");
  EXPECT_EQ(meaning_of(found[2]), "62914560 B were charged and are not used");
  EXPECT_EQ(meaning_of(found[3]), "it runs without the guard; nothing limits it");
}

TEST(GrantOverhead, IsTheSmallestExcessOfTheSamples) {
  const auto sample = [](std::int64_t before, std::int64_t reported, std::int64_t after) {
    return UsageSample{.charged_before = Memory::mib(before),
                       .reported = Memory::mib(reported),
                       .charged_after = Memory::mib(after)};
  };
  EXPECT_EQ(overhead_of({}), Memory());
  const UsageSample samples[] = {sample(100, 180, 100), sample(100, 150, 120), sample(90, 200, 90)};
  EXPECT_EQ(overhead_of(samples), Memory::mib(30));
  const UsageSample under[] = {sample(100, 50, 100)};
  EXPECT_EQ(overhead_of(under), Memory());
}

}  // namespace
}  // namespace berth::grant
