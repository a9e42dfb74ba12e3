// One request's answer on its way from whoever makes it to the connection: the state behind Reply
// and Stream. Functions are for any thread unless marked.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "net/loop.h"
#include "net/message.h"

namespace berth::net {

class Connection;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Mailbox> mailbox, std::weak_ptr<Connection> connection,
           std::size_t stream_buffer);

  void answer(Response response);
  void begin_stream(Response head);
  bool write(std::string chunk);
  void end_stream();
  void on_gone(std::function<void()> left);

  bool gone() const { return gone_; }

  bool open() const { return open_; }

  std::size_t room() const;

  // I/O thread. The client has left, or was made to: calls what on_gone() left here.
  void leave();
  // I/O thread. The connection has ended without its client's doing (stop), or is done.
  void finish();
  // I/O thread. So many bytes of chunks have gone out.
  void drained(std::size_t bytes) { waiting_ -= bytes; }

 private:
  void post(void (Connection::*what)(const std::shared_ptr<Exchange>&, const std::string&),
            std::string);

  std::shared_ptr<Mailbox> mailbox_;
  std::weak_ptr<Connection> connection_;  // locked on the I/O thread only
  std::size_t stream_buffer_;
  std::atomic<std::size_t> waiting_ = 0;  // bytes of chunks that have not gone out
  std::atomic<bool> gone_ = false;
  std::atomic<bool> open_ = false;  // a stream that may be written to
  std::mutex mutex_;
  std::function<void()> left_;
};

}  // namespace berth::net
