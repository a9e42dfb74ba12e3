// How a request is answered: at once or a minute later, from any thread, whole or as a stream.
//
//   void handle(Request request, Reply reply) override {      // on the I/O thread
//     reply.on_gone([this, id] { inbox_.push(Left{id}); });   // the client died while it waits
//     inbox_.push(Ask{std::move(request), std::move(reply)});
//   }
//   ...                                                       // later, on the decision thread
//   ask.reply.send({.status = 201, .body = lease_json});
//
// Guarantees: every request gets exactly one answer; a Reply that is dropped answers 500. A client
// that does not read costs at most ServerOptions::stream_buffer bytes and is then cut off. Nothing
// here blocks. Thread-safety: Reply and Stream may be used from any thread, also after the server
// has stopped; a Reply by one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "net/message.h"

namespace berth::net {

class Exchange;

// The body of an answer that is written bit by bit. Dropping the last reference closes it.
class Stream {
 public:
  explicit Stream(std::shared_ptr<Exchange> exchange);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Hands over a piece. False: nobody reads it any more (the client left, or was cut off because
  // more than stream_buffer bytes wait for it, or the server stops).
  bool write(std::string chunk);
  // Bytes that may be written now without being cut off. What can wait (a log) asks first.
  std::size_t room() const;
  // Ends the body in good order after what was written. Idempotent.
  void close();
  bool open() const;

 private:
  std::shared_ptr<Exchange> exchange_;
};

class Reply {
 public:
  explicit Reply(std::shared_ptr<Exchange> exchange);
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&& other) noexcept;
  ~Reply();
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  // Exactly one of send() and stream(), once.
  void send(Response response);
  // Sends status and headers now and the body as it is written; Response::body is its first piece.
  // A body of type text/event-stream gets a comment line every ServerOptions::heartbeat.
  std::shared_ptr<Stream> stream(Response head);

  // Calls `left` on the I/O thread, at most once, when the client goes away before its answer: when
  // its process dies, closes the connection, or loses its token; also while a stream made from this
  // Reply is open. If it has gone already, `left` is called soon. Not called when the server stops:
  // that is no wish of the client's. `left` must not own this Reply. Over TCP a client that has
  // only ended its sending side counts as gone, since nothing tells the two apart, but it still
  // gets its answer.
  void on_gone(std::function<void()> left);
  bool gone() const;

 private:
  std::shared_ptr<Exchange> exchange_;
};

// Who answers requests. Called on the I/O thread, where nobody is served meanwhile: it returns at
// once and never blocks. What it throws is answered with 500.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(Request request, Reply reply) = 0;
};

}  // namespace berth::net
