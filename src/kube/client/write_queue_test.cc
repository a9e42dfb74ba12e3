#include "kube/client/write_queue.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kube/client/script_test_support.h"

namespace berth::kube {
namespace {

struct KubeWrites : testing::Test {
  void write(WriteRank rank, const std::string& object, const std::string& body) {
    queue.submit({.rank = rank,
                  .object = object,
                  .call = {.method = Method::post, .body = body, .lane = Lane::write},
                  .done = [this, body](const Answer& answer) {
                    ended.push_back(body + (answer.ok() ? " ok" : " " + describe(answer)));
                  }});
  }

  // Bodies that have been sent and not been answered.
  std::vector<std::string> in_flight() {
    timers.run_due();
    std::vector<std::string> bodies;
    for (const auto& asked : caller.asked)
      bodies.push_back(asked.call.body);
    return bodies;
  }

  void answer_first() {
    ScriptedCaller::Asked asked = caller.take();
    ScriptedCaller::answer(asked, 201);
  }

  ManualClock clock;
  Timers timers{clock};
  ScriptedCaller caller;
  bool fence_open = true;
  std::vector<std::string> ended;
  WriteQueue queue{caller,
                   timers,
                   [this] { return fence_open; },
                   {.window = 2,
                    .events_window = 1,
                    .events_waiting = 3,
                    .events_per_object = {.size = 2, .refill = Duration(60'000)},
                    .events_in_all = {.size = 4, .refill = Duration(1'000)}}};
  using Words = std::vector<std::string>;
};

TEST_F(KubeWrites, GoByRankAndAtMostSoManyAtOnce) {
  write(WriteRank::event, "u1", "event");
  write(WriteRank::condition, "u2", "condition");
  write(WriteRank::binding, "u3", "binding 1");
  write(WriteRank::binding, "u4", "binding 2");
  EXPECT_EQ(in_flight(), (Words{"binding 1", "binding 2"}));
  answer_first();
  EXPECT_EQ(in_flight(), (Words{"binding 2", "condition"}));
  answer_first();
  answer_first();
  EXPECT_EQ(in_flight(), (Words{"event"}));
  answer_first();
  EXPECT_EQ(ended, (Words{"binding 1 ok", "binding 2 ok", "condition ok", "event ok"}));
  EXPECT_EQ(queue.figures().waiting, 0U);
}

TEST_F(KubeWrites, OfConditionsOnlyTheLatestOfAnObjectIsSent) {
  write(WriteRank::binding, "u1", "b1");
  write(WriteRank::binding, "u2", "b2");
  write(WriteRank::condition, "u3", "old");
  write(WriteRank::condition, "u3", "new");
  in_flight();
  EXPECT_EQ(ended, (Words{"old a later write of the same object took its place"}));
  answer_first();
  EXPECT_EQ(in_flight(), (Words{"b2", "new"}));
  EXPECT_EQ(queue.figures().superseded, 1U);
}

TEST_F(KubeWrites, ABindingDropsTheConditionThatWaits) {
  write(WriteRank::condition, "u1", "condition");
  write(WriteRank::binding, "u1", "binding");
  EXPECT_EQ(in_flight(), (Words{"binding"}));
  EXPECT_EQ(ended.size(), 1U);
}

TEST_F(KubeWrites, NothingIsSentBehindTheFence) {
  write(WriteRank::binding, "u1", "before");
  in_flight();
  fence_open = false;
  write(WriteRank::binding, "u2", "after");
  write(WriteRank::event, "u2", "event");
  EXPECT_EQ(in_flight(), (Words{"before"}));
  EXPECT_EQ(ended.size(), 2U);
  EXPECT_NE(ended[0].find("lease"), std::string::npos);
  EXPECT_EQ(queue.figures().fenced, 2U);
}

TEST_F(KubeWrites, TheFenceIsAskedWhenAWriteIsSentNotWhenItIsSubmitted) {
  write(WriteRank::binding, "u1", "1");
  write(WriteRank::binding, "u2", "2");
  write(WriteRank::binding, "u3", "3");
  in_flight();
  fence_open = false;
  answer_first();
  EXPECT_EQ(in_flight(), (Words{"2"}));
}

TEST_F(KubeWrites, EventsOfOneObjectAndOfAllHaveABudget) {
  for (int i = 0; i < 5; ++i)
    write(WriteRank::event, "u1", "a");
  in_flight();
  EXPECT_EQ(queue.figures().events_dropped, 3U);
  answer_first();
  in_flight();
  answer_first();
  EXPECT_TRUE(in_flight().empty());
  write(WriteRank::event, "u2", "b");
  write(WriteRank::event, "u3", "c");
  write(WriteRank::event, "u4", "d");
  in_flight();
  answer_first();
  in_flight();
  answer_first();
  EXPECT_TRUE(in_flight().empty()) << "four tokens in all are used";
  clock.pass(Duration(1'000));
  EXPECT_EQ(in_flight(), (Words{"d"}));
  clock.pass(Duration(60'000));
  write(WriteRank::event, "u1", "a");
  answer_first();
  EXPECT_EQ(in_flight(), (Words{"a"}));
}

TEST_F(KubeWrites, TheOldestEventGivesWayWhenTooManyWait) {
  for (const char* object : {"u1", "u2", "u3", "u4", "u5"})
    write(WriteRank::event, object, object);
  timers.run_due();
  EXPECT_EQ(queue.figures().events_dropped, 2U);
  EXPECT_EQ(in_flight(), (Words{"u3"}));
}

TEST_F(KubeWrites, WhatWaitsOfAnObjectThatIsGoneIsForgotten) {
  write(WriteRank::condition, "u1", "condition");
  write(WriteRank::event, "u1", "event");
  queue.forget("u1");
  EXPECT_TRUE(in_flight().empty());
  EXPECT_TRUE(ended.empty());
}

TEST_F(KubeWrites, ACallbackMaySubmitTheNext) {
  queue.submit({.object = "u1", .call = {.body = "first"}, .done = [this](const Answer&) {
                  write(WriteRank::binding, "u2", "second");
                }});
  in_flight();
  answer_first();
  EXPECT_EQ(in_flight(), (Words{"second"}));
}

}  // namespace
}  // namespace berth::kube
