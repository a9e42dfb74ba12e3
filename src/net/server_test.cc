#include "net/server.h"

#include <condition_variable>
#include <mutex>
#include <sys/stat.h>
#include <vector>

#include <gtest/gtest.h>

#include "net/net_test_support.h"

namespace berth::net {
namespace {

TEST(Server, AnswersARequestOverAUnixSocket) {
  const Harbour harbour(answer_ok);
  Client client = harbour.client();
  const Result<Response> answer =
      client.call({.method = "POST", .target = "/v1/leases", .body = "{}"});
  ASSERT_TRUE(answer.ok()) << answer.error().to_string();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->content_type, "application/json");
  EXPECT_EQ(answer->body, "POST /v1/leases {}");
}

TEST(Server, KnowsWhoIsAtTheOtherEndOfAUnixSocket) {
  Caller seen;
  const Harbour harbour([&seen](const Request& request, Reply reply) {
    seen = request.caller;
    reply.send({});
  });
  ASSERT_TRUE(harbour.client().call({}).ok());
  EXPECT_TRUE(seen.local);
  EXPECT_EQ(seen.uid, ::getuid());
  EXPECT_EQ(seen.gid, ::getgid());
  EXPECT_EQ(seen.pid, ::getpid());
  EXPECT_TRUE(seen.admin) << "the server's own user is an admin";
  EXPECT_FALSE(seen.name.empty());
}

TEST(Server, ServesManyCallsOverOneConnection) {
  Harbour harbour(answer_ok);
  Client client = harbour.client();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client.call({.target = "/x"}).ok());
  }
  EXPECT_EQ(harbour.server().counts().accepted, 1U);
  EXPECT_EQ(harbour.server().counts().requests, 100U);
}

TEST(Server, AReplyMayComeLaterFromAnotherThread) {
  std::thread other;
  const Harbour harbour([&other](const Request&, Reply reply) {
    other = std::thread([reply = std::move(reply)]() mutable { reply.send({.body = "late"}); });
  });
  const Result<Response> answer = harbour.client().call({});
  other.join();
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->body, "late");
}

TEST(Server, AReplyThatIsDroppedAnswersInternal) {
  const Harbour harbour([](const Request&, const Reply&) {});
  const Result<Response> answer = harbour.client().call({});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 500);
  EXPECT_TRUE(answer->body.contains(R"("code":"internal")")) << answer->body;
}

TEST(Server, AHandlerThatThrowsCostsItsOwnRequestOnly) {
  Harbour harbour([](const Request& request, Reply reply) {
    if (request.path == "/throw") throw 42;
    reply.send({});
  });
  Client client = harbour.client();
  EXPECT_EQ(client.call({.target = "/throw"})->status, 500);
  EXPECT_EQ(client.call({})->status, 200);
  EXPECT_EQ(harbour.server().counts().failed_requests, 1U);
}

TEST(Server, RepliesAndStreamsOutliveTheirServer) {
  std::vector<Reply> replies;
  std::vector<std::shared_ptr<Stream>> streams;
  {
    Harbour harbour([&](const Request& request, Reply reply) {
      if (request.path == "/stream") {
        streams.push_back(reply.stream({}));
      } else {
        replies.push_back(std::move(reply));
      }
    });
    RawClient one(harbour.socket());
    RawClient two(harbour.socket());
    one.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    two.send("GET /poll HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(eventually([&] { return harbour.server().counts().requests == 2; }));
    harbour.server().stop();
  }
  ASSERT_EQ(replies.size(), 1U);
  ASSERT_EQ(streams.size(), 1U);
  EXPECT_FALSE(streams[0]->write("too late"));
  replies[0].send({.body = "too late"});
}

TEST(Server, StreamsEventsUntilTheHandlerCloses) {
  const Harbour harbour([](const Request& request, Reply reply) {
    EXPECT_EQ(request.last_event_id, "7");
    const auto stream = reply.stream({.content_type = "text/event-stream"});
    EXPECT_TRUE(stream->write(sse_text({.id = "8", .event = "waiting", .data = "{\"a\":1}"})));
    EXPECT_TRUE(stream->write(sse_text({.id = "9", .event = "granted", .data = "two\nlines"})));
  });
  std::vector<SseEvent> events;
  Client client = harbour.client();
  const Result<Response> answer = client.stream({.target = "/v1/leases/l-1/events",
                                                 .last_event_id = "7",
                                                 .on_event = [&events](const SseEvent& event) {
                                                   events.push_back(event);
                                                   return true;
                                                 }});
  ASSERT_TRUE(answer.ok()) << answer.error().to_string();
  EXPECT_EQ(answer->status, 200);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].id, "8");
  EXPECT_EQ(events[0].event, "waiting");
  EXPECT_EQ(events[0].data, "{\"a\":1}");
  EXPECT_EQ(events[1].data, "two\nlines");
}

TEST(Server, TellsWhenAWaitingClientDies) {
  std::atomic<bool> gone = false;
  std::atomic<bool> asked = false;
  std::mutex mutex;
  std::vector<Reply> waiting;
  const Harbour harbour([&](const Request&, Reply reply) {
    reply.on_gone([&gone] { gone = true; });
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(reply));
    asked = true;
  });
  RawClient client(harbour.socket());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  EXPECT_FALSE(gone);
  client.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST(Server, StoppingAnswersWhatWaitsWith503) {
  std::mutex mutex;
  std::vector<Reply> waiting;
  std::atomic<bool> asked = false;
  Harbour harbour([&](const Request&, Reply reply) {
    reply.on_gone([] { ADD_FAILURE() << "a stop is no wish of the client's"; });
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(reply));
    asked = true;
  });
  RawClient client(harbour.socket());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  harbour.server().stop();
  const std::string answer = client.receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_TRUE(answer.contains("not-ready")) << answer;
}

TEST(Server, AReloadWhileItStopsOrAfterwardsEndsAndIsRefused) {
  Harbour harbour([](const Request&, Reply reply) { reply.send({}); });
  std::atomic<bool> reloaded = false;
  std::thread reloads([&] {
    while (harbour.server().reload().ok())
      reloaded = true;
  });
  EXPECT_TRUE(eventually([&] { return reloaded.load(); }));
  harbour.server().stop();
  reloads.join();
  const Result<void> late = harbour.server().reload();
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), ErrorCode::unavailable);
}

}  // namespace
}  // namespace berth::net
