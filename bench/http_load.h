// HttpLoad: many HTTP/1.1 connections of one thread, for measurements. It knows just enough of the
// protocol to tell where an answer ends. Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::bench {

class HttpLoad {
 public:
  // `body` is only valid during the call.
  using Answer = std::function<void(int connection, int status, std::string_view body)>;
  // Bytes of a stream that were read; instead of an answer once stream() was called.
  using Bytes = std::function<void(int connection, std::string_view bytes)>;

  HttpLoad(std::string token, Answer answer, Bytes bytes = {});
  ~HttpLoad();
  HttpLoad(const HttpLoad&) = delete;
  HttpLoad& operator=(const HttpLoad&) = delete;

  // "127.0.0.1:PORT" or "unix:/path". Returns the connection's number.
  Result<int> open(const std::string& address);
  void send(int connection, std::string_view method, std::string_view target,
            std::string_view body = {});
  void stream(int connection, std::string_view target);
  // Waits for at least one event, at most so long, and calls back. False: nothing happened.
  bool turn(int timeout_ms);

 private:
  struct Line {
    int fd = -1;
    bool streams = false;
    std::string in;
  };

  void received(int connection);

  std::string token_;
  Answer answer_;
  Bytes bytes_;
  int epoll_ = -1;
  std::vector<Line> lines_;
};

// Nanoseconds of the monotonic clock.
std::int64_t monotonic_ns();

// `berth serve` as a process of its own, in a fresh folder.
class ServeProcess {
 public:
  // `words`: further arguments. The folder lies in `parent`.
  static Result<ServeProcess> start(const std::string& program, const std::string& parent,
                                    const std::vector<std::string>& words);
  ServeProcess(ServeProcess&& other) noexcept;
  ServeProcess& operator=(ServeProcess&&) = delete;
  ~ServeProcess();

  // kill -9, and started again on the same state. Returns ns from the start until it is ready.
  Result<std::int64_t> restart();
  const std::string& address() const { return address_; }  // "127.0.0.1:PORT"
  std::string socket() const { return "unix:" + folder_ + "/berth.sock"; }
  const std::string& token() const { return token_; }
  std::string state() const { return folder_ + "/state"; }
  double resident_mib() const;

 private:
  ServeProcess() = default;
  Result<void> launch();
  void kill_now();

  std::string program_;
  std::string folder_;
  std::vector<std::string> words_;
  std::string token_;
  std::string address_;
  int pid_ = -1;
};

}  // namespace berth::bench
