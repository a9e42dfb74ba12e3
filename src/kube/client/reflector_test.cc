#include "kube/client/reflector.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kube/client/script_test_support.h"

namespace berth::kube {
namespace {

using Asked = ScriptedCaller::Asked;

constexpr std::string_view kUidA = "aaaaaaaa-0000-4000-8000-000000000001";
constexpr std::string_view kUidB = "bbbbbbbb-0000-4000-8000-000000000002";

std::string object(std::string_view name, std::string_view uid, int version) {
  return fmt::format(
      R"({{"kind":"Node","metadata":{{"name":"{}","uid":"{}","resourceVersion":"{}"}}}})", name,
      uid, version);
}

std::string frame(std::string_view type, std::string_view body) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, body);
}

std::string bookmark(int version, bool end = false) {
  return fmt::format(
      "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Node\",\"metadata\":{{"
      "\"resourceVersion\":\"{}\"{}}}}}}}\n",
      version, end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "");
}

std::string list(int version, std::string_view items) {
  return fmt::format(R"({{"kind":"NodeList","metadata":{{"resourceVersion":"{}"}},"items":[{}]}})",
                     version, items);
}

std::string status(int code, std::string_view reason) {
  return fmt::format(
      R"({{"kind":"Status","status":"Failure","code":{},"reason":"{}","message":"m"}})", code,
      reason);
}

// A log of what was told, one line each: "+n@5", "~n@6", "-n".
class Log : public ObjectSink {
 public:
  void on_object(const ObjectEvent& event) override {
    text += event.change == Change::added ? "+" : event.change == Change::modified ? "~" : "-";
    text += fmt::format("{}{}", event.key, event.uid == kUidB ? "'" : "");
    if (event.change != Change::deleted) text += fmt::format("@{}", event.version);
    text += " ";
    if (event.change != Change::deleted) {
      EXPECT_FALSE(event.object.empty());
    }
  }
  void on_synced() override { text += "synced "; }
  void on_trouble(std::string_view what) override { troubles.emplace_back(what); }

  std::string take() { return std::exchange(text, {}); }

  std::string text;
  std::vector<std::string> troubles;
};

struct KubeReflector : testing::Test {
  KubeReflector() { reflector.start(); }

  // The next stream that the reflector opens.
  Asked next() { return caller.take(); }
  void pass(Duration time) { kube::pass(clock, timers, time); }
  // Through protocol A with the objects a@5 and b@6, live from version 10 on.
  Asked live() {
    Asked stream = next();
    stream.sink->on_bytes(frame("ADDED", object("a", kUidA, 5)));
    stream.sink->on_bytes(frame("ADDED", object("b", kUidA, 6)));
    stream.sink->on_bytes(bookmark(10, true));
    EXPECT_EQ(log.take(), "+a@5 +b@6 synced ");
    return stream;
  }

  ManualClock clock;
  Timers timers{clock};
  Chance chance{7};
  ScriptedCaller caller;
  Log log;
  Reflector reflector{caller, timers, chance, {.path = "/api/v1/nodes", .selector = "s=1"}, log};
};

TEST_F(KubeReflector, AsksForTheWatchListFirst) {
  const Asked stream = next();
  EXPECT_TRUE(stream.call.path.starts_with("/api/v1/nodes?s=1&watch=1&allowWatchBookmarks=true"))
      << stream.call.path;
  EXPECT_NE(stream.call.path.find("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            std::string::npos);
  EXPECT_EQ(stream.call.path.find("resourceVersion="), std::string::npos);
  EXPECT_EQ(stream.call.lane, Lane::watch);
}

TEST_F(KubeReflector, TellsChangesOfALiveStream) {
  const Asked stream = live();
  EXPECT_TRUE(reflector.figures().live);
  stream.sink->on_bytes(frame("MODIFIED", object("a", kUidA, 11)) +
                        frame("ADDED", object("c", kUidA, 12)));
  stream.sink->on_bytes(frame("DELETED", object("b", kUidA, 13)) + bookmark(20));
  EXPECT_EQ(log.take(), "~a@11 +c@12 -b ");
  EXPECT_EQ(reflector.figures().objects, 2U);
}

TEST_F(KubeReflector, IsTheSameWhereverTheBytesAreCut) {
  std::ifstream file(BERTH_SOURCE_DIR "/fuzz/corpus/frames_fuzz/watch_of_pods");
  std::stringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  const std::string expected =
      "+default/p1@242 +default/p2@244 synced ~default/p1@247 ~default/p2@248 -default/p2 "
      "+default/p2@250 ";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Log its;
    ScriptedCaller alone;
    Reflector pods(alone, timers, chance, {.path = "/api/v1/pods"}, its);
    pods.start();
    const Asked stream = alone.take();
    stream.sink->on_bytes(std::string_view(bytes).substr(0, cut));
    stream.sink->on_bytes(std::string_view(bytes).substr(cut));
    ASSERT_EQ(its.text, expected) << "cut at " << cut;
    pods.stop();
  }
}

TEST_F(KubeReflector, GoesOnFromTheLastVersionWhenAStreamEnds) {
  Asked stream = live();
  stream.sink->on_bytes(frame("MODIFIED", object("a", kUidA, 11)) + bookmark(30));
  pass(Duration(400'000));
  ScriptedCaller::answer(stream, 200);
  Asked again = next();
  EXPECT_NE(again.call.path.find("&resourceVersion=30"), std::string::npos) << again.call.path;
  EXPECT_EQ(again.call.path.find("sendInitialEvents"), std::string::npos);
  again.sink->on_bytes(frame("MODIFIED", object("b", kUidA, 31)));
  EXPECT_EQ(log.take(), "~a@11 ~b@31 ");
  EXPECT_TRUE(log.troubles.empty());
}

TEST_F(KubeReflector, ListsAndWatchesWhereTheWatchListIsRefused) {
  Asked stream = next();
  ScriptedCaller::answer(stream, 400, status(400, "BadRequest"));
  Asked listing = next();
  EXPECT_EQ(listing.call.path, "/api/v1/nodes?s=1&resourceVersion=0");
  EXPECT_EQ(listing.call.lane, Lane::read);
  const std::string text = list(8, object("a", kUidA, 5) + "," + object("b", kUidA, 6));
  listing.sink->on_bytes(text.substr(0, 100));
  listing.sink->on_bytes(text.substr(100));
  EXPECT_EQ(log.take(), "+a@5 +b@6 ");
  ScriptedCaller::answer(listing, 200);
  EXPECT_EQ(log.take(), "synced ");
  const Asked watch = next();
  EXPECT_NE(watch.call.path.find("watch=1"), std::string::npos);
  EXPECT_NE(watch.call.path.find("&resourceVersion=8"), std::string::npos);
  watch.sink->on_bytes(frame("DELETED", object("a", kUidA, 9)));
  EXPECT_EQ(log.take(), "-a ");
}

TEST_F(KubeReflector, ReadsAnewAfterAnErrorFrameAndTellsWhatIsGone) {
  Asked stream = live();
  stream.sink->on_bytes(bookmark(12) + frame("ERROR", status(410, "Expired")) +
                        frame("MODIFIED", object("a", kUidA, 99)));
  Asked again = next();
  EXPECT_NE(again.call.path.find("sendInitialEvents=true"), std::string::npos);
  EXPECT_NE(again.call.path.find("&resourceVersion=12"), std::string::npos) << again.call.path;
  again.sink->on_bytes(frame("ADDED", object("a", kUidA, 5)) +
                       frame("ADDED", object("c", kUidA, 14)));
  EXPECT_EQ(log.take(), "+c@14 ");
  again.sink->on_bytes(bookmark(15, true));
  EXPECT_EQ(log.take(), "-b ");
  EXPECT_EQ(log.troubles.size(), 1U);
  EXPECT_EQ(reflector.figures().readings, 2U);
}

TEST_F(KubeReflector, ReadsAnewAfter410AsStatus) {
  Asked stream = live();
  pass(Duration(2'000));
  ScriptedCaller::answer(stream, 200);
  Asked again = next();
  ScriptedCaller::answer(again, 410, status(410, "Expired"));
  Asked reading = next();
  EXPECT_NE(reading.call.path.find("sendInitialEvents=true"), std::string::npos);
  EXPECT_NE(reading.call.path.find("&resourceVersion=10"), std::string::npos);
  // Refused again: whatever is there now is read, after a pause.
  ScriptedCaller::answer(reading, 410, status(410, "Expired"));
  EXPECT_TRUE(caller.asked.empty());
  pass(Duration(1'300));
  reading = next();
  EXPECT_EQ(reading.call.path.find("&resourceVersion="), std::string::npos);
  reading.sink->on_bytes(bookmark(50, true));
  EXPECT_EQ(log.take(), "-a -b ");
}

TEST_F(KubeReflector, ReadsTheNewestAgainWhenAskedAndTellsOnlyWhatIsNew) {
  const Asked stream = live();
  reflector.read_again();
  EXPECT_TRUE(caller.is_cancelled(stream));
  EXPECT_FALSE(reflector.synced());
  EXPECT_FALSE(reflector.figures().live);
  const Asked reading = next();
  EXPECT_NE(reading.call.path.find("sendInitialEvents=true"), std::string::npos);
  EXPECT_EQ(reading.call.path.find("&resourceVersion="), std::string::npos) << reading.call.path;
  reading.sink->on_bytes(frame("ADDED", object("a", kUidA, 5)));
  reading.sink->on_bytes(frame("ADDED", object("c", kUidA, 12)));
  EXPECT_FALSE(reflector.synced());
  reading.sink->on_bytes(bookmark(20, true));
  EXPECT_EQ(log.take(), "+c@12 -b synced ");
  EXPECT_TRUE(reflector.synced());
  EXPECT_TRUE(reflector.figures().live);
}

// It may be in the middle of its first reading, or in a pause after a failure.
TEST_F(KubeReflector, ReadsAgainAtOnceWhateverItWasDoing) {
  const Asked first = next();
  first.sink->on_bytes(frame("ADDED", object("a", kUidA, 5)));
  reflector.read_again();
  EXPECT_TRUE(caller.is_cancelled(first));
  Asked second = next();
  ScriptedCaller::answer(second, 500, status(500, "InternalError"));
  EXPECT_TRUE(caller.asked.empty());
  reflector.read_again();
  const Asked third = next();
  third.sink->on_bytes(frame("ADDED", object("a", kUidA, 5)) + bookmark(20, true));
  EXPECT_EQ(log.take(), "+a@5 synced ");
  pass(Duration(60'000));
  EXPECT_TRUE(caller.asked.empty());
}

TEST_F(KubeReflector, SeesANewObjectUnderAnOldNameAsTwo) {
  Asked stream = live();
  pass(Duration(2'000));
  ScriptedCaller::lose(stream, Outcome::unknown);
  Asked again = next();
  ScriptedCaller::answer(again, 410, status(410, "Gone"));
  Asked reading = next();
  reading.sink->on_bytes(frame("ADDED", object("a", kUidB, 14)) +
                         frame("ADDED", object("b", kUidA, 6)) + bookmark(15, true));
  EXPECT_EQ(log.take(), "-a +a'@14 ");
}

TEST_F(KubeReflector, SeesARecreationBetweenListAndWatch) {
  Asked stream = next();
  ScriptedCaller::answer(stream, 422, status(422, "Invalid"));
  Asked listing = next();
  listing.sink->on_bytes(list(8, object("a", kUidA, 5)));
  ScriptedCaller::answer(listing, 200);
  const Asked watch = next();
  watch.sink->on_bytes(frame("DELETED", object("a", kUidA, 9)) +
                       frame("ADDED", object("a", kUidB, 10)));
  EXPECT_EQ(log.take(), "+a@5 synced -a +a'@10 ");
}

TEST_F(KubeReflector, NeverGoesBackwards) {
  Asked stream = live();
  stream.sink->on_bytes(frame("MODIFIED", object("a", kUidA, 20)));
  // A repetition, as a proxy or a lagging server may send it.
  stream.sink->on_bytes(frame("MODIFIED", object("a", kUidA, 20)) +
                        frame("ADDED", object("b", kUidA, 6)) +
                        frame("DELETED", object("b", kUidA, 7)));
  EXPECT_EQ(log.take(), "~a@20 ");
  stream.sink->on_bytes(frame("ERROR", status(410, "Gone")));
  Asked reading = next();
  reading.sink->on_bytes(frame("ADDED", object("a", kUidA, 19)) +
                         frame("ADDED", object("b", kUidA, 6)) + bookmark(21, true));
  EXPECT_EQ(log.take(), "");
}

TEST_F(KubeReflector, ReadsAnewOnAnUnknownType) {
  const Asked stream = live();
  stream.sink->on_bytes(frame("RENAMED", object("a", kUidA, 20)));
  EXPECT_NE(next().call.path.find("sendInitialEvents=true"), std::string::npos);
  ASSERT_EQ(log.troubles.size(), 1U);
  EXPECT_NE(log.troubles[0].find("unknown type \"RENAMED\""), std::string::npos);
}

TEST_F(KubeReflector, TriesAgainWithLongerAndLongerPauses) {
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < 8; ++i) {
    Asked stream = next();
    ScriptedCaller::lose(stream, Outcome::not_sent);
    const Time begin = clock.now();
    while (caller.asked.empty())
      pass(Duration(100));
    pauses.push_back((clock.now() - begin).count());
  }
  std::int64_t base = 800;
  for (const std::int64_t pause : pauses) {
    EXPECT_GE(pause, std::min<std::int64_t>(base, 30'000));
    EXPECT_LE(pause, std::min<std::int64_t>(base + base / 2, 30'000) + 100);
    base *= 2;
  }
  EXPECT_EQ(log.troubles.size(), 1U) << "the same trouble is told once";
}

TEST_F(KubeReflector, WaitsAsLongAsTheServerAsks) {
  Asked stream = next();
  ScriptedCaller::answer(stream, 429,
                         R"({"kind":"Status","code":429,"reason":"TooManyRequests",)"
                         R"("details":{"retryAfterSeconds":5}})");
  pass(Duration(4'900));
  EXPECT_TRUE(caller.asked.empty());
  pass(Duration(300));
  EXPECT_EQ(caller.asked.size(), 1U);
}

TEST_F(KubeReflector, CountsAStreamThatEndsAtOnceAsAFailure) {
  Asked stream = live();
  pass(Duration(2'000));
  ScriptedCaller::answer(stream, 200);
  Asked again = next();
  ScriptedCaller::answer(again, 200);
  EXPECT_TRUE(caller.asked.empty());
  pass(Duration(1'300));
  EXPECT_EQ(caller.asked.size(), 1U);
}

TEST_F(KubeReflector, TakesAServerThatWentBackInTimeAtItsWord) {
  Asked stream = live();
  pass(Duration(2'000));
  ScriptedCaller::lose(stream, Outcome::unknown);
  for (int i = 0; i < 3; ++i) {
    while (caller.asked.empty())
      pass(Duration(100));
    Asked future = next();
    ScriptedCaller::answer(future, 504, status(504, "Timeout"));
  }
  while (caller.asked.empty())
    pass(Duration(100));
  Asked reading = next();
  EXPECT_EQ(reading.call.path.find("&resourceVersion="), std::string::npos);
  reading.sink->on_bytes(frame("ADDED", object("a", kUidA, 2)) + bookmark(3, true));
  EXPECT_EQ(log.take(), "~a@2 -b ");
}

TEST_F(KubeReflector, StopsInTheMiddleOfAFrameWhenItsSinkSaysSo) {
  struct Stopping : Log {
    void on_object(const ObjectEvent& event) override {
      Log::on_object(event);
      its->stop();
    }
    Reflector* its = nullptr;
  } stopping;
  ScriptedCaller alone;
  Reflector nodes(alone, timers, chance, {.path = "/api/v1/nodes"}, stopping);
  stopping.its = &nodes;
  nodes.start();
  const Asked stream = alone.take();
  stream.sink->on_bytes(frame("ADDED", object("a", kUidA, 5)) +
                        frame("ADDED", object("b", kUidA, 6)) + bookmark(7, true));
  EXPECT_EQ(stopping.text, "+a@5 ");
  EXPECT_TRUE(alone.asked.empty());
}

}  // namespace
}  // namespace berth::kube
