// Webhook: the admission webhook as a program: its server, its certificates, its registration.
//
//   TRY(auto webhook, Webhook::start(std::move(options)));
//   webhook->run(stop);                  // until *stop
//
// It makes an authority and a certificate of its own at start, in memory only, tells them to the
// webhook configurations of the cluster, and makes new ones at half of their life. Between the
// announcement of the new authority and its use lies time enough for every API server to hear of
// it. Thread-safety: start() and run() on one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "kube/client/access.h"
#include "kube/webhook/review.h"

namespace berth::kube {

struct WebhookOptions {
  Access access = {};
  ReviewRules rules = {};
  std::string listen = ":8443";
  // Names and addresses that the API server knows us by.
  std::vector<std::string> names = {"berth-webhook.berth-system.svc"};
  std::string url = {};  // as RegistrationWords::url
  Duration certificate_life{14LL * 86'400'000};
  // One line for people and logs: what happened.
  std::function<void(std::string_view)> tell = {};
};

class Webhook {
 public:
  // Errors: those of the address, the certificate, or credentials that cannot work.
  static Result<std::unique_ptr<Webhook>> start(WebhookOptions options);
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  void run(const std::atomic<bool>& stop);
  // "https://host:port" of the server.
  std::string address() const;

 private:
  struct Impl;
  explicit Webhook(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::kube
