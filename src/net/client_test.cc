#include "net/client.h"

#include <list>
#include <sys/eventfd.h>
#include <vector>

#include <gtest/gtest.h>

#include "net/net_test_support.h"

namespace berth::net {
namespace {

// A server of a few bytes: answers each connection with the next text and closes it.
class Parrot {
 public:
  explicit Parrot(std::vector<std::string> texts) : texts_(std::move(texts)) {
    const sockaddr_un name = unix_name(path());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(fd_.get(), 16), 0);
    thread_ = std::thread([this] {
      for (const std::string& text : texts_) {
        const Descriptor client(::accept(fd_.get(), nullptr, nullptr));
        char buffer[4096];
        if (::recv(client.get(), buffer, sizeof buffer, 0) < 0) return;
        ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
      }
    });
  }
  ~Parrot() {
    ::shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  Parrot(const Parrot&) = delete;
  Parrot& operator=(const Parrot&) = delete;

  std::string path() const { return folder_.file("parrot.sock"); }
  Client client(ClientOptions options = {}) const {
    return Client::connect("unix:" + path(), std::move(options)).value();
  }

 private:
  TempFolder folder_;
  std::vector<std::string> texts_;
  Descriptor fd_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::thread thread_;
};

TEST(Client, SaysThatNoDaemonListensAndWhatToDo) {
  const TempFolder folder;
  const Result<Client> client = Client::connect("unix:" + folder.file("none.sock"));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), ErrorCode::unavailable);
  EXPECT_EQ(client.error().message(),
            "no daemon listens on " + folder.file("none.sock") + ": start one with `berth serve`");
}

TEST(Client, SaysThatNothingAnswersOverTcp) {
  const Result<Client> client = Client::connect("http://127.0.0.1:1");
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(client.error().message().contains("http://127.0.0.1:1")) << client.error().message();
  EXPECT_TRUE(client.error().message().contains("check address and port"));
}

TEST(Client, ReadsBodiesOfEveryFraming) {
  Parrot parrot(
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nabcde",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
       "HTTP/1.0 200 OK\r\n\r\nabcde",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"});
  for (int i = 0; i < 4; ++i) {
    const Result<Response> answer = parrot.client().call({});
    ASSERT_TRUE(answer.ok()) << i << answer.error().to_string();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "abcde") << i;
  }
}

TEST(Client, FindsHeadersWhateverTheirCase) {
  Parrot parrot({"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nretry-after: 3\r\n\r\n"});
  const Result<Response> answer = parrot.client().call({});
  ASSERT_TRUE(answer.ok());
  ASSERT_NE(answer->header("Retry-After"), nullptr);
  EXPECT_EQ(*answer->header("Retry-After"), "3");
  EXPECT_EQ(answer->header("X-None"), nullptr);
}

TEST(Client, AnAnswerThatIsCutOffOrNoneIsAnError) {
  Parrot parrot({"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "hello\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "HTTP/1.1 200"});
  for (int i = 0; i < 5; ++i) {
    const Result<Response> answer = parrot.client().call({.method = "POST"});
    ASSERT_FALSE(answer.ok()) << i;
    EXPECT_EQ(answer.error().code(), ErrorCode::unavailable) << answer.error().message();
  }
}

TEST(Client, AnAnswerThatIsTooLongIsGivenUp) {
  Parrot parrot({"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + std::string(500, 'x')});
  const Result<Response> answer = parrot.client({.body_limit = 499}).call({});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::exhausted);
}

TEST(Client, KeepsItsDeadline) {
  std::list<Reply> waiting;
  const Harbour harbour([&](const Request&, Reply reply) { waiting.push_back(std::move(reply)); });
  Client client = harbour.client();
  const std::int64_t begin = now_ms();
  const Result<Response> answer = client.call({.timeout = Duration(50)});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::exhausted);
  EXPECT_GE(now_ms() - begin, 50);
  EXPECT_FALSE(client.interrupted());
}

TEST(Client, IsInterruptedByItsDescriptor) {
  std::list<Reply> waiting;
  const Descriptor wake(::eventfd(0, EFD_CLOEXEC));
  const Harbour harbour([&](const Request&, Reply reply) {
    waiting.push_back(std::move(reply));
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(wake.get(), &one, sizeof one), 8);
  });
  Client client = harbour.client({.interrupt_fd = wake.get()});
  const Result<Response> answer = client.call({});
  ASSERT_FALSE(answer.ok());
  EXPECT_TRUE(client.interrupted());
  const Result<Response> stream = client.stream({.on_event = [](auto&) { return true; }});
  ASSERT_FALSE(stream.ok());
  EXPECT_TRUE(client.interrupted());
}

TEST(Client, ConnectsAgainWhenTheServerHasBeenRestarted) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const ServerOptions options{.listen = {"unix:" + folder.file("a.sock")}};
  auto server = Server::start(options, handler).value();
  Client client = Client::connect("unix:" + folder.file("a.sock")).value();
  ASSERT_TRUE(client.call({}).ok());
  server->stop();
  EXPECT_FALSE(client.call({}).ok());
  server = Server::start(options, handler).value();
  EXPECT_TRUE(client.call({.method = "POST"}).ok());
}

TEST(Client, RefusesWhatWouldBreakOutOfItsLine) {
  Harbour harbour(answer_ok);
  Client client = harbour.client();
  EXPECT_FALSE(client.call({.target = "/a b"}).ok());
  EXPECT_FALSE(client.call({.target = "/a\r\nX: y"}).ok());
  EXPECT_FALSE(client.call({.target = "a"}).ok());
  EXPECT_FALSE(client.call({.method = "GET /"}).ok());
  EXPECT_FALSE(client.call({.headers = {{"X", "a\r\nY: b"}}}).ok());
  EXPECT_TRUE(client.call({.target = "/a%20b"}).ok());
  EXPECT_EQ(harbour.server().counts().requests, 1U);
}

TEST(Client, StopsAStreamWhenItsReaderHasEnough) {
  std::atomic<int> gone = 0;
  std::shared_ptr<Stream> stream;
  Harbour harbour([&](const Request&, Reply reply) {
    reply.on_gone([&] { ++gone; });
    stream = reply.stream({.content_type = "text/event-stream"});
    stream->write("data: a\n\ndata: b\n\n");
  });
  int seen = 0;
  const Result<Response> answer = harbour.client().stream({.on_event = [&](const SseEvent&) {
    ++seen;
    return false;
  }});
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(eventually([&] { return gone == 1; })) << "the server learns of it";
  EXPECT_FALSE(stream->open());
  harbour.server().stop();
}

TEST(Client, AStreamThatIsRefusedComesBackWhole) {
  const Harbour harbour(
      [](const Request&, Reply reply) { reply.send({.status = 404, .body = R"({"error":{}})"}); });
  const Result<Response> answer = harbour.client().stream({.on_event = [](const SseEvent&) {
    ADD_FAILURE();
    return true;
  }});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, R"({"error":{}})");
}

TEST(Client, TicksWhileAStreamIsSilent) {
  std::shared_ptr<Stream> stream;
  Harbour harbour([&](const Request&, Reply reply) {
    stream = reply.stream({.content_type = "text/event-stream"});
  });
  int ticks = 0;
  const Result<Response> answer = harbour.client().stream({.on_event = [](auto&) { return true; },
                                                           .on_tick = [&] { return ++ticks < 3; },
                                                           .tick = Duration(10)});
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(ticks, 3);
  harbour.server().stop();
}

TEST(Client, AServerThatFallsSilentIsTakenForDead) {
  std::shared_ptr<Stream> stream;
  Harbour harbour(
      [&](const Request&, Reply reply) {
        stream = reply.stream({.content_type = "text/event-stream"});
      },
      {.heartbeat = Duration(0)});
  const Result<Response> answer =
      harbour.client().stream({.on_event = [](auto&) { return true; }, .silence = Duration(40)});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::exhausted);
  harbour.server().stop();
}

}  // namespace
}  // namespace berth::net
