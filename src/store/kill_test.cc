// The process is killed at every step on the disk, before it, after it and in the middle of it.

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/model_test.h"
#include "store/store.h"
#include "store/temporary_directory_test.h"

namespace berth::store {
namespace {

enum class Moment : std::uint8_t { before, torn, after };

// Kills its own process at a step.
class Killer : public FaultHook {
 public:
  Killer(std::size_t at, Moment moment) : at_(at), moment_(moment) {}

  DiskFault before(const DiskStep& step) override {
    kill_if_torn();
    if (step.deed == DiskDeed::read || ++steps_ != at_ || moment_ == Moment::after) {
      return {};
    }
    if (moment_ == Moment::before || step.bytes.size() < 2) {
      kill_now();
    }
    torn_ = true;
    return {.error = EIO, .written = step.bytes.size() / 2};
  }

  // The half of a write that tears is done once the store is told that it failed.
  void kill_if_torn() const {
    if (torn_) {
      kill_now();
    }
  }

  void after(const DiskStep&) override {
    if (steps_ == at_ && moment_ == Moment::after) {
      kill_now();
    }
  }

 private:
  [[noreturn]] static void kill_now() {
    ::kill(::getpid(), SIGKILL);
    ::pause();
    std::abort();
  }

  std::size_t at_;
  Moment moment_;
  std::size_t steps_ = 0;
  bool torn_ = false;
};

// Memory that a child shares with us: how many commits had returned when it died.
class Shared {
 public:
  Shared()
      : count_(static_cast<volatile std::size_t*>(::mmap(nullptr, sizeof(std::size_t),
                                                         PROT_READ | PROT_WRITE,
                                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  ~Shared() { ::munmap(const_cast<std::size_t*>(count_), sizeof(std::size_t)); }

  volatile std::size_t& count() { return *count_; }

 private:
  volatile std::size_t* count_;
};

class Kill : public testing::TestWithParam<Moment> {
 protected:
  // In a child: the history, until the killer strikes.
  void play(const std::string& directory, std::size_t at) {
    Killer killer(at, GetParam());
    std::unique_ptr<Store> store;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (i % 11 == 0) {
        store.reset();
        auto opened = Store::open(brisk_options(directory, &killer));
        if (!opened.ok()) {
          killer.kill_if_torn();
          ::_exit(1);
        }
        store = std::move(opened).value();
      }
      if (!store->commit(history_[i]).ok()) {
        killer.kill_if_torn();
        ::_exit(2);
      }
      shared_.count() = i + 1;
      if (i % 3 == 0) {
        static_cast<void>(store->tidy().ok());
      }
    }
    store.reset();
    killer.kill_if_torn();
    ::_exit(0);
  }

  // Returns whether the child was killed.
  bool play_in_child(const std::string& directory, std::size_t at) {
    shared_.count() = 0;
    const pid_t child = ::fork();
    if (child == 0) {
      play(directory, at);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        << "the child ended with " << status;
    return killed;
  }

  History history_ = make_history(18, 4);
  std::vector<std::vector<Record>> states_ = states_of(history_);
  Shared shared_;
};

TEST_P(Kill, LosesNoCommitThatReturnedAtWhicheverStepItComes) {
  std::size_t at = 1;
  for (;; ++at) {
    SCOPED_TRACE(fmt::format("killed at step {}", at));
    const TemporaryDirectory directory;
    if (!play_in_child(directory.path(), at)) {
      break;
    }
    const std::size_t commits = shared_.count();
    auto opened = Store::open(brisk_options(directory.path()));
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    auto loaded = (*opened)->load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    const std::size_t next = std::min(commits + 1, history_.size());
    ASSERT_TRUE(*loaded == states_[commits] || *loaded == states_[next])
        << "neither what " << commits << " commits give nor " << next;
    ASSERT_TRUE((*opened)->commit(std::vector<Record>{{"job", "after", "x"}}).ok());
  }
  RecordProperty("steps", static_cast<int>(at));
  EXPECT_EQ(shared_.count(), history_.size());
  EXPECT_GT(at, 120U);
}

INSTANTIATE_TEST_SUITE_P(Store, Kill, testing::Values(Moment::before, Moment::torn, Moment::after),
                         [](const auto& moment) -> std::string {
                           switch (moment.param) {
                             case Moment::before: return "BeforeTheStep";
                             case Moment::torn: return "InTheMiddleOfTheStep";
                             case Moment::after: break;
                           }
                           return "AfterTheStep";
                         });

}  // namespace
}  // namespace berth::store
