#include "kube/webhook/handler.h"

#include <string_view>

#include <fmt/format.h>

namespace berth::kube {

namespace {

constexpr std::array<std::string_view, 2> kKindNames{"mutate", "validate"};
constexpr std::array<std::string_view, 4> kResultNames{"allowed", "changed", "refused",
                                                       "malformed"};

net::Response text_response(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

void append_help(std::string& out, std::string_view name, std::string_view type,
                 std::string_view help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

WebhookHandler::WebhookHandler(ReviewRules rules, std::int64_t (*nanos)())
    : reviewer_(std::move(rules)), nanos_(nanos) {}

void WebhookHandler::handle(net::Request request, net::Reply reply) { reply.send(answer(request)); }

void WebhookHandler::set_trouble(std::string why) {
  const std::lock_guard lock(mutex_);
  trouble_ = std::move(why);
}

net::Response WebhookHandler::answer(const net::Request& request) {
  const bool posts = request.method == "POST";
  const bool gets = request.method == "GET";
  if (posts && request.path == "/mutate") {
    return review(ReviewKind::mutate, request.body);
  }
  if (posts && request.path == "/validate") {
    return review(ReviewKind::validate, request.body);
  }
  if (gets && request.path == "/livez") {
    return text_response(200, "ok\n");
  }
  if (gets && request.path == "/readyz") {
    const std::lock_guard lock(mutex_);
    return trouble_.empty() ? text_response(200, "ok\n")
                            : text_response(503, fmt::format("not ready: {}\n", trouble_));
  }
  if (gets && request.path == "/metrics") {
    net::Response response = text_response(200, metrics());
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  }
  return text_response(404,
                       "there is /mutate, /validate (POST), /livez, /readyz, /metrics (GET)\n");
}

net::Response WebhookHandler::review(ReviewKind kind, const std::string& body) {
  const std::int64_t before = nanos_();
  ReviewAnswer answer = reviewer_.review(kind, body);
  count(kind, answer, nanos_() - before);
  return {.status = answer.status, .body = std::move(answer.body)};
}

void WebhookHandler::count(ReviewKind kind, const ReviewAnswer& answer, std::int64_t nanos) {
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::size_t>(kind);
  ++reviews_[place][static_cast<std::size_t>(answer.result)];
  if (!answer.code.empty()) {
    ++refusals_[answer.code];
  }
  Times& times = times_[place];
  ++times.count;
  times.nanos += nanos;
  for (std::size_t i = 0; i < kBucketsUs.size(); ++i) {
    times.buckets[i] += nanos <= kBucketsUs[i] * 1000 ? 1U : 0U;
  }
}

std::string WebhookHandler::metrics() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  append_help(out, "berth_webhook_reviews_total", "counter", "Admission reviews answered.");
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (std::size_t result = 0; result < kResults; ++result) {
      out += fmt::format("berth_webhook_reviews_total{{kind=\"{}\",result=\"{}\"}} {}\n",
                         kKindNames[kind], kResultNames[result], reviews_[kind][result]);
    }
  }
  append_help(out, "berth_webhook_refusals_total", "counter", "Refusals by their first reason.");
  for (const auto& [code, count] : refusals_) {
    out += fmt::format("berth_webhook_refusals_total{{code=\"{}\"}} {}\n", code, count);
  }
  append_help(out, "berth_webhook_review_seconds", "histogram", "Time of one review, without TLS.");
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Times& times = times_[kind];
    const std::string_view name = kKindNames[kind];
    for (std::size_t i = 0; i < kBucketsUs.size(); ++i) {
      out += fmt::format("berth_webhook_review_seconds_bucket{{kind=\"{}\",le=\"{}\"}} {}\n", name,
                         static_cast<double>(kBucketsUs[i]) / 1e6, times.buckets[i]);
    }
    out += fmt::format("berth_webhook_review_seconds_bucket{{kind=\"{}\",le=\"+Inf\"}} {}\n", name,
                       times.count);
    out += fmt::format("berth_webhook_review_seconds_sum{{kind=\"{}\"}} {:.9f}\n", name,
                       static_cast<double>(times.nanos) / 1e9);
    out += fmt::format("berth_webhook_review_seconds_count{{kind=\"{}\"}} {}\n", name, times.count);
  }
  append_help(out, "berth_webhook_registered", "gauge",
              "1 when the API server is told to trust and reach this replica.");
  out += fmt::format("berth_webhook_registered {}\n", trouble_.empty() ? 1 : 0);
  append_help(out, "berth_webhook_certificate_end_seconds", "gauge",
              "When the certificate in use ends, since 1970.");
  out += fmt::format("berth_webhook_certificate_end_seconds {}\n", certificate_end_.load());
  return out;
}

}  // namespace berth::kube
