#include "net/request_parser.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "net/beast.h"

namespace berth::net {

namespace {

namespace http = boost::beast::http;

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool same(boost::beast::string_view a, boost::beast::string_view b) {
  return boost::beast::iequals(a, b);
}

RequestHead head_of(const http::request<http::string_body>& message, bool keep_alive) {
  RequestHead head{.method = std::string(view(message.method_string())),
                   .target = std::string(view(message.target())),
                   .http11 = message.version() >= 11,
                   .keep_alive = keep_alive};
  for (const auto& field : message) {
    switch (field.name()) {
      case http::field::host: head.has_host = true; break;
      case http::field::authorization:
        head.repeats_authorization = !head.authorization.empty();
        head.authorization = view(field.value());
        break;
      case http::field::content_type: head.content_type = view(field.value()); break;
      case http::field::accept: head.accept = view(field.value()); break;
      case http::field::expect:
        head.expects_continue = same(field.value(), "100-continue");
        head.unknown_expectation = !head.expects_continue;
        break;
      case http::field::transfer_encoding:
        head.unknown_transfer_encoding = !same(field.value(), "chunked");
        break;
      case http::field::content_encoding:
        head.unknown_content_encoding = !same(field.value(), "identity");
        break;
      default:
        if (same(field.name_string(), "Last-Event-ID")) head.last_event_id = view(field.value());
    }
  }
  return head;
}

}  // namespace

struct RequestParser::Impl {
  http::request_parser<http::string_body> parser;
  RequestHead head;
  boost::system::error_code error;
  std::size_t header_left = 0;
  bool told_head = false;

  State failure() const {
    if (error == http::error::header_limit) return State::header_too_large;
    if (error == http::error::body_limit) return State::body_too_large;
    return State::malformed;
  }
};

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->header_left = limits.header;
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.header));
  impl_->parser.body_limit(limits.body);
  impl_->parser.eager(false);
}

RequestParser::~RequestParser() = default;

RequestParser::Step RequestParser::feed(std::string_view bytes) {
  Impl& my = *impl_;
  Step step;
  while (!my.parser.is_done()) {
    const std::string_view rest = bytes.substr(step.consumed);
    if (my.told_head && my.parser.chunked() && rest.size() < kShortestChunkedEnd) {
      return {State::body, step.consumed};
    }
    const std::size_t put = beast_put(my.parser, rest, my.error);
    step.consumed += put;
    if (my.error && my.error != http::error::need_more) return {my.failure(), step.consumed};
    const bool head_done = my.parser.is_header_done();
    if (!my.told_head) {
      // Beast bounds the first line and the fields each; the limit is for both together.
      if (put > my.header_left || (!head_done && rest.size() - put > my.header_left - put)) {
        my.error = http::error::header_limit;
        return {State::header_too_large, step.consumed};
      }
      my.header_left -= put;
    }
    if (head_done && !my.told_head) {
      my.told_head = true;
      my.head = head_of(my.parser.get(), my.parser.keep_alive());
      if (const auto length = my.parser.content_length(); length.has_value()) {
        my.head.content_length = *length;
      }
      my.parser.eager(true);
      return {State::head_done, step.consumed};
    }
    if (my.parser.is_done()) break;
    if (my.error == http::error::need_more || step.consumed == bytes.size()) {
      return {head_done ? State::body : State::head, step.consumed};
    }
  }
  step.state = State::complete;
  return step;
}

bool RequestParser::limit_body(std::size_t bytes) {
  impl_->parser.body_limit(bytes);
  return impl_->head.content_length.value_or(0) <= bytes;
}

const RequestHead& RequestParser::head() const { return impl_->head; }

std::string RequestParser::take_body() { return std::move(impl_->parser.get().body()); }

std::string RequestParser::why() const { return impl_->error.message(); }

}  // namespace berth::net
