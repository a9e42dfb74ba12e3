#include "net/client.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "net/loop.h"
#include "net/response_parser.h"
#include "net/socket.h"
#include "net/target.h"
#include "net/tls.h"
#include "net/transport.h"

namespace berth::net {

namespace {

Error unavailable(std::string message) { return {ErrorCode::unavailable, std::move(message)}; }

// What a call waits with: a deadline and the caller's descriptor.
struct Patience {
  std::int64_t until = 0;  // ms
  int interrupt_fd = -1;
};

enum class Woken : std::uint8_t { ready, late, interrupted };

Woken wait_for(int fd, short events, const Patience& patience) {
  while (true) {
    std::array<pollfd, 2> fds{pollfd{.fd = fd, .events = events, .revents = 0},
                              pollfd{.fd = patience.interrupt_fd, .events = POLLIN, .revents = 0}};
    const std::int64_t left = patience.until - now_ms();
    const int count = ::poll(fds.data(), fds.size(),
                             static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (count > 0 && fds[1].revents != 0) return Woken::interrupted;
    if (count > 0) return Woken::ready;
    if (left <= 0) return Woken::late;
  }
}

// Texts that end up between the lines of a request may not bring lines of their own.
bool is_clean(std::string_view text, bool spaces_allowed) {
  return std::ranges::none_of(text, [&](char c) {
    return (c >= 0 && c < ' ') || c == 127 || (c == ' ' && !spaces_allowed);
  });
}

}  // namespace

struct Client::Impl {
  std::string text;  // of the address, for messages
  Address address;
  ClientOptions options;
  std::unique_ptr<Transport> transport;
  std::shared_ptr<const TlsClient> tls;  // https only
  bool interrupted = false;
  bool reused = false;  // the connection has served a call before
  std::array<char, std::size_t{16} * 1024> buffer{};

  Patience patience(Duration timeout) const {
    return {.until = now_ms() + timeout.count(), .interrupt_fd = options.interrupt_fd};
  }

  Result<void> check_token() const;
  Result<void> connect();
  Result<void> start_tls(const Patience& patience);
  Result<void> connect_unix(const Patience& patience);
  Result<void> connect_tcp(const Patience& patience);
  Result<void> connect_one(int fd, const sockaddr* name, socklen_t size, const Patience& patience);
  Result<void> wait(short events, const Patience& patience, std::string_view doing);
  Result<void> send(std::string_view text, const Patience& patience);
  Result<std::string> request_text(const Call& call) const;
  Result<void> begin(const Call& call, const Patience& patience);
  Result<std::size_t> receive(const Patience& patience);
  Result<Response> read_answer(ResponseParser& parser, const Patience& patience);
  Result<Response> once(const Call& call);
  void drop_stale();
  Error gave_up(Woken woken, std::string_view doing);
  Error broken(std::string_view doing, const std::string& why) const;
};

Error Client::Impl::broken(std::string_view doing, const std::string& why) const {
  return unavailable(fmt::format("the connection to {} broke while {}: {}", text, doing, why));
}

Result<void> Client::Impl::wait(short events, const Patience& patience, std::string_view doing) {
  const Woken woken = wait_for(transport->fd(), events, patience);
  return woken == Woken::ready ? success() : gave_up(woken, doing);
}

Error Client::Impl::gave_up(Woken woken, std::string_view doing) {
  transport.reset();
  if (woken == Woken::interrupted) {
    interrupted = true;
    return unavailable(fmt::format("interrupted while {} {}", doing, text));
  }
  return Error{ErrorCode::exhausted,
               fmt::format("{} did not answer in time while {} it", text, doing)};
}

Result<void> Client::Impl::check_token() const {
  in_addr four{};
  const std::string& host = address.host;
  const bool this_machine =
      host == "localhost" || host == "::1" ||
      (::inet_pton(AF_INET, host.c_str(), &four) == 1 && (ntohl(four.s_addr) >> 24U) == 127);
  if (options.token.empty()) return success();
  if (address.scheme == Address::Scheme::http && !this_machine) {
    return invalid_argument(
        fmt::format("a token is not sent to {} in plain text; use https://", text));
  }
  if (!is_clean(options.token, false)) {
    return invalid_argument("the token holds a space or a line end; give it as it was made");
  }
  return success();
}

Result<void> Client::Impl::connect() {
  const Patience patience = this->patience(options.connect_timeout);
  reused = false;
  if (address.scheme == Address::Scheme::unix_socket) return connect_unix(patience);
  TRY_VOID(connect_tcp(patience));
  if (address.scheme == Address::Scheme::https) return start_tls(patience);
  return success();
}

Result<void> Client::Impl::start_tls(const Patience& patience) {
  if (!tls) {
    TRY(tls, TlsClient::load(options.ca_file));
  }
  transport = tls->connect(transport->release(), address.host);
  while (true) {
    switch (transport->handshake().status) {
      case IoResult::Status::done: return success();
      case IoResult::Status::want_read: TRY_VOID(wait(POLLIN, patience, "greeting")); break;
      case IoResult::Status::want_write: TRY_VOID(wait(POLLOUT, patience, "greeting")); break;
      case IoResult::Status::closed:
      case IoResult::Status::failed: {
        const std::string why = transport->why();
        transport.reset();
        return unavailable(
            fmt::format("no TLS connection to {}: {}. Check that this is the right "
                        "port; a certificate that no known authority has signed is "
                        "trusted by giving the authority's file",
                        text, why));
      }
    }
  }
}

Result<void> Client::Impl::connect_one(int fd, const sockaddr* name, socklen_t size,
                                       const Patience& patience) {
  transport = std::make_unique<Transport>(fd);
  while (::connect(fd, name, size) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {  // a Unix socket whose queue is full; nothing tells when it no longer is
      const Patience pause{.until = std::min(now_ms() + 5, patience.until),
                           .interrupt_fd = patience.interrupt_fd};
      const Woken woken = wait_for(-1, 0, pause);
      if (woken == Woken::late && now_ms() < patience.until) continue;
      return wait(POLLOUT, pause, "connecting to");
    }
    if (errno != EINPROGRESS) return unavailable(std::strerror(errno));
    TRY_VOID(wait(POLLOUT, patience, "connecting to"));
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return unavailable(std::strerror(error));
    break;
  }
  return success();
}

Result<void> Client::Impl::connect_unix(const Patience& patience) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return unavailable(fmt::format("the system gives no socket: {}", std::strerror(errno)));
  const sockaddr_un name = unix_name(address.path);
  errno = 0;
  Result<void> connected =
      connect_one(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name, patience);
  const int why = errno;
  if (connected.ok() || interrupted || connected.error().code() == ErrorCode::exhausted) {
    return connected;
  }
  transport.reset();
  if (why == ENOENT || why == ECONNREFUSED) {
    return unavailable(fmt::format("no daemon listens on {}: start one with `berth serve`",
                                   printable(address.path)));
  }
  if (why == EACCES || why == EPERM) {
    return unavailable(fmt::format(
        "the socket {} may not be used by this user: ask its owner for access (mode of the socket "
        "and of the folders above it), or start a daemon of your own with `berth serve`",
        printable(address.path)));
  }
  return unavailable(fmt::format("the socket {} cannot be connected to: {}",
                                 printable(address.path), connected.error().message()));
}

Result<void> Client::Impl::connect_tcp(const Patience& patience) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int failed = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) {
    return unavailable(fmt::format("the host of {} is not known ({}): check the name", text,
                                   ::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::string why = "it has no address";
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int fd = ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    Result<void> connected = connect_one(fd, info->ai_addr, info->ai_addrlen, patience);
    if (connected.ok() || interrupted || connected.error().code() == ErrorCode::exhausted) {
      return connected;
    }
    why = connected.error().message();
  }
  transport.reset();
  return unavailable(fmt::format(
      "nothing answers at {} ({}): check address and port, and that the server runs", text, why));
}

Result<void> Client::Impl::send(std::string_view bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const IoResult result = transport->write(bytes);
    switch (result.status) {
      case IoResult::Status::done: bytes.remove_prefix(result.bytes); break;
      case IoResult::Status::want_read: TRY_VOID(wait(POLLIN, patience, "sending to")); break;
      case IoResult::Status::want_write: TRY_VOID(wait(POLLOUT, patience, "sending to")); break;
      case IoResult::Status::closed:
      case IoResult::Status::failed:
        // A server that refuses a long body answers before it has all of it.
        if (wait_for(transport->fd(), POLLIN, {.until = 0, .interrupt_fd = -1}) == Woken::ready) {
          return success();
        }
        return broken("sending the request", transport->why());
    }
  }
  return success();
}

Result<std::string> Client::Impl::request_text(const Call& call) const {
  if (!call.target.starts_with('/') || !is_clean(call.target, false) ||
      !is_clean(call.method, false) || call.method.empty() || !is_clean(call.content_type, true)) {
    return invalid_argument(
        fmt::format("no request can be made of {} {}: encode spaces and other bytes as %XX",
                    printable(call.method), printable(call.target)));
  }
  const bool local = address.scheme == Address::Scheme::unix_socket;
  std::string request = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: berth\r\n",
                                    call.method, local ? "" : address.path, call.target,
                                    local ? "localhost" : address.authority());
  if (!options.token.empty() && !local) {
    request += fmt::format("Authorization: Bearer {}\r\n", options.token);
  }
  for (const auto& [name, value] : call.headers) {
    if (!is_clean(name, false) || !is_clean(value, true)) {
      return invalid_argument(fmt::format("the header {} holds a line end", printable(name)));
    }
    request += fmt::format("{}: {}\r\n", name, value);
  }
  if (!call.body.empty()) request += fmt::format("Content-Type: {}\r\n", call.content_type);
  if (!call.body.empty() || (call.method != "GET" && call.method != "HEAD")) {
    request += fmt::format("Content-Length: {}\r\n", call.body.size());
  }
  return request + "\r\n" + call.body;
}

// The server may have closed the connection since the last call. Under TLS there may be something
// to read that is no answer, so a look at the descriptor does not tell.
void Client::Impl::drop_stale() {
  if (transport && transport->read(buffer).status != IoResult::Status::want_read) transport.reset();
}

Result<void> Client::Impl::begin(const Call& call, const Patience& patience) {
  interrupted = false;
  TRY(const std::string request, request_text(call));
  drop_stale();
  if (!transport) TRY_VOID(connect());
  return send(request, patience);
}

// Fills `buffer`; 0 bytes: the server has finished sending.
Result<std::size_t> Client::Impl::receive(const Patience& patience) {
  while (true) {
    const IoResult result = transport->read(buffer);
    switch (result.status) {
      case IoResult::Status::done: return result.bytes;
      case IoResult::Status::closed: return std::size_t{0};
      case IoResult::Status::want_read: TRY_VOID(wait(POLLIN, patience, "waiting for")); break;
      case IoResult::Status::want_write: TRY_VOID(wait(POLLOUT, patience, "waiting for")); break;
      case IoResult::Status::failed: return broken("waiting for the answer", transport->why());
    }
  }
}

Result<Response> Client::Impl::read_answer(ResponseParser& parser, const Patience& patience) {
  auto state = ResponseParser::State::head;
  while (state == ResponseParser::State::head || state == ResponseParser::State::body) {
    TRY(const std::size_t bytes, receive(patience));
    state = bytes == 0 ? parser.end() : parser.feed(std::string_view(buffer.data(), bytes));
    if (bytes == 0 && state != ResponseParser::State::complete) {
      return broken("waiting for the answer", parser.why());
    }
  }
  if (state == ResponseParser::State::too_large) {
    return Error{ErrorCode::exhausted,
                 fmt::format("the answer of {} exceeds {} bytes", text, options.body_limit)};
  }
  if (state == ResponseParser::State::malformed) {
    return unavailable(fmt::format("{} does not speak HTTP/1.1: {}", text, parser.why()));
  }
  Response response = parser.take_head();
  response.body = parser.take_body();
  if (!parser.keep_alive()) transport.reset();
  reused = true;
  return response;
}

Result<Response> Client::Impl::once(const Call& call) {
  const Patience patience = this->patience(call.timeout);
  TRY_VOID(begin(call, patience));
  ResponseParser parser(options.body_limit, call.method == "HEAD");
  Result<Response> answer = read_answer(parser, patience);
  if (!answer.ok()) transport.reset();
  return answer;
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(const std::string& address, ClientOptions options) {
  auto impl = std::make_unique<Impl>();
  TRY(impl->address, parse_url(address));
  impl->text = printable(address);
  impl->options = std::move(options);
  TRY_VOID(impl->check_token());
  TRY_VOID(impl->connect());
  return Client(std::move(impl));
}

Result<Response> Client::call(const Call& call) {
  const bool had_connection = impl_->transport != nullptr && impl_->reused;
  Result<Response> answer = impl_->once(call);
  // A connection kept from the last call can be closed by the server just while we send. What may
  // be repeated without harm is.
  const bool harmless = call.method == "GET" || call.method == "HEAD" || call.method == "PUT" ||
                        call.method == "DELETE";
  if (!answer.ok() && answer.error().code() == ErrorCode::unavailable && had_connection &&
      harmless && !impl_->interrupted) {
    return impl_->once(call);
  }
  return answer;
}

// A stream while it is read.
class StreamReader {
 public:
  StreamReader(Client::Impl& connection, const StreamCall& call)
      : my_(connection),
        call_(call),
        next_tick_(now_ms() + call.tick.count()),
        silent_until_(now_ms() + call.silence.count()) {}

  Result<Response> run() {
    while (goes_on_) {
      TRY_VOID(round());
      if (goes_on_ && call_.on_tick && now_ms() >= next_tick_) {
        next_tick_ = now_ms() + call_.tick.count();
        goes_on_ = call_.on_tick();
      }
    }
    return head_ ? *std::move(head_) : Response{.content_type = ""};
  }

 private:
  Result<void> round() {
    const IoResult result = my_.transport->read(my_.buffer);
    switch (result.status) {
      case IoResult::Status::want_read: return wait(POLLIN);
      case IoResult::Status::want_write: return wait(POLLOUT);
      case IoResult::Status::failed: return my_.broken("reading the stream", my_.transport->why());
      case IoResult::Status::closed: return take(parser_.end());
      case IoResult::Status::done: break;
    }
    silent_until_ = now_ms() + call_.silence.count();
    return take(parser_.feed({my_.buffer.data(), result.bytes}));
  }

  Result<void> wait(short events) {
    const std::int64_t until = call_.on_tick ? std::min(next_tick_, silent_until_) : silent_until_;
    const Patience patience{.until = until, .interrupt_fd = my_.options.interrupt_fd};
    const Woken woken = wait_for(my_.transport->fd(), events, patience);
    const bool silent = woken == Woken::late && now_ms() >= silent_until_;
    if (!silent && woken != Woken::interrupted) return success();
    return my_.gave_up(woken, "reading the stream of");
  }

  Result<void> take(ResponseParser::State state) {
    if (state == ResponseParser::State::head) return success();
    if (state != ResponseParser::State::body && state != ResponseParser::State::complete) {
      return my_.broken("reading the stream", parser_.why());
    }
    if (!head_) head_ = parser_.take_head();
    const std::string body = parser_.take_body();
    if (head_->status < 200 || head_->status > 299) {
      head_->body += body;
    } else if (!body.empty()) {
      goes_on_ = hand_on(body);
    }
    if (state == ResponseParser::State::complete) goes_on_ = false;
    return success();
  }

  bool hand_on(const std::string& body) {
    if (call_.on_chunk) return call_.on_chunk(body);
    return !call_.on_event || events_.feed(body, call_.on_event);
  }

  Client::Impl& my_;
  const StreamCall& call_;
  ResponseParser parser_{static_cast<std::size_t>(-1), false};
  SseReader events_;
  std::int64_t next_tick_;
  std::int64_t silent_until_;
  std::optional<Response> head_;
  bool goes_on_ = true;
};

Result<Response> Client::stream(const StreamCall& call) {
  Call request{.target = call.target};
  request.headers.emplace_back("Accept", call.on_chunk ? "*/*" : "text/event-stream");
  if (!call.last_event_id.empty()) {
    request.headers.emplace_back("Last-Event-ID", call.last_event_id);
  }
  TRY_VOID(impl_->begin(request, impl_->patience(impl_->options.connect_timeout)));
  Result<Response> answer = StreamReader(*impl_, call).run();
  impl_->transport.reset();
  return answer;
}

bool Client::interrupted() const { return impl_->interrupted; }

bool is_listening(const std::string& address) { return Client::connect(address).ok(); }

}  // namespace berth::net
