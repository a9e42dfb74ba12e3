// An HTTP/1.1 server that answers with the very bytes a test gives it, or cuts, or keeps still: for
// what a connection does to a call.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace berth::kube {

class WireServer {
 public:
  enum class Then : std::uint8_t { keep, close, keep_still };
  struct Reply {
    std::string bytes = {};
    Then then = Then::keep;
  };
  // Of the n-th request in all, from 0, with its head and body. On the server's threads.
  using Handler = std::function<Reply(std::size_t n, const std::string& request)>;

  explicit WireServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 64) != 0) {
      std::abort();
    }
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~WireServer() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& one : servers_)
      one.join();
    close(listener_);
  }
  WireServer(const WireServer&) = delete;
  WireServer& operator=(const WireServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  static std::string answer(int status, std::string_view body, std::string_view headers = {}) {
    return "HTTP/1.1 " + std::to_string(status) + " x\r\n" + std::string(headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }

 private:
  bool readable(int fd) const {
    while (!stopping_) {
      pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
      if (poll(&one, 1, 20) > 0) return true;
    }
    return false;
  }

  void accept_all() {
    while (readable(listener_)) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) servers_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string bytes;
    while (read_request(fd, bytes)) {
      std::size_t n = 0;
      {
        const std::lock_guard lock(mutex_);
        n = requests_.size();
        requests_.push_back(bytes);
      }
      const Reply reply = handler_(n, bytes);
      bytes.clear();
      send(fd, reply.bytes.data(), reply.bytes.size(), MSG_NOSIGNAL);
      if (reply.then == Then::close) break;
      while (reply.then == Then::keep_still && !stopping_)
        usleep(10'000);
    }
    close(fd);
  }

  bool read_request(int fd, std::string& bytes) const {
    std::array<char, 65'536> piece{};
    while (readable(fd)) {
      const ssize_t got = recv(fd, piece.data(), piece.size(), 0);
      if (got <= 0) return false;
      bytes.append(piece.data(), static_cast<std::size_t>(got));
      const std::size_t head = bytes.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const std::size_t length = bytes.find("Content-Length: ");
      const std::size_t body =
          length < head ? std::strtoul(bytes.c_str() + length + 16, nullptr, 10) : 0;
      if (bytes.size() >= head + 4 + body) return true;
    }
    return false;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::vector<std::thread> servers_;  // of the acceptor
  std::thread acceptor_;
};

}  // namespace berth::kube
