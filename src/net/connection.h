// One client at the server: reads its requests one after the other, hands each to the handler, and
// writes the answer. Lives on the I/O thread.
//
// While it waits for a request or for an answer it holds no buffers. What it may hold and how long
// each step may take is bounded by ServerOptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/exchange.h"
#include "net/loop.h"
#include "net/message.h"
#include "net/request_parser.h"
#include "net/server.h"
#include "net/transport.h"

namespace berth::net {

// What the connections share.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  virtual const ServerOptions& options() const = 0;
  virtual Loop& loop() = 0;
  // One for all: what is in it is used up before anybody else reads.
  virtual std::span<char> read_buffer() = 0;
  // Who bears this value of the header Authorization; null if nobody. The same pointer as long as
  // the token stands.
  virtual std::shared_ptr<const Caller> bearer(std::string_view authorization) = 0;
  virtual void deliver(Request request, Reply reply) = 0;
  virtual void count_bad_request() = 0;
  virtual void count_cut_off() = 0;
  // Room for a body above ServerOptions::body_limit, until it is let go of. Null: there is none.
  virtual std::shared_ptr<void> room_for_large_body() = 0;
  // The connection is at its end; it is destroyed after this round of events.
  virtual void retire(Connection& connection) = 0;
};

class Connection : public Watcher, public std::enable_shared_from_this<Connection> {
 public:
  // `local` is the caller behind a Unix socket; null: requests carry tokens.
  Connection(ConnectionHost& host, std::unique_ptr<Transport> transport,
             std::shared_ptr<const Caller> local);

  void start();
  void on_events(std::uint32_t events) override;
  // Looks at the clock: time-outs and heartbeats.
  void tick(std::int64_t now);
  // The server stops: what waits is answered 503, streams end.
  void wind_up();
  // At once, without an answer. `left`: on the client's side or for a fault of its own.
  void close(bool left);
  // Its caller's token is gone: what is open is closed.
  void disown();

  // From Exchange.
  void answer(const std::shared_ptr<Exchange>& exchange, const Response& response);
  void begin_stream(const std::shared_ptr<Exchange>& exchange, const Response& head);
  void stream_chunk(const std::shared_ptr<Exchange>& exchange, const std::string& chunk);
  void end_stream(const std::shared_ptr<Exchange>& exchange, const std::string& unused);
  void cut_stream(const std::shared_ptr<Exchange>& exchange, const std::string& unused);

  bool busy() const { return phase_ != Phase::reading || !out_.empty(); }

  const std::shared_ptr<const Caller>& caller() const { return caller_; }

  std::size_t slot = 0;  // its place in the server's list; the server's own

 private:
  enum class Phase : std::uint8_t {
    handshaking,
    reading,    // a request, or waits for one
    handling,   // a request is with the handler
    streaming,  // a stream is open
    answering,  // the last bytes of an answer go out
    lingering,  // takes what the client still sends, so that it can read its answer
    closed,
  };

  bool takes_input() const;
  void shake_hands();
  void read_some();
  void took_end();
  void advance();
  bool step();
  bool check_head();
  bool check_body_rules();
  bool check_body_limit();
  void fail_too_large();
  void deliver();
  void fail(const ErrorText& text, std::string_view further_header = {});
  void put_response(const Response& response);
  void put_head(const Response& response, std::string_view length);
  void put_chunk(std::string_view chunk);
  void flush();
  void went_out(std::size_t bytes);
  void flushed();
  void linger();
  void update_interest();
  void expect_by(Duration timeout);

  ConnectionHost& host_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<const Caller> caller_;
  std::unique_ptr<RequestParser> parser_;
  std::shared_ptr<void> large_body_;  // as long as there is a parser
  std::size_t body_limit_ = 0;        // of the present request
  std::shared_ptr<Exchange> exchange_;
  std::string in_;   // what came and is not parsed
  std::string out_;  // what is to go out, from out_done_ on
  std::size_t out_done_ = 0;
  std::size_t chunk_bytes_ = 0;  // of the stream's own in out_, to be reported as gone out
  std::int64_t deadline_ = 0;    // of the present phase; 0: none
  std::int64_t progress_ = 0;    // when the client ceased to take bytes; if blocked_
  std::int64_t heartbeat_ = 0;   // when the next is due; 0: none
  std::uint32_t watched_ = 0;
  std::uint32_t discarded_ = 0;  // bytes while lingering
  Phase phase_ = Phase::handshaking;
  const bool local_;
  bool input_ended_ = false;
  bool hung_up_ = false;
  bool wants_write_ = false;  // TLS does, to go on reading
  bool blocked_ = false;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool chunked_ = false;
  bool winding_up_ = false;
};

}  // namespace berth::net
