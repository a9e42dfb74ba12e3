#include "net/exchange.h"

#include <utility>

#include "base/assert.h"
#include "net/connection.h"
#include "net/reply.h"

namespace berth::net {

Exchange::Exchange(std::shared_ptr<Mailbox> mailbox, std::weak_ptr<Connection> connection,
                   std::size_t stream_buffer)
    : mailbox_(std::move(mailbox)),
      connection_(std::move(connection)),
      stream_buffer_(stream_buffer) {}

void Exchange::answer(Response response) {
  mailbox_->post([self = shared_from_this(), response = std::move(response)] {
    if (const auto connection = self->connection_.lock()) {
      connection->answer(self, response);
    }
  });
}

void Exchange::begin_stream(Response head) {
  open_ = !gone_;
  mailbox_->post([self = shared_from_this(), head = std::move(head)] {
    if (const auto connection = self->connection_.lock()) {
      connection->begin_stream(self, head);
    } else {
      self->open_ = false;
    }
  });
}

void Exchange::post(void (Connection::*what)(const std::shared_ptr<Exchange>&, const std::string&),
                    std::string text) {
  const bool posted = mailbox_->post([self = shared_from_this(), what, text = std::move(text)] {
    if (const auto connection = self->connection_.lock()) {
      (*connection.*what)(self, text);
    }
  });
  if (!posted) open_ = false;
}

bool Exchange::write(std::string chunk) {
  if (!open_) return false;
  if (chunk.empty()) return true;
  const std::size_t size = chunk.size();
  if (waiting_.fetch_add(size) + size > stream_buffer_) {
    open_ = false;
    post(&Connection::cut_stream, {});
    return false;
  }
  post(&Connection::stream_chunk, std::move(chunk));
  return open_;
}

void Exchange::end_stream() {
  if (open_.exchange(false)) post(&Connection::end_stream, {});
}

std::size_t Exchange::room() const {
  const std::size_t waiting = waiting_;
  return open_ && waiting < stream_buffer_ ? stream_buffer_ - waiting : 0;
}

void Exchange::on_gone(std::function<void()> left) {
  {
    const std::lock_guard lock(mutex_);
    left_ = std::move(left);
  }
  // It may have gone before there was anything to call: leave() runs on the I/O thread.
  if (gone_) {
    mailbox_->post([self = shared_from_this()] { self->leave(); });
  }
}

void Exchange::leave() {
  open_ = false;
  gone_ = true;
  std::function<void()> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(left_);
  }
  if (left) left();
}

void Exchange::finish() {
  open_ = false;
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(left_);
}

Stream::Stream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

Stream::~Stream() { close(); }

bool Stream::write(std::string chunk) { return exchange_->write(std::move(chunk)); }

std::size_t Stream::room() const { return exchange_->room(); }

void Stream::close() { exchange_->end_stream(); }

bool Stream::open() const { return exchange_->open(); }

Reply::Reply(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

namespace {

Response dropped_response() {
  return error_response({.status = 500,
                         .code = "internal",
                         .message = "the request was dropped without an answer",
                         .hint = "it may have been carried out; repeat it with the same key"});
}

}  // namespace

Reply& Reply::operator=(Reply&& other) noexcept {
  if (exchange_ && this != &other) exchange_->answer(dropped_response());
  exchange_ = std::move(other.exchange_);
  return *this;
}

Reply::~Reply() {
  if (exchange_) exchange_->answer(dropped_response());
}

void Reply::send(Response response) {
  ASSERT(exchange_ != nullptr, "a Reply is answered once");
  std::exchange(exchange_, nullptr)->answer(std::move(response));
}

std::shared_ptr<Stream> Reply::stream(Response head) {
  ASSERT(exchange_ != nullptr, "a Reply is answered once");
  exchange_->begin_stream(std::move(head));
  return std::make_shared<Stream>(std::exchange(exchange_, nullptr));
}

void Reply::on_gone(std::function<void()> left) {
  ASSERT(exchange_ != nullptr, "on_gone comes before the answer");
  exchange_->on_gone(std::move(left));
}

bool Reply::gone() const { return exchange_ == nullptr || exchange_->gone(); }

}  // namespace berth::net
