// A death at every single instruction: a traced child is stepped through reserve, release, refusal,
// claim and reclaim and killed after 1, 2, 3, … instructions. After each death a fresh process
// reclaims; then the slots' sum must be the word, the word zero, and the cap never passed.
#include <csignal>
#include <cstring>
#include <iostream>
#include <string>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "guard/layout.h"
#include "guard/slots.h"
#include "guard/word.h"

namespace berth::guard {
namespace {

constexpr std::uint32_t kSlots = 3;
constexpr std::uint64_t kCap = 1000;

// An account of one device in a file of its own.
class AccountFile {
 public:
  AccountFile() {
    char path[] = "/tmp/guard-steps-XXXXXX";
    fd_ = mkstemp(path);
    path_ = path;
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(kBytes)), 0);
    memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    clear();
  }

  AccountFile(const AccountFile&) = delete;
  AccountFile& operator=(const AccountFile&) = delete;

  ~AccountFile() {
    munmap(memory_, kBytes);
    close(fd_);
    unlink(path_.c_str());
  }

  void clear() {
    std::memset(memory_, 0, kBytes);
    auto* header = static_cast<AccountHeader*>(memory_);
    std::memcpy(header->magic, kAccountMagic, sizeof(header->magic));
    header->layout = kLayout;
    header->n_devices = 1;
    header->n_slots = kSlots;
    view().device(0).word.store(kEmptyWord);
  }

  AccountView view() const { return AccountView::over(memory_, kBytes); }

  // A descriptor with locks of its own.
  SharedAccount share() const {
    struct stat status = {};
    const int fd = sys::open(path_.c_str(), O_RDWR);
    EXPECT_EQ(sys::fstat(fd, &status), 0);
    return {.view = view(), .fd = fd, .inode = status.st_ino, .self = own_identity()};
  }

 private:
  static constexpr std::size_t kBytes = account_bytes(1, kSlots);
  int fd_ = -1;
  std::string path_;
  void* memory_ = nullptr;
};

// What the child does: everything before the mark untraced, everything after it step by step.
using Scene = void (*)(SharedAccount& account);

// Signals the tracer with as few instructions as there can be.
void mark() { sys::call(SYS_kill, sys::process_id(), SIGTRAP); }

void end() { sys::call(SYS_kill, sys::process_id(), SIGUSR1); }

bool apply(const SharedAccount& account, std::uint32_t slot, std::uint64_t held,
           std::int64_t delta) {
  DirectAccess access;
  return apply_charge(access, books_of(account.view, 0),
                      {.slot = slot, .held = held, .delta = delta, .cap = kCap});
}

constexpr char kName[16] = "steps";

void reserve(SharedAccount& account) {
  const std::uint32_t slot = claim_slot(account, kName);
  apply(account, slot, 0, 300);
  mark();
  apply(account, slot, 300, 600);
}

void release(SharedAccount& account) {
  const std::uint32_t slot = claim_slot(account, kName);
  apply(account, slot, 0, 700);
  mark();
  apply(account, slot, 700, -300);
}

void refusal(SharedAccount& account) {
  const std::uint32_t slot = claim_slot(account, kName);
  apply(account, slot, 0, 700);
  mark();
  apply(account, slot, 700, 301);
  apply(account, slot, 700, 300);
}

// Another process's operation stands in the word, and must be acknowledged first.
void reserve_after_another(SharedAccount& account) {
  const std::uint32_t slot = claim_slot(account, kName);
  const pid_t other = fork();
  if (other == 0) {
    SharedAccount own = account;
    own.fd = sys::open(("/proc/self/fd/" + std::to_string(account.fd)).c_str(), O_RDWR);
    own.self = own_identity();
    apply(own, claim_slot(own, kName), 0, 200);
    _exit(0);
  }
  waitpid(other, nullptr, 0);
  mark();
  apply(account, slot, 0, 600);
}

// Dead processes have left something in two slots; taking one gives back what it held.
void leave_behind(const SharedAccount& account) {
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    write_owner(account.view.owner(slot), {.pid = 4'000'000, .pid_namespace = 0, .start = 1},
                kName);
    apply(account, slot, 0, 100 + slot);
  }
}

void claim(SharedAccount& account) {
  leave_behind(account);
  mark();
  claim_slot(account, kName);
}

void reclaim(SharedAccount& account) {
  leave_behind(account);
  mark();
  reclaim_dead(account, kNoSlot);
}

// Steps the child `steps` instructions behind its mark and kills it. False: it came to its end.
bool kill_after(AccountFile& file, Scene scene, int steps) {
  file.clear();
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    SharedAccount account = file.share();
    scene(account);
    end();
    _exit(0);
  }
  int status = 0;
  bool ended = false;
  waitpid(child, &status, 0);  // at the mark
  for (int i = 0; i < steps && WIFSTOPPED(status); ++i) {
    ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    ended = WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1;
    if (ended) break;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return !ended;
}

// Kills at every instruction; returns how many there were.
int kill_everywhere(Scene scene) {
  AccountFile file;
  DirectAccess access;
  int steps = 1;
  for (; steps < 200'000 && kill_after(file, scene, steps); ++steps) {
    const AccountView view = file.view();
    EXPECT_LE(bytes_of(view.device(0).word.load()), kCap) << "after " << steps << " instructions";
    const SharedAccount agent = file.share();
    reclaim_dead(agent, kNoSlot);
    sys::close(agent.fd);
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      sum += peek_slot(access, books_of(view, 0), slot);
    EXPECT_EQ(sum, 0U) << "after " << steps << " instructions";
    EXPECT_EQ(bytes_of(view.device(0).word.load()), 0U) << "after " << steps << " instructions";
    if (testing::Test::HasFailure()) break;
  }
  return steps;
}

struct StepCase {
  const char* name;
  Scene scene;
  int least;  // instructions there must be, else nothing was stepped
};

// What the test framework shows, the same on every run.
void PrintTo(const StepCase& scene, std::ostream* out) { *out << scene.name; }

class KillStepsSlow : public testing::TestWithParam<StepCase> {};

TEST_P(KillStepsSlow, LeaveTheBooksRight) {
  const int steps = kill_everywhere(GetParam().scene);
  EXPECT_GT(steps, GetParam().least);
  std::cerr << "    " << GetParam().name << ": " << steps << " instructions\n";
}

INSTANTIATE_TEST_SUITE_P(Scenes, KillStepsSlow,
                         testing::Values(StepCase{"reserve", reserve, 30},
                                         StepCase{"release", release, 30},
                                         StepCase{"refusal", refusal, 40},
                                         StepCase{"after_another", reserve_after_another, 40},
                                         StepCase{"reclaim", reclaim, 100},
                                         StepCase{"claim", claim, 100}),
                         [](const auto& scene) { return std::string(scene.param.name); });

}  // namespace
}  // namespace berth::guard
