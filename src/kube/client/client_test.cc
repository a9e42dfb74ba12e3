#include "kube/client/client.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/client/wire_server_test_support.h"

namespace berth::kube {
namespace {

using testing::HasSubstr;
using testing::Not;
using Reply = WireServer::Reply;
using Then = WireServer::Then;

// What a callback was given, kept beyond it.
struct Heard {
  int times = 0;
  Outcome outcome = Outcome::not_sent;
  int status = 0;
  std::string body;
  std::string problem;
  std::optional<Duration> retry_after;

  Answered note() {
    return [this](const Answer& answer) {
      ++times;
      outcome = answer.outcome;
      status = answer.status;
      body = answer.body;
      problem = answer.problem;
      retry_after = answer.retry_after;
    };
  }
};

struct KubeClient : testing::Test {
  void serve(WireServer::Handler handler) {
    server = std::make_unique<WireServer>(std::move(handler));
    access.server = server->url();
    access.origin = "the test";
  }

  Client& client() {
    if (its == nullptr) its = std::move(Client::make(access, options)).value();
    return *its;
  }

  // Until the condition holds; the test fails after 20 s.
  void until(const std::function<bool()>& done) {
    const Time end = machine_clock().now() + Duration(20'000);
    while (!done() && machine_clock().now() < end)
      client().turn(Duration(50));
    ASSERT_TRUE(done());
  }

  void run(Duration time) {
    const Time end = machine_clock().now() + time;
    while (machine_clock().now() < end)
      client().turn(Duration(20));
  }

  std::unique_ptr<WireServer> server;
  Access access;
  ClientOptions options{.user_agent = "berth-test", .seed = 1};
  std::unique_ptr<Client> its;
  Heard heard;
};

TEST_F(KubeClient, SendsAWriteAndHearsTheAnswer) {
  serve(
      [](std::size_t, const std::string&) { return Reply{WireServer::answer(201, "{\"a\":1}")}; });
  access.identity.token = "sesame";
  access.identity.as_user = "someone";
  client().call({.method = Method::patch,
                 .path = "/api/v1/x?y=1",
                 .body = "{\"status\":{}}",
                 .content = Content::strategic_merge_patch,
                 .lane = Lane::write},
                heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.status, 201);
  EXPECT_EQ(heard.body, "{\"a\":1}");
  const std::string request = server->requests().at(0);
  EXPECT_THAT(request, testing::StartsWith("PATCH /api/v1/x?y=1 HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/strategic-merge-patch+json\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer sesame\r\n"));
  EXPECT_THAT(request, HasSubstr("Impersonate-User: someone\r\n"));
  EXPECT_THAT(request, HasSubstr("Accept-Encoding: identity\r\n"));
  EXPECT_THAT(request, HasSubstr("User-Agent: berth-test\r\n"));
  EXPECT_THAT(request, testing::EndsWith("\r\n\r\n{\"status\":{}}"));
}

TEST_F(KubeClient, UsesAConnectionAgain) {
  serve([](std::size_t, const std::string&) { return Reply{WireServer::answer(200, "x")}; });
  for (int i = 1; i <= 5; ++i) {
    client().call({.path = "/"}, heard.note());
    until([&] { return heard.times == i; });
  }
  EXPECT_EQ(client().figures().connections, 1U);
}

// libcurl by itself would send such a request a second time.
TEST_F(KubeClient, DoesNotRepeatAWriteWhoseConnectionBroke) {
  serve([](std::size_t n, const std::string&) {
    return n == 0 ? Reply{WireServer::answer(200, "x")} : Reply{.then = Then::close};
  });
  client().call({.path = "/", .lane = Lane::write}, heard.note());
  until([this] { return heard.times == 1; });
  client().call({.method = Method::post, .path = "/", .body = "b", .lane = Lane::write},
                heard.note());
  until([this] { return heard.times == 2; });
  EXPECT_EQ(heard.outcome, Outcome::unknown);
  EXPECT_THAT(heard.problem, HasSubstr("the connection to http://127.0.0.1:"));
  run(Duration(300));
  EXPECT_EQ(server->requests().size(), 2U);
}

TEST_F(KubeClient, TellsWhatNeverLeftFromWhatMayHaveArrived) {
  serve([](std::size_t, const std::string&) {
    return Reply{.bytes = "HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\nhalf", .then = Then::close};
  });
  client().call({.method = Method::post, .path = "/", .body = "b", .lane = Lane::write},
                heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.outcome, Outcome::unknown);

  const std::string gone = server->url();
  server.reset();
  client().call({.method = Method::post, .path = "/", .body = "b", .lane = Lane::lease},
                heard.note());
  until([this] { return heard.times == 2; });
  EXPECT_EQ(heard.outcome, Outcome::not_sent);
  EXPECT_THAT(heard.problem, HasSubstr(gone + " cannot be reached: "));
  EXPECT_THAT(heard.problem, HasSubstr("check the address in the test and the network"));
}

TEST_F(KubeClient, TriesAgainWhatMayBeDoneTwiceAndNothingElse) {
  serve([](std::size_t n, const std::string&) {
    if (n == 0) return Reply{WireServer::answer(429, "{}", "Retry-After: 1\r\n")};
    if (n == 1) return Reply{WireServer::answer(503, "{}")};
    if (n == 2) return Reply{.then = Then::close};
    return Reply{WireServer::answer(n == 3 ? 200 : 500, "fine")};
  });
  const Time begin = machine_clock().now();
  client().call({.path = "/", .retry = Retry::idempotent}, heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(server->requests().size(), 4U);
  // A read whose connection broke is repeated at once, by libcurl.
  EXPECT_EQ(client().figures().retries, 2U);
  EXPECT_GE((machine_clock().now() - begin).count(), 1'000 + 1'600);
  client().call({.path = "/"}, heard.note());
  until([this] { return heard.times == 2; });
  EXPECT_EQ(heard.status, 500);
  EXPECT_EQ(server->requests().size(), 5U);
}

TEST_F(KubeClient, AsksTheFenceBeforeEveryTry) {
  std::atomic<bool> open = true;
  serve([&open](std::size_t, const std::string&) {
    open = false;
    return Reply{WireServer::answer(503, "{}")};
  });
  client().call({.method = Method::patch,
                 .path = "/",
                 .body = "b",
                 .lane = Lane::write,
                 .retry = Retry::idempotent,
                 .may_start = [&open] { return open.load(); }},
                heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.outcome, Outcome::not_sent);
  EXPECT_EQ(heard.problem, kNotOurs);
  EXPECT_EQ(server->requests().size(), 1U);
}

TEST_F(KubeClient, AsksTheFenceWhenTheConnectionStandsAndTheBodyIsAboutToLeave) {
  serve([](std::size_t, const std::string&) { return Reply{WireServer::answer(200, "x")}; });
  int asked = 0;
  client().call({.method = Method::post,
                 .path = "/",
                 .body = "b",
                 .lane = Lane::write,
                 .may_start = [&asked] { return ++asked < 2; }},
                heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.outcome, Outcome::not_sent);
  EXPECT_EQ(asked, 2);
  run(Duration(200));
  EXPECT_TRUE(server->requests().empty()) << "no whole request arrived";
}

TEST_F(KubeClient, PassesOnWhenTheServerWantsToBeAskedAgain) {
  serve([](std::size_t, const std::string&) {
    return Reply{WireServer::answer(429, "{}", "Retry-After: 7\r\n")};
  });
  client().call({.path = "/"}, heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.retry_after, Duration(7'000));
}

TEST_F(KubeClient, EndsACallAfterItsTimeAndLeavesASilentConnection) {
  serve([](std::size_t n, const std::string&) {
    return n == 0 ? Reply{.then = Then::keep_still} : Reply{WireServer::answer(200, "x")};
  });
  client().call({.method = Method::put,
                 .path = "/",
                 .body = "b",
                 .lane = Lane::lease,
                 .timeout = Duration(300)},
                heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_EQ(heard.outcome, Outcome::unknown);
  EXPECT_THAT(heard.problem, HasSubstr("gave no answer in time"));
  client().call({.path = "/", .lane = Lane::lease}, heard.note());
  until([this] { return heard.times == 2; });
  EXPECT_EQ(heard.status, 200);
}

TEST_F(KubeClient, ForgetsWhatIsCancelled) {
  serve([](std::size_t, const std::string&) { return Reply{.then = Then::keep_still}; });
  const CallId sent = client().call({.path = "/"}, heard.note());
  run(Duration(100));
  client().cancel(sent);
  const CallId unsent = client().call({.path = "/"}, heard.note());
  client().cancel(unsent);
  client().cancel(unsent);
  run(Duration(200));
  EXPECT_EQ(heard.times, 0);
  EXPECT_EQ(server->requests().size(), 1U);
}

TEST_F(KubeClient, ACallbackMayCallAndCancel) {
  serve([](std::size_t, const std::string&) { return Reply{WireServer::answer(200, "x")}; });
  const CallId victim = client().call({.path = "/victim", .lane = Lane::write}, heard.note());
  Heard second;
  client().call({.path = "/first"}, [&](const Answer&) {
    client().cancel(victim);
    client().call({.path = "/second"}, second.note());
  });
  until([&] { return second.times == 1; });
  EXPECT_EQ(second.status, 200);
}

struct Pieces : StreamSink {
  void on_bytes(std::string_view bytes) override {
    text += bytes;
    if (then) then();
  }
  void on_end(const Answer& answer) override {
    ++ends;
    outcome = answer.outcome;
    status = answer.status;
    refusal = answer.body;
  }
  std::string text;
  std::string refusal;
  std::function<void()> then;
  int ends = 0;
  int status = 0;
  Outcome outcome = Outcome::not_sent;
};

TEST_F(KubeClient, StreamsPiecesAsTheyCome) {
  serve([](std::size_t, const std::string&) {
    return Reply{.bytes =
                     "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "5\r\nhello\r\n",
                 .then = Then::keep_still};
  });
  Pieces pieces;
  const CallId stream = client().stream({.path = "/w"}, pieces);
  until([&] { return pieces.text == "hello"; });
  EXPECT_EQ(pieces.ends, 0);
  client().cancel(stream);
  run(Duration(100));
  EXPECT_EQ(pieces.ends, 0);
}

TEST_F(KubeClient, AStreamMayBeCancelledFromWithin) {
  serve([](std::size_t, const std::string&) {
    return Reply{WireServer::answer(200, std::string(200'000, 'x'))};
  });
  Pieces pieces;
  const CallId stream = client().stream({.path = "/w"}, pieces);
  pieces.then = [&] { client().cancel(stream); };
  until([&] { return !pieces.text.empty(); });
  run(Duration(200));
  EXPECT_EQ(pieces.ends, 0);
  EXPECT_LT(pieces.text.size(), 200'000U);
}

TEST_F(KubeClient, AStreamThatIsRefusedHasABody) {
  serve([](std::size_t, const std::string&) { return Reply{WireServer::answer(410, "gone")}; });
  Pieces pieces;
  client().stream({.path = "/w"}, pieces);
  until([&] { return pieces.ends == 1; });
  EXPECT_EQ(pieces.status, 410);
  EXPECT_EQ(pieces.refusal, "gone");
  EXPECT_EQ(pieces.text, "");
}

TEST_F(KubeClient, AStreamThatBreaksOffIsOfUnknownOutcome) {
  serve([](std::size_t, const std::string&) {
    return Reply{.bytes = "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
                 .then = Then::close};
  });
  Pieces pieces;
  client().stream({.path = "/w"}, pieces);
  until([&] { return pieces.ends == 1; });
  EXPECT_EQ(pieces.outcome, Outcome::unknown);
  EXPECT_EQ(pieces.text, "hel");
}

TEST_F(KubeClient, GivesUpAConnectionThatGivesNoSignOfLife) {
  options.silence = Duration(200);
  options.patience = Duration(200);
  serve([](std::size_t n, const std::string&) {
    return n == 0 ? Reply{.bytes = "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n",
                          .then = Then::keep_still}
                  : Reply{.then = Then::keep_still};
  });
  Pieces pieces;
  client().stream({.path = "/w"}, pieces);
  until([&] { return pieces.ends == 1; });
  EXPECT_EQ(pieces.outcome, Outcome::unknown);
  EXPECT_EQ(client().figures().lost_lanes, 1U);
  EXPECT_THAT(server->requests().at(1), testing::StartsWith("GET /version "));
}

TEST_F(KubeClient, TakesWordFromOtherThreads) {
  serve([](std::size_t, const std::string&) { return Reply{WireServer::answer(200, "x")}; });
  client().turn(Duration(0));
  std::thread other(
      [this] { client().post([this] { client().call({.path = "/"}, heard.note()); }); });
  const Time begin = machine_clock().now();
  while (heard.times == 0)
    client().turn(Duration(10'000));
  other.join();
  EXPECT_LT((machine_clock().now() - begin).count(), 5'000);
}

TEST_F(KubeClient, NeverShowsASecret) {
  serve([](std::size_t, const std::string&) { return Reply{.then = Then::close}; });
  access.identity.token = "sesame-open";
  client().call({.method = Method::post, .path = "/", .body = "sesame-body"}, heard.note());
  until([this] { return heard.times == 1; });
  EXPECT_THAT(heard.problem, Not(HasSubstr("sesame")));
}

}  // namespace
}  // namespace berth::kube
