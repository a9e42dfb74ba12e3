// What the tests of this room share: a folder of their own, a handler made of a function, a client
// that speaks raw bytes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"
#include "net/socket.h"

namespace berth::net {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = "/tmp/berth-net-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

class FunctionHandler : public Handler {
 public:
  using Function = std::function<void(Request, Reply)>;
  explicit FunctionHandler(Function function) : function_(std::move(function)) {}
  void handle(Request request, Reply reply) override {
    function_(std::move(request), std::move(reply));
  }

 private:
  Function function_;
};

// Waits until `condition` holds, for ten seconds at most: then the test fails, not the timing.
template <typename Condition>
bool eventually(const Condition& condition) {
  for (const std::int64_t until = now_ms() + 10'000; now_ms() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

// A server on a Unix socket in a folder of its own, with a handler made of a function.
class Harbour {
 public:
  explicit Harbour(FunctionHandler::Function function, ServerOptions options = {})
      : handler_(std::move(function)) {
    if (options.listen.empty()) options.listen = {"unix:" + socket()};
    Result<std::unique_ptr<Server>> started = Server::start(std::move(options), handler_);
    if (!started.ok()) ADD_FAILURE() << started.error().to_string();
    if (started.ok()) server_ = std::move(started).value();
  }

  std::string socket() const { return folder_.file("berth.sock"); }
  std::string address() const { return server_->addresses().front(); }
  std::string file(std::string_view name) const { return folder_.file(name); }
  Server& server() { return *server_; }

  Client client(ClientOptions options = {}) const {
    Result<Client> client = Client::connect(address(), std::move(options));
    if (!client.ok()) ADD_FAILURE() << client.error().to_string();
    return std::move(client).value();
  }

 private:
  TempFolder folder_;
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;
};

// A client that is no client: sends and receives bytes, with a receive time-out of ten seconds.
class RawClient {
 public:
  explicit RawClient(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un name = unix_name(path);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
    const timeval ten{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &ten, sizeof ten);
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }

  bool send(std::string_view text) {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // What comes until `mark` is in it; everything until the end if there is no mark.
  std::string receive(std::string_view mark = {}) {
    std::string got;
    char buffer[4096];
    const std::int64_t until = now_ms() + 10'000;
    while ((mark.empty() || !got.contains(mark)) && now_ms() < until) {
      const ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (size <= 0) break;
      got.append(buffer, static_cast<std::size_t>(size));
    }
    return got;
  }

  // Whether the server has closed the connection; waits for it.
  bool is_closed() {
    char buffer[4096];
    ssize_t size = 0;
    while ((size = ::recv(fd_.get(), buffer, sizeof buffer, 0)) > 0) {
    }
    return size == 0 || errno == ECONNRESET;
  }

  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_ = Descriptor(-1); }

 private:
  Descriptor fd_;
  bool connected_ = false;
};

inline void answer_ok(const Request& request, Reply reply) {
  reply.send({.status = 200, .body = request.method + " " + request.path + " " + request.body});
}

}  // namespace berth::net
