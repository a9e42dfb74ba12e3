// The webhook's HTTP face: /mutate and /validate for the API server, /livez, /readyz and /metrics
// for everybody.
//
// Thread-safety: handle() on the server's I/O thread; the rest from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kube/webhook/review.h"
#include "net/reply.h"

namespace berth::kube {

class WebhookHandler : public net::Handler {
 public:
  // `nanos`: a clock for the figures, never for a decision.
  WebhookHandler(ReviewRules rules, std::int64_t (*nanos)());

  void handle(net::Request request, net::Reply reply) override;

  // Why the API server cannot reach or trust us yet; empty: it can.
  void set_trouble(std::string why);
  void set_certificate_end(std::int64_t unix_s) { certificate_end_ = unix_s; }

  std::string metrics() const;

 private:
  static constexpr std::size_t kKinds = 2;
  static constexpr std::size_t kResults = 4;
  static constexpr std::array<std::int64_t, 8> kBucketsUs{50,   100,  250,  500,
                                                          1000, 2500, 5000, 25000};

  net::Response answer(const net::Request& request);
  net::Response review(ReviewKind kind, const std::string& body);
  void count(ReviewKind kind, const ReviewAnswer& answer, std::int64_t nanos);

  Reviewer reviewer_;
  std::int64_t (*nanos_)();
  std::atomic<std::int64_t> certificate_end_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::string trouble_ = "it has not registered itself yet";
  std::array<std::array<std::uint64_t, kResults>, kKinds> reviews_{};
  std::map<std::string, std::uint64_t> refusals_;  // by code
  struct Times {
    std::array<std::uint64_t, kBucketsUs.size()> buckets{};  // each with those below it
    std::uint64_t count = 0;
    std::int64_t nanos = 0;
  };
  std::array<Times, kKinds> times_{};
};

}  // namespace berth::kube
