// Socket files and inherited sockets.
#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "net/net_test_support.h"

namespace berth::net {
namespace {

Result<std::unique_ptr<Server>> start_at(const std::string& path, Handler& handler,
                                         mode_t mode = 0666) {
  return Server::start({.listen = {"unix:" + path}, .unix_mode = mode}, handler);
}

// A socket file whose server is gone.
void leave_behind(const std::string& path) {
  const Descriptor fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  const sockaddr_un name = unix_name(path);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
}

TEST(SocketFile, ASecondServerIsRefusedAndToldWhoListens) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("a.sock");
  const auto first = start_at(path, handler);
  ASSERT_TRUE(first.ok());
  const auto second = start_at(path, handler);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_EQ(second.error().message(), "another server (pid " + std::to_string(::getpid()) +
                                          ") already listens on " + path +
                                          "; use it, or stop it first");
  EXPECT_TRUE(Client::connect("unix:" + path).value().call({}).ok()) << "the first works on";
}

TEST(SocketFile, OfManyThatStartAtOnceExactlyOneListens) {
  for (int round = 0; round < 5; ++round) {
    const TempFolder folder;
    const std::string path = folder.file("a.sock");
    leave_behind(path);
    FunctionHandler handler(answer_ok);
    std::vector<std::unique_ptr<Server>> servers(8);
    {
      std::vector<std::jthread> threads;
      for (auto& server : servers) {
        threads.emplace_back([&] {
          auto started = start_at(path, handler);
          if (started.ok()) server = std::move(started).value();
        });
      }
    }
    EXPECT_EQ(std::ranges::count_if(servers, [](const auto& one) { return one != nullptr; }), 1);
    EXPECT_TRUE(is_listening("unix:" + path));
  }
}

TEST(SocketFile, OneLeftBehindIsReplaced) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("a.sock");
  leave_behind(path);
  EXPECT_FALSE(is_listening("unix:" + path));
  ASSERT_TRUE(start_at(path, handler).ok());
}

TEST(SocketFile, WhatIsNoSocketIsLeftAlone) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("precious");
  std::ofstream(path) << "data";
  const auto server = start_at(path, handler);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code(), ErrorCode::conflict);
  EXPECT_TRUE(server.error().message().contains("is no socket")) << server.error().message();
  EXPECT_EQ(std::filesystem::file_size(path), 4U);
}

TEST(SocketFile, HasTheModeThatWasAskedWhateverTheUmask) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("a.sock");
  for (const mode_t mode : {mode_t{0666}, mode_t{0660}, mode_t{0600}}) {
    const mode_t before = ::umask(0027);
    const auto server = start_at(path, handler, mode);
    ::umask(before);
    ASSERT_TRUE(server.ok());
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, mode);
  }
}

TEST(SocketFile, IsGoneAfterTheStopUnlessItIsAnothers) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("a.sock");
  auto server = start_at(path, handler).value();
  server->stop();
  EXPECT_FALSE(std::filesystem::exists(path));
  server = start_at(path, handler).value();
  std::filesystem::remove(path);
  leave_behind(path);
  server->stop();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(SocketFile, AFolderThatIsNotThereIsNamed) {
  FunctionHandler handler(answer_ok);
  const auto server = start_at("/tmp/berth-no-such-folder/a.sock", handler);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code(), ErrorCode::not_found);
  EXPECT_EQ(server.error().message(),
            "there is no folder /tmp/berth-no-such-folder for the socket; make it, or listen "
            "elsewhere");
}

TEST(SocketFile, APathThatIsTooLongIsRefused) {
  FunctionHandler handler(answer_ok);
  const auto server = start_at("/" + std::string(120, 'x'), handler);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(server.error().message().contains("at most 107 bytes")) << server.error().message();
}

TEST(SocketFile, OneWithoutPermissionSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  const TempFolder folder;
  const std::string path = folder.file("a.sock");
  FunctionHandler handler(answer_ok);
  ASSERT_EQ(::chmod(std::filesystem::path(path).parent_path().c_str(), 0755), 0);
  const auto server = start_at(path, handler, 0600);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(9);
    const auto client = Client::connect("unix:" + path);
    ::_exit(!client.ok() && client.error().message().contains("may not be used by this user") ? 0
                                                                                              : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

int listening_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un name = unix_name(path);
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(::listen(fd, 16), 0);
  return fd;
}

TEST(InheritedSocket, IsTakenOverForItsAddressAndItsFileStays) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("unit.sock");
  const int fd = listening_socket(path);
  RawClient early(path);  // connected before anybody serves, as socket activation promises
  early.send("GET /early HTTP/1.1\r\nHost: x\r\n\r\n");
  auto server = Server::start(
      {.listen = {"unix:" + path}, .inherited = {{.fd = fd, .name = "berth.socket"}}}, handler);
  ASSERT_TRUE(server.ok()) << server.error().to_string();
  EXPECT_TRUE(early.receive("GET /early").contains("GET /early"));
  EXPECT_EQ((*server)->addresses(), std::vector<std::string>{"unix:" + path});
  (*server)->stop();
  EXPECT_TRUE(std::filesystem::exists(path)) << "it is systemd's";
}

TEST(InheritedSocket, IsServedWithoutBeingNamed) {
  const TempFolder folder;
  FunctionHandler handler(answer_ok);
  const std::string path = folder.file("unit.sock");
  const int fd = listening_socket(path);
  const auto server = Server::start({.inherited = {{.fd = fd}}}, handler);
  ASSERT_TRUE(server.ok()) << server.error().to_string();
  EXPECT_TRUE(Client::connect("unix:" + path).value().call({}).ok());
}

TEST(InheritedSocket, WhatDoesNotListenIsRefused) {
  FunctionHandler handler(answer_ok);
  const int fd = ::open("/dev/null", O_RDONLY);
  const auto server = Server::start({.inherited = {{.fd = fd, .name = "odd"}}}, handler);
  ASSERT_FALSE(server.ok());
  EXPECT_TRUE(server.error().message().contains("ListenStream=")) << server.error().message();
}

TEST(InheritedSocket, TheEnvironmentIsReadOnceAndOnlyByItsProcess) {
  // In a child of its own: descriptor 3 belongs to whoever runs the tests.
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open("/dev/null", O_RDONLY);
    if (::dup2(fd, 3) != 3 || ::dup2(fd, 4) != 4) ::_exit(9);
    ::setenv("LISTEN_PID", "1", 1);
    ::setenv("LISTEN_FDS", "2", 1);
    const bool others = take_inherited_sockets().empty();
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "2", 1);
    ::setenv("LISTEN_FDNAMES", "a:b", 1);
    const std::vector<InheritedSocket> mine = take_inherited_sockets();
    const bool named = mine.size() == 2 && mine[0].fd == 3 && mine[0].name == "a" &&
                       mine[1].fd == 4 && mine[1].name == "b";
    const bool closes = (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0;
    const bool once = ::getenv("LISTEN_FDS") == nullptr && take_inherited_sockets().empty();
    ::_exit(others && named && closes && once ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace berth::net
