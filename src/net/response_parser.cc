#include "net/response_parser.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <utility>

#include "net/beast.h"

namespace berth::net {

namespace {

namespace http = boost::beast::http;

constexpr std::uint32_t kHeaderLimit = 64 * 1024;

std::string text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct ResponseParser::Impl {
  std::optional<http::response_parser<http::string_body>> parser;
  std::string pending;  // an unfinished header, which Beast wants to see whole
  boost::system::error_code error;
  std::size_t body_limit = 0;
  bool head_only = false;

  void begin() {
    parser.emplace();
    parser->eager(true);
    parser->header_limit(kHeaderLimit);
    parser->body_limit(body_limit);
    parser->skip(head_only);
  }
};

ResponseParser::ResponseParser(std::size_t body_limit, bool head_only)
    : impl_(std::make_unique<Impl>()) {
  impl_->body_limit = body_limit;
  impl_->head_only = head_only;
  impl_->begin();
}

ResponseParser::~ResponseParser() = default;

ResponseParser::State ResponseParser::state() const {
  const auto& parser = *impl_->parser;
  if (impl_->error == http::error::body_limit) return State::too_large;
  if (impl_->error && impl_->error != http::error::need_more) return State::malformed;
  if (parser.is_done()) return State::complete;
  return parser.is_header_done() ? State::body : State::head;
}

ResponseParser::State ResponseParser::feed(std::string_view bytes) {
  Impl& my = *impl_;
  my.pending += bytes;
  while (!my.pending.empty() && !my.parser->is_done()) {
    if (my.parser->is_header_done() && my.parser->chunked() &&
        my.pending.size() < kShortestChunkedEnd) {
      break;
    }
    const std::size_t put = beast_put(*my.parser, my.pending, my.error);
    my.pending.erase(0, put);
    // 100 Continue and its like come before the answer.
    if (!my.error && my.parser->is_done() && my.parser->get().result_int() < 200) {
      my.begin();
      continue;
    }
    if (my.error || put == 0) break;
  }
  return state();
}

ResponseParser::State ResponseParser::end() {
  if (impl_->parser->got_some()) {
    impl_->parser->put_eof(impl_->error);
  } else {
    impl_->error = http::error::end_of_stream;
  }
  return state();
}

Response ResponseParser::take_head() {
  Response response{.status = static_cast<int>(impl_->parser->get().result_int())};
  for (const auto& field : impl_->parser->get()) {
    if (field.name() == http::field::content_type) {
      response.content_type = text_of(field.value());
    } else {
      response.headers.emplace_back(text_of(field.name_string()), text_of(field.value()));
    }
  }
  return response;
}

bool ResponseParser::keep_alive() const { return impl_->parser->keep_alive(); }

std::string ResponseParser::take_body() { return std::exchange(impl_->parser->get().body(), {}); }

std::string ResponseParser::why() const {
  return impl_->error == http::error::end_of_stream ? "it closed the connection without an answer"
                                                    : impl_->error.message();
}

}  // namespace berth::net
