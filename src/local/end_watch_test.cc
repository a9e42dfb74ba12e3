#include "local/end_watch.h"

#include <chrono>
#include <memory>
#include <poll.h>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "local/child_test_support.h"

namespace berth::local {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ProcessKey key_of(std::int64_t pid) { return Processes().find(pid)->key; }

class EndsOfProcesses : public testing::TestWithParam<EndWatch::Method> {
 protected:
  EndWatch watch_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(By, EndsOfProcesses,
                         testing::Values(EndWatch::Method::pidfd, EndWatch::Method::looking),
                         [](const auto& chosen) {
                           return chosen.param == EndWatch::Method::pidfd ? "pidfd" : "looking";
                         });

TEST_P(EndsOfProcesses, AreToldOnce) {
  Child child([](const Tell&) { sleep_for_ever(); });
  const ProcessKey key = key_of(child.pid());
  ASSERT_TRUE(watch_.add(key));
  ASSERT_TRUE(watch_.add(key));
  EXPECT_THAT(watch_.wait(Duration(0)), IsEmpty());
  kill(static_cast<pid_t>(child.pid()), SIGKILL);  // not collected: dead all the same
  std::vector<ProcessKey> told;
  ASSERT_TRUE(soon([&] { return !(told = watch_.wait(Duration(5000))).empty(); }));
  EXPECT_THAT(told, ElementsAre(key));
  EXPECT_THAT(watch_.wait(Duration(250)), IsEmpty());
  EXPECT_FALSE(watch_.add(key)) << "it has ended";
}

TEST_P(EndsOfProcesses, OfOthersChildrenAreToldToo) {
  const Subreaper subreaper;
  Child parent([](const Tell& tell) {
    if (const pid_t pid = fork(); pid == 0) {
      tell(getpid());
      sleep_for_ever();
    }
    sleep_for_ever();
  });
  const std::int64_t grandchild = parent.next_process();
  const ProcessKey key = key_of(grandchild);
  ASSERT_TRUE(watch_.add(key));
  kill(static_cast<pid_t>(grandchild), SIGKILL);
  std::vector<ProcessKey> told;
  ASSERT_TRUE(soon([&] { return !(told = watch_.wait(Duration(5000))).empty(); }));
  EXPECT_THAT(told, ElementsAre(key));
}

TEST_P(EndsOfProcesses, OfSomebodyWithAnEarlierProcesssPidAreNotMistaken) {
  Child child([](const Tell&) { sleep_for_ever(); });
  ProcessKey earlier = key_of(child.pid());
  earlier.start_ticks -= 1;
  EXPECT_FALSE(watch_.add(earlier));
  child.end(SIGKILL);
  EXPECT_THAT(watch_.wait(Duration(150)), IsEmpty());
}

TEST_P(EndsOfProcesses, AreNotToldAfterRemoval) {
  Child child([](const Tell&) { sleep_for_ever(); });
  const ProcessKey key = key_of(child.pid());
  ASSERT_TRUE(watch_.add(key));
  watch_.remove(key);
  watch_.remove(key);
  child.end(SIGKILL);
  EXPECT_THAT(watch_.wait(Duration(250)), IsEmpty());
}

TEST_P(EndsOfProcesses, ComeInNumbers) {
  std::vector<std::unique_ptr<Child>> children;
  std::set<ProcessKey> waiting;
  for (int i = 0; i < 150; ++i) {
    children.push_back(std::make_unique<Child>([](const Tell&) { sleep_for_ever(); }));
    const ProcessKey key = key_of(children.back()->pid());
    ASSERT_TRUE(watch_.add(key));
    waiting.insert(key);
  }
  children.clear();
  ASSERT_TRUE(soon([&] {
    for (const ProcessKey& key : watch_.wait(Duration(1000)))
      EXPECT_EQ(waiting.erase(key), 1U) << "told twice, or unknown";
    return waiting.empty();
  }));
}

TEST_P(EndsOfProcesses, CanBeWaitedForTogetherWithOtherThings) {
  Child child([](const Tell&) { sleep_for_ever(); });
  const ProcessKey key = key_of(child.pid());
  ASSERT_TRUE(watch_.add(key));
  pollfd polled = {.fd = watch_.fd(), .events = POLLIN, .revents = 0};
  child.end(SIGKILL);
  std::vector<ProcessKey> told;
  while (told.empty() && poll(&polled, 1, 10'000) == 1)
    told = watch_.wait(Duration(0));
  EXPECT_THAT(told, ElementsAre(key));
}

TEST_P(EndsOfProcesses, AWaitIsInterruptedAndProcessesAddedMeanwhileCount) {
  Child child([](const Tell&) { sleep_for_ever(); });
  const ProcessKey key = key_of(child.pid());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_TRUE(watch_.add(key));
    watch_.interrupt();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(watch_.wait(Duration(60'000)), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  other.join();
  child.end(SIGKILL);
  std::vector<ProcessKey> told;
  ASSERT_TRUE(soon([&] { return !(told = watch_.wait(Duration(5000))).empty(); }));
  EXPECT_THAT(told, ElementsAre(key));
}

TEST(EndWatch, ClosesWhatItOpened) {
  Child child([](const Tell&) { sleep_for_ever(); });
  const ProcessKey key = key_of(child.pid());
  const int before = dup(0);
  close(before);
  for (int i = 0; i < 50; ++i) {
    EndWatch watch;
    ASSERT_TRUE(watch.add(key));
    if (i % 2 == 0) watch.remove(key);
  }
  const int after = dup(0);
  close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace berth::local
