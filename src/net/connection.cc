#include "net/connection.h"

#include <algorithm>
#include <sys/epoll.h>
#include <utility>

#include <fmt/format.h>

#include "net/reply.h"
#include "net/response_text.h"
#include "net/target.h"

namespace berth::net {

namespace {

// Requests that a client sends before the answer to the last are kept up to this; beyond it the
// socket's own buffer holds them.
constexpr std::size_t kAheadBytes = std::size_t{16} * 1024;
// What a client may send after its last answer before it is cut off.
constexpr std::uint32_t kLingerBytes = 4 * 1024 * 1024;

// Gives the memory back; clear() would keep it.
void release(std::string& text) { std::string().swap(text); }

std::size_t largest_body(const ServerOptions& options) {
  std::size_t most = options.body_limit;
  for (const BodyLimit& limit : options.body_limits)
    most = std::max(most, limit.bytes);
  return most;
}

}  // namespace

Connection::Connection(ConnectionHost& host, std::unique_ptr<Transport> transport,
                       std::shared_ptr<const Caller> local)
    : host_(host),
      transport_(std::move(transport)),
      caller_(std::move(local)),
      local_(caller_ != nullptr) {}

void Connection::expect_by(Duration timeout) { deadline_ = now_ms() + timeout.count(); }

void Connection::start() {
  watched_ = EPOLLIN;
  if (!host_.loop().watch(transport_->fd(), watched_, *this).ok()) {
    close(true);
    return;
  }
  expect_by(host_.options().header_timeout);
  shake_hands();
  update_interest();
}

void Connection::shake_hands() {
  const IoResult result = transport_->handshake();
  wants_write_ = result.status == IoResult::Status::want_write;
  if (result.status == IoResult::Status::done) {
    phase_ = Phase::reading;
    expect_by(host_.options().header_timeout);
  } else if (!wants_write_ && result.status != IoResult::Status::want_read) {
    close(true);
  }
}

bool Connection::takes_input() const {
  if (input_ended_) return false;
  switch (phase_) {
    case Phase::handling:
    case Phase::answering: return in_.size() < kAheadBytes;
    case Phase::closed: return false;
    default: return true;
  }
}

void Connection::on_events(std::uint32_t events) {
  if (phase_ == Phase::closed) return;
  const auto self = shared_from_this();
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if (phase_ == Phase::handshaking) shake_hands();
  // A hang-up counts once what came before it has been read.
  if (phase_ != Phase::handshaking && takes_input()) read_some();
  if (phase_ != Phase::closed && out_done_ < out_.size()) flush();
  if (phase_ != Phase::closed && hung_up_ && !takes_input()) close(true);
  update_interest();
}

void Connection::read_some() {
  const std::span<char> buffer = host_.read_buffer();
  const IoResult result = transport_->read(buffer);
  wants_write_ = result.status == IoResult::Status::want_write;
  switch (result.status) {
    case IoResult::Status::done: break;
    case IoResult::Status::want_read:
    case IoResult::Status::want_write: return;
    case IoResult::Status::closed: took_end(); return;
    case IoResult::Status::failed: close(true); return;
  }
  if (phase_ == Phase::streaming) return;  // nothing can follow on this connection
  if (phase_ == Phase::lingering) {
    discarded_ += static_cast<std::uint32_t>(result.bytes);
    if (discarded_ > kLingerBytes) close(true);
    return;
  }
  in_.append(buffer.data(), result.bytes);
  advance();
}

// The client sends nothing more. It may still wait for its answer (half closed), or be gone.
void Connection::took_end() {
  input_ended_ = true;
  switch (phase_) {
    case Phase::reading:
      if (parser_ == nullptr && in_.empty()) {
        close(true);
      } else {
        fail({.status = 400,
              .code = "bad-request",
              .message = "the connection ended in the middle of a request",
              .hint = "nothing was done; send the request again"});
      }
      return;
    case Phase::handling:
    case Phase::streaming:
      // On a Unix socket a client that is gone hangs up; over TCP the end is all that is seen.
      if (!local_) exchange_->leave();
      if (!local_ && phase_ == Phase::streaming) close(true);
      return;
    case Phase::handshaking:
    case Phase::lingering: close(true); return;
    case Phase::answering:
    case Phase::closed: return;
  }
}

void Connection::advance() {
  while (phase_ == Phase::reading && step()) {
  }
  if (in_.empty()) release(in_);
}

// One step of reading a request; false: more bytes are needed.
bool Connection::step() {
  if (parser_ == nullptr) {
    const std::size_t begin = in_.find_first_not_of("\r\n");  // RFC 9112, 2.2
    in_.erase(0, begin);
    if (in_.empty()) return false;
    const ServerOptions& options = host_.options();
    body_limit_ = largest_body(options);  // until it is known what is asked
    parser_ = std::make_unique<RequestParser>(
        ParserLimits{.header = options.header_limit, .body = body_limit_});
    expect_by(options.header_timeout);
  }
  const RequestParser::Step got = parser_->feed(in_);
  in_.erase(0, got.consumed);
  switch (got.state) {
    case RequestParser::State::head:
    case RequestParser::State::body: return false;
    case RequestParser::State::head_done:
      if (!check_head()) return false;
      expect_by(host_.options().body_timeout);
      return true;
    case RequestParser::State::complete: deliver(); return true;
    case RequestParser::State::header_too_large:
      fail({.status = 431,
            .code = "too-large",
            .message = fmt::format("the request line and headers exceed {} bytes",
                                   host_.options().header_limit),
            .hint = "send a shorter target and fewer headers"});
      return false;
    case RequestParser::State::body_too_large: fail_too_large(); return false;
    case RequestParser::State::malformed: break;
  }
  fail({.status = 400,
        .code = "bad-request",
        .message = fmt::format("this is no HTTP/1.1 request: {}", parser_->why()),
        .hint = "speak HTTP/1.1 to this port, in plain on a Unix socket and under TLS over TCP"});
  return false;
}

bool Connection::check_head() {
  const RequestHead& head = parser_->head();
  keep_alive_ = head.keep_alive;
  chunked_ = head.http11;
  head_only_ = head.method == "HEAD";
  if (head.http11 && !head.has_host) {
    fail({.status = 400,
          .code = "bad-request",
          .message = "an HTTP/1.1 request names its host",
          .hint = "send a Host header; on a Unix socket any value will do"});
    return false;
  }
  if (!local_) {
    caller_ = head.repeats_authorization ? nullptr : host_.bearer(head.authorization);
    if (caller_ == nullptr) {
      fail({.status = 401,
            .code = "unauthenticated",
            .message = head.authorization.empty() ? "the request carries no token"
                                                  : "the token is not known here",
            .hint = "send the header \"Authorization: Bearer TOKEN\" with a token of this server"},
           "WWW-Authenticate: Bearer realm=\"berth\"\r\n");
      return false;
    }
  }
  return check_body_rules();
}

bool Connection::check_body_rules() {
  const RequestHead& head = parser_->head();
  if (head.unknown_transfer_encoding) {
    fail({.status = 501,
          .code = "bad-request",
          .message = "the transfer encoding is not known here",
          .hint = "send a Content-Length or \"Transfer-Encoding: chunked\""});
  } else if (head.unknown_content_encoding) {
    fail({.status = 415,
          .code = "bad-request",
          .message = "the content encoding is not known here",
          .hint = "send the body as it is, without Content-Encoding"});
  } else if (head.unknown_expectation) {
    fail({.status = 417,
          .code = "bad-request",
          .message = "the expectation is not known here",
          .hint = "the only known one is \"Expect: 100-continue\""});
  } else if (check_body_limit()) {
    if (head.expects_continue && head.http11) {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      flush();
    }
    return phase_ == Phase::reading;
  }
  return false;
}

void Connection::fail_too_large() {
  fail({.status = 413,
        .code = "too-large",
        .message = fmt::format("the body exceeds {} bytes", body_limit_),
        .hint = "send a shorter body"});
}

bool Connection::check_body_limit() {
  const RequestHead& head = parser_->head();
  const ServerOptions& options = host_.options();
  body_limit_ = options.body_limit;
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  for (const BodyLimit& limit : options.body_limits) {
    if (limit.method == head.method && limit.path == path) body_limit_ = limit.bytes;
  }
  if (!parser_->limit_body(body_limit_)) {
    fail_too_large();
    return false;
  }
  const bool chunked = !head.content_length.has_value();
  if (body_limit_ > options.body_limit && (chunked || *head.content_length > options.body_limit)) {
    large_body_ = host_.room_for_large_body();
    if (large_body_ == nullptr) {
      fail({.status = 503,
            .code = "not-ready",
            .message = "as many large requests as this server takes at once are on their way",
            .hint = "send it again in a second"},
           "Retry-After: 1\r\n");
      return false;
    }
  }
  return true;
}

void Connection::deliver() {
  const RequestHead& head = parser_->head();
  Result<Target> target = parse_target(head.target);
  if (!target.ok()) {
    fail({.status = 400,
          .code = "bad-request",
          .message = target.error().message(),
          .hint = "send a path that begins with '/' and encode other bytes as %XX"});
    return;
  }
  Request request{.method = head_only_ ? "GET" : head.method,
                  .path = std::move(target->path),
                  .segments = std::move(target->segments),
                  .query = std::move(target->query),
                  .body = parser_->take_body(),
                  .content_type = head.content_type,
                  .accept = head.accept,
                  .last_event_id = head.last_event_id,
                  .caller = *caller_};
  parser_.reset();
  large_body_.reset();
  phase_ = Phase::handling;
  deadline_ = 0;
  exchange_ = std::make_shared<Exchange>(host_.loop().mailbox(), weak_from_this(),
                                         host_.options().stream_buffer);
  host_.deliver(std::move(request), Reply(exchange_));
}

void Connection::fail(const ErrorText& text, std::string_view further_header) {
  host_.count_bad_request();
  keep_alive_ = false;
  const Response response = error_response(text);
  put_head(response, fmt::format("{}Content-Length: {}\r\n", further_header, response.body.size()));
  if (!head_only_) out_ += response.body;
  parser_.reset();
  large_body_.reset();
  release(in_);
  phase_ = Phase::answering;
  deadline_ = 0;
  flush();
}

void Connection::put_head(const Response& response, std::string_view length) {
  put_response_head(out_, response,
                    {.length = length, .keep_alive = keep_alive_, .http10 = !chunked_});
}

void Connection::put_response(const Response& response) {
  if (has_no_body(response.status)) {
    put_head(response, {});
    return;
  }
  put_head(response, fmt::format("Content-Length: {}\r\n", response.body.size()));
  if (!head_only_) out_ += response.body;
}

void Connection::answer(const std::shared_ptr<Exchange>& exchange, const Response& response) {
  if (exchange != exchange_ || phase_ != Phase::handling) return;
  exchange_->finish();
  exchange_.reset();
  if (winding_up_ || (input_ended_ && in_.empty())) keep_alive_ = false;
  put_response(response);
  phase_ = Phase::answering;
  flush();
  update_interest();
}

void Connection::begin_stream(const std::shared_ptr<Exchange>& exchange, const Response& head) {
  if (exchange != exchange_ || phase_ != Phase::handling) return;
  keep_alive_ = false;
  put_head(head, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
  phase_ = Phase::streaming;
  release(in_);
  if (head.content_type.starts_with("text/event-stream") && host_.options().heartbeat.count() > 0) {
    heartbeat_ = now_ms() + host_.options().heartbeat.count();
  }
  if (head_only_) {
    end_stream(exchange, {});
    return;
  }
  if (!head.body.empty()) put_chunk(head.body);
  flush();
  update_interest();
}

void Connection::put_chunk(std::string_view chunk) {
  if (chunked_) {
    out_ += fmt::format("{:x}\r\n", chunk.size());
    out_ += chunk;
    out_ += "\r\n";
  } else {
    out_ += chunk;
  }
}

void Connection::stream_chunk(const std::shared_ptr<Exchange>& exchange, const std::string& chunk) {
  if (exchange != exchange_ || phase_ != Phase::streaming) return;
  put_chunk(chunk);
  chunk_bytes_ += chunk.size();
  flush();
  update_interest();
}

void Connection::end_stream(const std::shared_ptr<Exchange>& exchange,
                            const std::string& /*unused*/) {
  if (exchange != exchange_ || phase_ != Phase::streaming) return;
  exchange_->finish();
  exchange_.reset();
  heartbeat_ = 0;
  if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
  phase_ = Phase::answering;
  flush();
  update_interest();
}

void Connection::cut_stream(const std::shared_ptr<Exchange>& exchange,
                            const std::string& /*unused*/) {
  if (exchange != exchange_) return;
  host_.count_cut_off();
  close(true);
}

void Connection::flush() {
  while (out_done_ < out_.size()) {
    const IoResult result = transport_->write(std::string_view(out_).substr(out_done_));
    if (result.status == IoResult::Status::done) {
      went_out(result.bytes);
    } else if (result.status == IoResult::Status::want_read ||
               result.status == IoResult::Status::want_write) {
      if (!std::exchange(blocked_, true)) progress_ = now_ms();
      return;
    } else {
      close(true);
      return;
    }
  }
  release(out_);
  out_done_ = 0;
  if (exchange_) exchange_->drained(std::exchange(chunk_bytes_, 0));
  if (phase_ == Phase::answering) flushed();
}

void Connection::went_out(std::size_t bytes) {
  blocked_ = false;
  out_done_ += bytes;
  // What frames the chunks is counted with them: the bound is on what we hold, not on the wire.
  const std::size_t chunk_bytes = std::min(bytes, chunk_bytes_);
  chunk_bytes_ -= chunk_bytes;
  if (exchange_) exchange_->drained(chunk_bytes);
  if (out_done_ > kAheadBytes && out_done_ > out_.size() / 2) {
    out_.erase(0, out_done_);
    out_done_ = 0;
  }
}

void Connection::flushed() {
  chunk_bytes_ = 0;
  if (!keep_alive_ || winding_up_) {
    linger();
    return;
  }
  phase_ = Phase::reading;
  expect_by(host_.options().idle_timeout);
  advance();
  if (phase_ == Phase::reading && input_ended_) took_end();
}

void Connection::linger() {
  // What was sent over a Unix socket can be read after it is closed; TCP may throw it away.
  if (input_ended_ || (winding_up_ && local_)) {
    close(false);
    return;
  }
  transport_->finish_writing();
  phase_ = Phase::lingering;
  release(in_);
  expect_by(host_.options().linger);
}

void Connection::tick(std::int64_t now) {
  const ServerOptions& options = host_.options();
  if (blocked_ && now - progress_ > options.write_timeout.count()) {
    host_.count_cut_off();
    close(true);
  } else if (deadline_ != 0 && now >= deadline_) {
    if (phase_ == Phase::reading && parser_ != nullptr) {
      host_.count_cut_off();
      fail({.status = 408,
            .code = "bad-request",
            .message = "the request did not arrive in time",
            .hint = "send it again"});
    } else {
      close(true);
    }
  } else if (phase_ == Phase::streaming && heartbeat_ != 0 && now >= heartbeat_) {
    heartbeat_ = now + options.heartbeat.count();
    // A client that reads nothing gets no more of them; write_timeout ends it.
    if (out_.empty()) put_chunk(": keep-alive\n\n");
    flush();
  }
  update_interest();
}

void Connection::wind_up() {
  winding_up_ = true;
  switch (phase_) {
    case Phase::handling: {
      Response response = error_response({.status = 503,
                                          .code = "not-ready",
                                          .message = "the server stops",
                                          .hint = "ask again once it runs"});
      response.headers.emplace_back("Retry-After", "1");
      answer(exchange_, response);
      return;
    }
    case Phase::streaming: end_stream(exchange_, {}); return;
    case Phase::handshaking:
    case Phase::reading: close(false); return;
    default: return;
  }
}

void Connection::disown() {
  const std::shared_ptr<Exchange> exchange = exchange_;
  if (exchange == nullptr) return;
  exchange->leave();
  end_stream(exchange, {});
  answer(exchange, error_response({.status = 401,
                                   .code = "unauthenticated",
                                   .message = "the token was removed while the request waited",
                                   .hint = "what it asked may have been done; a new token is "
                                           "needed to find out"}));
}

void Connection::close(bool left) {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  host_.loop().unwatch(transport_->fd());
  transport_.reset();
  parser_.reset();
  large_body_.reset();
  release(in_);
  release(out_);
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    left ? exchange->leave() : exchange->finish();
  }
  host_.retire(*this);
}

void Connection::update_interest() {
  if (phase_ == Phase::closed) return;
  std::uint32_t events = takes_input() ? std::uint32_t{EPOLLIN} : 0;
  if (out_done_ < out_.size() || (wants_write_ && takes_input())) events |= EPOLLOUT;
  if (events == watched_) return;
  watched_ = events;
  host_.loop().change(transport_->fd(), events, *this);
}

}  // namespace berth::net
