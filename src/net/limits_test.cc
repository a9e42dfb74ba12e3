// Slow, greedy and silent clients, and too many of them.
#include <ctime>
#include <fcntl.h>
#include <list>
#include <mutex>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <vector>

#include <gtest/gtest.h>

#include "net/net_test_support.h"

namespace berth::net {
namespace {

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(Limits, ACutOffForSendingItsHeaderTooSlowly) {
  Harbour harbour(answer_ok, {.header_timeout = Duration(60)});
  RawClient client(harbour.socket());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nX-Slow");
  const std::string answer = client.receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
  EXPECT_EQ(harbour.server().counts().cut_off, 1U);
}

TEST(Limits, ADripOfBytesDoesNotExtendTheTimeForAHeader) {
  Harbour harbour(answer_ok, {.header_timeout = Duration(80)});
  RawClient client(harbour.socket());
  client.send("GET / HTTP/1.1\r\nX-Slow: ");
  const bool ended = eventually([&] {
    client.send("a");
    return harbour.server().counts().cut_off == 1;
  });
  EXPECT_TRUE(ended);
}

TEST(Limits, ABodyThatDoesNotComeEndsTheConnection) {
  Harbour harbour(answer_ok, {.body_timeout = Duration(60)});
  RawClient client(harbour.socket());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(client.receive().starts_with("HTTP/1.1 408 "));
}

TEST(Limits, AnIdleConnectionIsClosedAndTheClientConnectsAnew) {
  Harbour harbour(answer_ok, {.idle_timeout = Duration(40)});
  Client client = harbour.client();
  ASSERT_TRUE(client.call({}).ok());
  ASSERT_TRUE(eventually([&] { return harbour.server().counts().connections == 0; }));
  const Result<Response> again = client.call({.method = "POST"});
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(harbour.server().counts().accepted, 2U);
}

TEST(Limits, AClientThatSaysNothingIsClosed) {
  const Harbour harbour(answer_ok, {.header_timeout = Duration(40)});
  RawClient client(harbour.socket());
  EXPECT_TRUE(client.is_closed());
}

TEST(Limits, WaitingForAnAnswerHasNoTimeout) {
  std::mutex mutex;
  std::vector<Reply> waiting;
  Harbour harbour(
      [&](const Request&, Reply reply) {
        const std::lock_guard lock(mutex);
        waiting.push_back(std::move(reply));
      },
      {.idle_timeout = Duration(20), .header_timeout = Duration(20), .body_timeout = Duration(20)});
  RawClient client(harbour.socket());
  client.send(kGet);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  EXPECT_EQ(harbour.server().counts().connections, 1U);
  {
    const std::lock_guard lock(mutex);
    ASSERT_EQ(waiting.size(), 1U);
    waiting.front().send({.body = "at last"});
  }
  EXPECT_TRUE(client.receive("at last").ends_with("at last"));
}

TEST(Limits, AStreamThatIsNeverReadIsCutOffAndItsHandlerTold) {
  std::atomic<bool> gone = false;
  std::atomic<std::size_t> written = 0;
  std::thread writer;
  Harbour harbour(
      [&](const Request&, Reply reply) {
        reply.on_gone([&gone] { gone = true; });
        writer = std::thread([&, stream = reply.stream({.content_type = "text/plain"})] {
          while (stream->write(std::string(1024, 'x'))) {
            written += 1024;
          }
          EXPECT_FALSE(stream->open());
          EXPECT_EQ(stream->room(), 0U);
        });
      },
      {.stream_buffer = std::size_t{64} * 1024});
  RawClient client(harbour.socket());
  client.send(kGet);
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  writer.join();
  // What the kernel holds comes on top of our bound; it is some hundred KiB.
  EXPECT_LT(written, std::size_t{8} * 1024 * 1024);
  EXPECT_EQ(harbour.server().counts().cut_off, 1U);
  EXPECT_TRUE(eventually([&] { return harbour.server().counts().connections == 0; }));
}

TEST(Limits, AStreamThatIsReadSlowlyButSteadilyIsNotCutOff) {
  constexpr std::size_t kTotal = std::size_t{2} * 1024 * 1024;
  std::thread writer;
  Harbour harbour(
      [&](const Request&, Reply reply) {
        writer = std::thread([stream = reply.stream({.content_type = "text/plain"})] {
          for (std::size_t sent = 0; sent < kTotal && stream->open();) {
            if (stream->room() < 4096) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
              continue;
            }
            EXPECT_TRUE(stream->write(std::string(4096, 'x')));
            sent += 4096;
          }
        });
      },
      {.stream_buffer = std::size_t{16} * 1024});
  std::size_t got = 0;
  Client client = harbour.client();
  const Result<Response> answer = client.stream({.on_chunk = [&](std::string_view chunk) {
    got += chunk.size();
    if (got % 65536 < chunk.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }});
  writer.join();
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(got, kTotal);
}

TEST(Limits, AnAnswerThatIsNotTakenIsGivenUp) {
  Harbour harbour(
      [](const Request&, Reply reply) { reply.send({.body = std::string(8'000'000, 'x')}); },
      {.write_timeout = Duration(80)});
  RawClient client(harbour.socket());
  client.send(kGet);
  EXPECT_TRUE(eventually([&] { return harbour.server().counts().cut_off == 1; }));
  EXPECT_TRUE(eventually([&] { return harbour.server().counts().connections == 0; }));
}

TEST(Limits, AnEventStreamGetsACommentNowAndThen) {
  std::shared_ptr<Stream> stream;
  Harbour harbour(
      [&](const Request&, Reply reply) {
        stream = reply.stream({.content_type = "text/event-stream; charset=utf-8"});
      },
      {.heartbeat = Duration(20)});
  RawClient client(harbour.socket());
  client.send(kGet);
  const std::string two = client.receive("keep-alive\n\n\r\ne\r\n: keep-alive\n\n");
  EXPECT_TRUE(two.contains("e\r\n: keep-alive\n\n\r\ne\r\n: keep-alive\n\n")) << two;
  harbour.server().stop();
}

TEST(Limits, AHalfClosedClientOfAUnixSocketStillWaits) {
  std::atomic<bool> gone = false;
  std::mutex mutex;
  std::vector<Reply> waiting;
  Harbour harbour([&](const Request&, Reply reply) {
    reply.on_gone([&gone] { gone = true; });
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(reply));
  });
  RawClient client(harbour.socket());
  client.send(kGet);
  client.half_close();
  ASSERT_TRUE(eventually([&] { return harbour.server().counts().requests == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(gone);
  {
    const std::lock_guard lock(mutex);
    ASSERT_EQ(waiting.size(), 1U);
    waiting.front().send({.body = "answered"});
  }
  EXPECT_TRUE(client.receive().ends_with("answered"));
  EXPECT_FALSE(gone);
}

TEST(Limits, BeyondTheMostConnectionsClientsGet503AndOthersWorkOn) {
  Harbour harbour(answer_ok, {.max_connections = 3});
  std::vector<Client> served;
  for (int i = 0; i < 3; ++i) {
    served.push_back(harbour.client());
    ASSERT_TRUE(served.back().call({}).ok());
  }
  RawClient fourth(harbour.socket());
  fourth.send(kGet);
  const std::string answer = fourth.receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_TRUE(answer.contains("Retry-After: ")) << answer;
  for (Client& client : served) {
    EXPECT_TRUE(client.call({}).ok());
  }
  served.pop_back();
  ASSERT_TRUE(eventually([&] { return harbour.server().counts().connections == 2; }));
  EXPECT_EQ(harbour.client().call({})->status, 200);
}

// Sets the soft limit of open files for a scope; not beyond the hard one.
class FileLimit {
 public:
  explicit FileLimit(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = std::min(most, before_.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &now);
    soft_ = now.rlim_cur;
  }
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  std::size_t soft() const { return soft_; }

 private:
  rlimit before_{};
  std::size_t soft_ = 0;
};

TEST(Limits, TenThousandConnectionsLeaveThoseThatAreServedAlone) {
  const FileLimit files(24'000);
  // Both ends of each connection are ours.
  const std::size_t flood = std::min<std::size_t>(10'000, (files.soft() - 600) / 2);
  Harbour harbour(answer_ok, {.max_connections = flood / 2});
  Client early = harbour.client();
  ASSERT_TRUE(early.call({}).ok());
  std::list<RawClient> clients;
  for (std::size_t i = 0; i < flood; ++i) {
    clients.emplace_back(harbour.socket());
    ASSERT_TRUE(clients.back().connected()) << i;
    if (i % 1000 == 0) {
      EXPECT_TRUE(early.call({}).ok()) << i;
    }
  }
  EXPECT_TRUE(eventually([&] { return harbour.server().counts().accepted == flood + 1; }));
  EXPECT_EQ(harbour.server().counts().connections, flood / 2);
  EXPECT_EQ(harbour.server().counts().refused, flood + 1 - flood / 2);
  EXPECT_TRUE(early.call({}).ok());
  clients.clear();
  EXPECT_TRUE(eventually([&] { return harbour.server().counts().connections == 1; }));
  EXPECT_EQ(harbour.client().call({})->status, 200);
}

TEST(Limits, WithoutDescriptorsClientsAreTurnedAwayAndThoseThatAreServedWorkOn) {
  Harbour harbour(answer_ok);
  Client early = harbour.client();
  ASSERT_TRUE(early.call({}).ok());
  // Sockets that are there before descriptors run out, to be connected afterwards.
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 20; ++i) {
    sockets.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  {
    const FileLimit few(static_cast<rlim_t>(sockets.back().get() + 1));
    std::vector<Descriptor> rest;
    for (int fd = 0; (fd = ::fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0;) {
      rest.emplace_back(fd);
    }
    const sockaddr_un name = unix_name(harbour.socket());
    for (const Descriptor& socket : sockets) {
      ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
      char byte = 0;
      EXPECT_LE(::recv(socket.get(), &byte, 1, 0), 0) << "turned away";
    }
    EXPECT_TRUE(early.call({}).ok()) << "who is served already works on";
  }
  EXPECT_EQ(harbour.server().counts().refused, 20U);
  EXPECT_EQ(harbour.client().call({})->status, 200);
}

std::int64_t processor_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

TEST(Limits, WithNotOneDescriptorTheServerLooksAwayInsteadOfSpinning) {
  Harbour harbour(answer_ok, {.stop_grace = Duration(80)});  // a round each 20 ms
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval ten{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &ten, sizeof ten);
  const sockaddr_un name = unix_name(harbour.socket());
  {
    const FileLimit none(3);  // below the server's spare one, too
    const std::int64_t before = processor_ms();
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_LT(processor_ms() - before, 100);
    EXPECT_EQ(harbour.server().counts().accepted, 0U);
  }
  EXPECT_EQ(::send(socket.get(), kGet.data(), kGet.size(), 0), static_cast<ssize_t>(kGet.size()));
  char buffer[256] = "";
  EXPECT_GT(::recv(socket.get(), buffer, sizeof buffer - 1, 0), 0) << "served when there is one";
  EXPECT_TRUE(std::string_view(buffer).starts_with("HTTP/1.1 200 ")) << buffer;
}

TEST(Limits, TheSoftLimitOfOpenFilesCanBeRaisedAndBoundsConnections) {
  const FileLimit few(1024);
  FunctionHandler handler(answer_ok);
  const TempFolder folder;
  const ServerOptions options{.listen = {"unix:" + folder.file("a.sock")}, .max_connections = 1000};
  EXPECT_EQ(Server::start(options, handler).value()->counts().most_connections, 1024U - 128U);
  EXPECT_EQ(raise_open_files(2048), 1024U);
  EXPECT_EQ(Server::start(options, handler).value()->counts().most_connections, 1000U);
}

TEST(Limits, OneUserCannotTakeAllConnections) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  TempFolder folder;
  ASSERT_EQ(::chmod(std::filesystem::path(folder.file("x")).parent_path().c_str(), 0755), 0);
  const std::string path = folder.file("berth.sock");
  FunctionHandler handler([](const Request& request, Reply reply) {
    reply.send({.body = request.caller.admin ? "admin" : "user"});
  });
  const auto server = Server::start(
      {.listen = {"unix:" + path}, .max_connections = 100, .max_connections_per_user = 2}, handler);
  ASSERT_TRUE(server.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(9);
    RawClient first(path);
    RawClient second(path);
    RawClient third(path);
    const bool served = first.send(kGet) && first.receive("user").ends_with("user") &&
                        second.send(kGet) && second.receive("user").ends_with("user");
    const bool refused = third.receive().starts_with("HTTP/1.1 503 ");
    ::_exit(served && refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  Client mine = Client::connect("unix:" + path).value();
  EXPECT_EQ(mine.call({})->body, "admin");
}

}  // namespace
}  // namespace berth::net
