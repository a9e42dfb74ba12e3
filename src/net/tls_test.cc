// TCP: TLS, tokens, and their replacement while the server runs.
#include <arpa/inet.h>
#include <fstream>
#include <list>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "net/net_test_support.h"
#include "net/target.h"
#include "net/token.h"

namespace berth::net {
namespace {

// Certificates that vouch for themselves, made once by the tool openssl.
class Certificates {
 public:
  static const Certificates& get() {
    static const Certificates all;
    return all;
  }

  std::string certificate() const { return folder_.file("server.crt"); }
  std::string key() const { return folder_.file("server.key"); }
  std::string other_certificate() const { return folder_.file("other.crt"); }
  std::string other_key() const { return folder_.file("other.key"); }

 private:
  Certificates() {
    make("server", "DNS:localhost,IP:127.0.0.1");
    make("other", "DNS:elsewhere.example");
  }

  void make(const std::string& name, const std::string& names) const {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "/CN=berth-test -addext subjectAltName=" +
        names + " -keyout " + folder_.file(name + ".key") + " -out " + folder_.file(name + ".crt") +
        " 2>" + folder_.file(name + ".log");
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }

  TempFolder folder_;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
  ::chmod(path.c_str(), 0600);
}

// A server on TCP with a token file of its own.
class TcpHarbour {
 public:
  explicit TcpHarbour(FunctionHandler::Function function, ServerOptions options = {},
                      bool plain = false)
      : handler_(std::move(function)) {
    write_file(token_file(), user_.line + admin_.line);
    options.listen = {"127.0.0.1:0"};
    options.token_file = token_file();
    options.allow_plain_loopback = plain;
    if (!plain) {
      options.certificate_file = folder_.file("crt");
      options.key_file = folder_.file("key");
      std::filesystem::copy_file(Certificates::get().certificate(), options.certificate_file);
      std::filesystem::copy_file(Certificates::get().key(), options.key_file);
    }
    auto started = Server::start(std::move(options), handler_);
    if (!started.ok()) ADD_FAILURE() << started.error().to_string();
    if (started.ok()) server_ = std::move(started).value();
  }

  Server& server() { return *server_; }
  std::string address() const { return server_->addresses().front(); }
  std::string token_file() const { return folder_.file("tokens"); }
  std::string file(std::string_view name) const { return folder_.file(name); }
  const NewToken& user() const { return user_; }
  const NewToken& admin() const { return admin_; }

  Result<Client> connect(const std::string& token) const {
    return Client::connect(address(),
                           {.token = token, .ca_file = Certificates::get().certificate()});
  }

 private:
  TempFolder folder_;
  NewToken user_ = make_token("airflow", false).value();
  NewToken admin_ = make_token("ops", true).value();
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;
};

Descriptor tcp_socket(const std::string& address) {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(parse_url(address).value().port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  const timeval ten{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &ten, sizeof ten);
  return fd;
}

std::string exchange(const Descriptor& fd, std::string_view text) {
  ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  std::string got;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;) {
    got.append(buffer, static_cast<std::size_t>(size));
  }
  return got;
}

void who(const Request& request, Reply reply) {
  reply.send({.body = (request.caller.admin ? "admin " : "user ") + request.caller.name});
}

TEST(Tls, KnowsCallersByTheirTokens) {
  TcpHarbour harbour(who);
  EXPECT_TRUE(harbour.address().starts_with("https://127.0.0.1:"));
  Client user = harbour.connect(harbour.user().secret).value();
  Client admin = harbour.connect(harbour.admin().secret).value();
  for (int i = 0; i < 3; ++i) {
    const auto answer = user.call({});
    ASSERT_TRUE(answer.ok()) << answer.error().to_string();
    EXPECT_EQ(answer->body, "user airflow");
    EXPECT_EQ(admin.call({})->body, "admin ops");
  }
  EXPECT_EQ(harbour.server().counts().accepted, 2U) << "connections are kept";
}

TEST(Tls, CarriesLongBodiesAndStreams) {
  const TcpHarbour harbour([](const Request& request, Reply reply) {
    if (request.path == "/long") {
      reply.send({.body = request.body + std::string(1'000'000, 'z')});
      return;
    }
    const auto stream = reply.stream({.content_type = "text/event-stream"});
    for (int i = 0; i < 100; ++i) {
      stream->write(sse_text({.id = std::to_string(i), .data = std::string(1000, 'x')}));
    }
  });
  Client client = harbour.connect(harbour.user().secret).value();
  const auto answer =
      client.call({.method = "POST", .target = "/long", .body = std::string(60'000, 'y')});
  ASSERT_TRUE(answer.ok()) << answer.error().to_string();
  EXPECT_EQ(answer->body.size(), 1'060'000U);
  int events = 0;
  const auto stream = client.stream({.on_event = [&](const SseEvent& event) {
    events += event.data.size() == 1000 ? 1 : 0;
    return true;
  }});
  ASSERT_TRUE(stream.ok()) << stream.error().to_string();
  EXPECT_EQ(events, 100);
}

TEST(Tls, WithoutAKnownTokenTheAnswerIs401) {
  const TcpHarbour harbour([](const Request&, Reply reply) {
    ADD_FAILURE() << "delivered";
    reply.send({});
  });
  for (const std::string& token : {std::string(), make_token("airflow", false).value().secret}) {
    Client client = harbour.connect(token).value();
    const auto answer = client.call({.method = "POST", .body = "{}"});
    ASSERT_TRUE(answer.ok()) << answer.error().to_string();
    EXPECT_EQ(answer->status, 401);
    ASSERT_NE(answer->header("www-authenticate"), nullptr);
    EXPECT_EQ(*answer->header("WWW-Authenticate"), "Bearer realm=\"berth\"");
    EXPECT_TRUE(answer->body.contains(R"("code":"unauthenticated")")) << answer->body;
  }
}

TEST(Tls, ATokenThatIsRemovedStopsWorkingAndItsStreamsEnd) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Stream>> streams;
  std::atomic<int> gone = 0;
  TcpHarbour harbour([&](const Request& request, Reply reply) {
    if (request.path != "/events") {
      reply.send({});
      return;
    }
    reply.on_gone([&] { ++gone; });
    const std::lock_guard lock(mutex);
    streams.push_back(reply.stream({.content_type = "text/event-stream"}));
  });
  Client removed = harbour.connect(harbour.user().secret).value();
  Client kept = harbour.connect(harbour.admin().secret).value();
  EXPECT_EQ(removed.call({})->status, 200);
  const auto watch = [&](const std::string& token) {
    return std::thread([&harbour, token] {
      Client client = harbour.connect(token).value();
      EXPECT_TRUE(
          client.stream({.target = "/events", .on_event = [](auto&) { return true; }}).ok());
    });
  };
  std::thread first = watch(harbour.user().secret);
  std::thread second = watch(harbour.admin().secret);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return streams.size() == 2;
  }));
  write_file(harbour.token_file(), harbour.admin().line);
  ASSERT_TRUE(harbour.server().reload().ok());
  first.join();
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(removed.call({})->status, 401) << "on the connection that it has";
  EXPECT_EQ(kept.call({})->status, 200);
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(streams[0]->open() + streams[1]->open(), 1);
    streams.clear();
  }
  second.join();
}

TEST(Tls, ABadFileLeavesTokensAndCertificateAsTheyWere) {
  TcpHarbour harbour(who);
  write_file(harbour.token_file(), harbour.admin().line + "nonsense\n");
  const Result<void> bad_tokens = harbour.server().reload();
  ASSERT_FALSE(bad_tokens.ok());
  EXPECT_TRUE(bad_tokens.error().message().contains("tokens:2:")) << bad_tokens.error().message();
  write_file(harbour.token_file(), harbour.admin().line);
  write_file(harbour.file("crt"), "no certificate");
  const Result<void> bad_certificate = harbour.server().reload();
  ASSERT_FALSE(bad_certificate.ok());
  EXPECT_TRUE(bad_certificate.error().message().contains(harbour.file("crt")))
      << bad_certificate.error().message();
  EXPECT_EQ(harbour.connect(harbour.user().secret).value().call({})->status, 200);
}

TEST(Tls, ANewCertificateIsUsedForNewConnections) {
  TcpHarbour harbour(who);
  Client before = harbour.connect(harbour.user().secret).value();
  const auto replace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(Certificates::get().other_certificate(), harbour.file("crt"), replace);
  std::filesystem::copy_file(Certificates::get().other_key(), harbour.file("key"), replace);
  ASSERT_TRUE(harbour.server().reload().ok());
  const auto still = before.call({});
  ASSERT_TRUE(still.ok()) << still.error().to_string();
  EXPECT_EQ(still->status, 200) << "what is open stays";
  EXPECT_FALSE(harbour.connect(harbour.user().secret).ok());
}

TEST(Tls, ACertificateOfAnUnknownAuthorityIsRefusedAndTheErrorSaysWhatToDo) {
  const TcpHarbour harbour(who);
  const auto client = Client::connect(harbour.address(), {.token = harbour.user().secret});
  ASSERT_FALSE(client.ok());
  EXPECT_TRUE(client.error().message().contains("not trusted")) << client.error().message();
  EXPECT_TRUE(client.error().message().contains("authority's file")) << client.error().message();
}

TEST(Tls, ACertificateForAnotherHostIsRefused) {
  FunctionHandler handler(who);
  const TempFolder folder;
  const NewToken token = make_token("a", false).value();
  write_file(folder.file("tokens"), token.line);
  const auto server = Server::start({.listen = {"127.0.0.1:0"},
                                     .token_file = folder.file("tokens"),
                                     .certificate_file = Certificates::get().other_certificate(),
                                     .key_file = Certificates::get().other_key()},
                                    handler);
  ASSERT_TRUE(server.ok()) << server.error().to_string();
  const auto client =
      Client::connect((*server)->addresses().front(),
                      {.token = token.secret, .ca_file = Certificates::get().other_certificate()});
  ASSERT_FALSE(client.ok());
  EXPECT_TRUE(client.error().message().contains("IP address mismatch")) << client.error().message();
}

TEST(Tls, WhoSpeaksPlainHttpToItIsToldSo) {
  const TcpHarbour harbour(who);
  const std::string answer =
      exchange(tcp_socket(harbour.address()), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_TRUE(answer.contains("https://")) << answer;
}

TEST(Tls, GarbageInsteadOfAHandshakeEndsTheConnection) {
  TcpHarbour harbour(who);
  exchange(tcp_socket(harbour.address()), std::string(3000, '\x17'));
  EXPECT_TRUE(eventually([&] { return harbour.server().counts().connections == 0; }));
  EXPECT_EQ(harbour.connect(harbour.user().secret).value().call({})->status, 200);
}

TEST(Tls, AHandshakeThatStandsStillIsGivenUp) {
  TcpHarbour harbour(who, {.header_timeout = Duration(60)});
  EXPECT_EQ(exchange(tcp_socket(harbour.address()), "\x16\x03\x01"), "");
}

TEST(Tcp, PlainIsRefusedWithTheReasonAndTheWay) {
  FunctionHandler handler(who);
  const TempFolder folder;
  write_file(folder.file("tokens"), make_token("a", false).value().line);
  const auto plain =
      Server::start({.listen = {"127.0.0.1:0"}, .token_file = folder.file("tokens")}, handler);
  ASSERT_FALSE(plain.ok());
  EXPECT_TRUE(plain.error().message().contains("give a certificate and its key"))
      << plain.error().message();
  const auto everywhere = Server::start(
      {.listen = {"0.0.0.0:0"}, .token_file = folder.file("tokens"), .allow_plain_loopback = true},
      handler);
  ASSERT_FALSE(everywhere.ok());
  EXPECT_TRUE(everywhere.error().message().contains("127.0.0.1 and [::1] only"))
      << everywhere.error().message();
  const auto open =
      Server::start({.listen = {"127.0.0.1:0"}, .allow_plain_loopback = true}, handler);
  ASSERT_FALSE(open.ok());
  EXPECT_TRUE(open.error().message().contains("give a token file")) << open.error().message();
}

TEST(Tcp, PlainOnLoopbackStillNeedsAToken) {
  const TcpHarbour harbour(who, {}, true);
  EXPECT_TRUE(harbour.address().starts_with("http://127.0.0.1:"));
  EXPECT_EQ(Client::connect(harbour.address()).value().call({})->status, 401);
  EXPECT_EQ(harbour.connect(harbour.user().secret).value().call({})->body, "user airflow");
}

TEST(Tcp, ATokenIsNotSentInPlainToAnotherMachine) {
  for (const std::string host : {"gpu1.example", "127.0.0.1.example", "128.0.0.1"}) {
    const auto client = Client::connect("http://" + host + ":1", {.token = "berth_x"});
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(client.error().code(), ErrorCode::invalid_argument) << host;
  }
}

TEST(Tcp, APortThatIsTakenIsNamed) {
  const TcpHarbour harbour(who, {}, true);
  FunctionHandler handler(who);
  const auto second = Server::start({.listen = {harbour.address().substr(7)},
                                     .token_file = harbour.token_file(),
                                     .allow_plain_loopback = true},
                                    handler);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_TRUE(second.error().message().contains("another program already listens on 127.0.0.1:"))
      << second.error().message();
}

TEST(Tcp, AClientThatHasOnlyEndedItsSendingSideGetsItsAnswer) {
  std::atomic<int> gone = 0;
  const TcpHarbour harbour(
      [&](const Request&, Reply reply) {
        reply.on_gone([&] { ++gone; });
        std::thread([&gone, reply = std::move(reply)]() mutable {
          EXPECT_TRUE(eventually([&] { return gone == 1; }));
          reply.send({.body = "still"});
        }).detach();
      },
      {}, true);
  const Descriptor fd = tcp_socket(harbour.address());
  const std::string request =
      "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + harbour.user().secret + "\r\n\r\n";
  ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  ::shutdown(fd.get(), SHUT_WR);
  EXPECT_TRUE(exchange(fd, "").ends_with("still"));
}

// Ends a connection without telling the other side, as a machine that loses its power does.
bool vanish(Descriptor& fd) {
  const int on = 1;
  if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0) return false;
  fd = Descriptor(-1);
  return true;
}

TEST(Tcp, AHalfOpenConnectionIsFound) {
  std::atomic<int> gone = 0;
  std::mutex mutex;
  std::vector<Reply> waiting;
  const TcpHarbour harbour(
      [&](const Request&, Reply reply) {
        reply.on_gone([&] { ++gone; });
        const std::lock_guard lock(mutex);
        waiting.push_back(std::move(reply));
      },
      {.probe_after = Duration(1000)}, true);
  Descriptor fd = tcp_socket(harbour.address());
  const std::string request =
      "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + harbour.user().secret + "\r\n\r\n";
  ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return waiting.size() == 1;
  }));
  if (!vanish(fd)) GTEST_SKIP() << "needs CAP_NET_ADMIN, to end a connection without a word";
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
}

}  // namespace
}  // namespace berth::net
