#include "http_load.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "net/token.h"

namespace berth::bench {

std::int64_t monotonic_ns() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

namespace {

Error system_error(std::string_view what) {
  return {ErrorCode::unavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

Result<int> connect_to(const std::string& address) {
  int fd = -1;
  int failed = 0;
  if (address.starts_with("unix:")) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    address.copy(to.sun_path, sizeof(to.sun_path) - 1, 5);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    failed = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));  // NOLINT
  } else {
    const std::size_t colon = address.rfind(':');
    std::uint16_t port = 0;
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    failed = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));  // NOLINT
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (failed != 0) {
    close(fd);
    return system_error("connect to " + address);
  }
  return fd;
}

}  // namespace

HttpLoad::HttpLoad(std::string token, Answer answer, Bytes bytes)
    : token_(std::move(token)),
      answer_(std::move(answer)),
      bytes_(std::move(bytes)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

HttpLoad::~HttpLoad() {
  for (const Line& line : lines_) {
    close(line.fd);
  }
  close(epoll_);
}

Result<int> HttpLoad::open(const std::string& address) {
  TRY(const int fd, connect_to(address));
  const int number = static_cast<int>(lines_.size());
  lines_.push_back({.fd = fd, .streams = false, .in = {}});
  epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<std::uint32_t>(number)}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  return number;
}

void HttpLoad::send(int connection, std::string_view method, std::string_view target,
                    std::string_view body) {
  const std::string text = fmt::format(
      "{} {} HTTP/1.1\r\nHost: berth\r\nAuthorization: Bearer {}\r\nContent-Type: "
      "application/json\r\nContent-Length: {}\r\n\r\n{}",
      method, target, token_, body.size(), body);
  // Requests are far smaller than a socket's buffer.
  static_cast<void>(
      !write(lines_[static_cast<std::size_t>(connection)].fd, text.data(), text.size()));
}

void HttpLoad::stream(int connection, std::string_view target) {
  lines_[static_cast<std::size_t>(connection)].streams = true;
  send(connection, "GET", target);
}

bool HttpLoad::turn(int timeout_ms) {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_, events.data(), events.size(), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const auto number = static_cast<int>(events[static_cast<std::size_t>(i)].data.u32);
    Line& line = lines_[static_cast<std::size_t>(number)];
    std::array<char, 65536> buffer;  // NOLINT: filled by read
    const ssize_t got = read(line.fd, buffer.data(), buffer.size());
    if (got <= 0) {
      epoll_ctl(epoll_, EPOLL_CTL_DEL, line.fd, nullptr);
      continue;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (line.streams) {
      bytes_(number, bytes);
    } else {
      line.in += bytes;
      received(number);
    }
  }
  return count > 0;
}

void HttpLoad::received(int connection) {
  while (true) {
    std::string& in = lines_[static_cast<std::size_t>(connection)].in;
    const std::size_t head = in.find("\r\n\r\n");
    if (head == std::string::npos) {
      return;
    }
    std::size_t length = 0;
    const std::size_t field = in.find("Content-Length: ");
    if (field < head) {
      std::from_chars(in.data() + field + 16, in.data() + head, length);
    }
    if (in.size() < head + 4 + length) {
      return;
    }
    int status = 0;
    std::from_chars(in.data() + 9, in.data() + 12, status);
    const std::string answer = std::exchange(in, in.substr(head + 4 + length));
    answer_(connection, status, std::string_view(answer).substr(head + 4, length));
  }
}

// --- the daemon -----------------------------------------------------------------------------

ServeProcess::ServeProcess(ServeProcess&& other) noexcept
    : program_(std::move(other.program_)),
      folder_(std::exchange(other.folder_, {})),
      words_(std::move(other.words_)),
      token_(std::move(other.token_)),
      address_(std::move(other.address_)),
      pid_(std::exchange(other.pid_, -1)) {}

ServeProcess::~ServeProcess() {
  kill_now();
  if (!folder_.empty()) {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
}

void ServeProcess::kill_now() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

Result<ServeProcess> ServeProcess::start(const std::string& program, const std::string& parent,
                                         const std::vector<std::string>& words) {
  ServeProcess process;
  std::string pattern = std::filesystem::absolute(parent).string() + "/serve-bench-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return system_error("a folder in " + parent);
  }
  process.folder_ = pattern;
  process.program_ = program;
  process.words_ = words;
  TRY(const net::NewToken token, net::make_token("bench", true));
  process.token_ = token.secret;
  std::ofstream(process.folder_ + "/tokens") << token.line;
  TRY_VOID(process.launch());
  return process;
}

Result<void> ServeProcess::launch() {
  const std::string log = folder_ + "/log";
  std::filesystem::remove(log);
  std::vector<std::string> words = {program_,          "serve",
                                    "--listen",        "127.0.0.1:0",
                                    "--listen",        "unix:" + folder_ + "/berth.sock",
                                    "--state",         state(),
                                    "--tokens",        folder_ + "/tokens",
                                    "--plain-loopback"};
  words.insert(words.end(), words_.begin(), words_.end());
  pid_ = fork();
  if (pid_ == 0) {
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execv(program_.c_str(), argv.data());
    _exit(127);
  }
  constexpr std::string_view kMark = "listening on http://";
  for (int tries = 0; tries < 20'000; ++tries) {
    std::ifstream file(log);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::size_t at = text.find(kMark);
    if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
      address_ = text.substr(at + kMark.size(), text.find('\n', at) - at - kMark.size());
      bool ready = false;
      HttpLoad load(token_, [&](int, int status, std::string_view) { ready = status == 200; });
      TRY(const int connection, load.open(address_));
      while (!ready) {
        load.send(connection, "GET", "/readyz");
        load.turn(1000);
      }
      return success();
    }
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return Error(ErrorCode::unavailable, "berth serve ended: " + text);
    }
    usleep(500);
  }
  return Error(ErrorCode::unavailable, "berth serve does not listen");
}

Result<std::int64_t> ServeProcess::restart() {
  kill_now();
  const std::int64_t begin = monotonic_ns();
  TRY_VOID(launch());
  return monotonic_ns() - begin;
}

double ServeProcess::resident_mib() const {
  std::ifstream file(fmt::format("/proc/{}/status", pid_));
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("VmRSS:")) {
      return static_cast<double>(std::stoll(line.substr(6))) / 1024;
    }
  }
  return 0;
}

}  // namespace berth::bench
