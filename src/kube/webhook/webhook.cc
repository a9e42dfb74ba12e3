#include "kube/webhook/webhook.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "json/dom.h"
#include "kube/client/client.h"
#include "kube/webhook/handler.h"
#include "kube/webhook/registration.h"
#include "net/certificate.h"
#include "net/server.h"

namespace berth::kube {

namespace {

constexpr std::string_view kGroup = "/apis/admissionregistration.k8s.io/v1/";
constexpr std::int64_t kBackdate = 3600;                          // seconds: clocks differ
constexpr std::size_t kBodyLimit = std::size_t{8} * 1024 * 1024;  // two objects of etcd's most

constexpr Duration kRace{1'000};
// How often the configurations are looked at, and how long a new authority stands in them before it
// is used: every API server has heard of it by then. Less for lives that only tests have.
constexpr Duration kCheckEvery{30'000};
constexpr Duration kSettle{10'000};

std::int64_t nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One of the two objects that we keep up to date.
struct Target {
  std::string_view plural;
  std::string_view path;  // of our server
  bool complete = false;
  std::string trouble = "it has not been read yet";
};

struct Keys {
  net::CertifiedKey authority = {};
  net::CertifiedKey server = {};
  std::int64_t made_s = 0;
  std::int64_t end_s = 0;
};

}  // namespace

struct Webhook::Impl {
  explicit Impl(WebhookOptions given) : options(std::move(given)), handler(options.rules, nanos) {}

  WebhookOptions options;
  WebhookHandler handler;
  std::unique_ptr<Client> client;
  std::unique_ptr<net::Server> server;
  Keys current;
  std::optional<Keys> next;
  std::optional<Time> next_known;  // when every configuration had it
  std::array<Target, 2> targets{
      {{.plural = "mutatingwebhookconfigurations", .path = "/mutate"},
       {.plural = "validatingwebhookconfigurations", .path = "/validate"}}};
  json::DomParser parser;
  std::string said;

  void tell(std::string_view line) const {
    if (options.tell) {
      options.tell(line);
    }
  }

  std::int64_t now_s() const { return client->timers().clock().wall_us() / 1'000'000; }

  Duration check_every() const {
    return std::min(kCheckEvery, Duration(options.certificate_life.count() / 20));
  }

  Duration settle() const {
    return std::min(kSettle, Duration(options.certificate_life.count() / 10));
  }

  Result<Keys> make_keys() const {
    Keys keys;
    keys.made_s = now_s();
    keys.end_s = keys.made_s + options.certificate_life.count() / 1000;
    const net::Validity valid{.from = keys.made_s - kBackdate, .to = keys.end_s};
    TRY(keys.authority, net::make_authority({.name = std::string(kAuthorityName), .valid = valid}));
    TRY(keys.server,
        net::make_certificate(keys.authority, {.names = options.names, .valid = valid}));
    return keys;
  }

  Result<void> begin() {
    TRY(client, Client::make(options.access, {.user_agent = "berth-webhook"}));
    TRY(current, make_keys());
    net::ServerOptions serving{.listen = {options.listen}};
    serving.certificate = current.server.certificate;
    serving.key = current.server.key;
    serving.anyone = true;
    serving.body_limit = kBodyLimit;
    TRY(server, net::Server::start(std::move(serving), handler));
    handler.set_certificate_end(current.end_s);
    return success();
  }

  std::string path_of(const Target& target) const {
    return fmt::format("{}{}/{}", kGroup, target.plural, kConfigurationName);
  }

  // Reads both configurations and mends what is missing in them.
  void check() {
    client->timers().after(check_every(), [this] { check(); });
    rotate();
    for (Target& target : targets) {
      read(target);
    }
  }

  void read(Target& target) {
    client->call({.path = path_of(target), .retry = Retry::idempotent},
                 [this, &target](const Answer& answer) { on_read(target, answer); });
  }

  RegistrationWords words() const {
    RegistrationWords words{.url = options.url, .now_s = now_s()};
    words.authorities.push_back(current.authority.certificate);
    if (next) {
      words.authorities.push_back(next->authority.certificate);
    }
    return words;
  }

  void on_read(Target& target, const Answer& answer) {
    if (!answer.ok()) {
      return failed(target, "read", answer);
    }
    const auto root = parser.parse_padded(answer.body);
    if (!root.ok()) {
      return set_trouble(target, root.error().message());
    }
    auto registration = registration_of(*root, target.path, words());
    if (!registration.ok()) {
      return set_trouble(target, registration.error().message());
    }
    if (registration->complete) {
      return set_trouble(target, "");
    }
    client->call({.method = Method::patch,
                  .path = path_of(target),
                  .body = std::move(registration->patch),
                  .content = Content::json_patch,
                  .lane = Lane::write},
                 [this, &target](const Answer& patched) { on_patched(target, patched); });
  }

  void on_patched(Target& target, const Answer& answer) {
    if (answer.ok()) {
      return read(target);  // what stands there now decides, not what we sent
    }
    if (answer.status == 409 || answer.status == 422) {  // another replica was first
      client->timers().after(kRace, [this, &target] { read(target); });
    }
    failed(target, "changed", answer);
  }

  void failed(Target& target, std::string_view what, const Answer& answer) {
    if (answer.outcome != Outcome::answered) {
      return set_trouble(target, fmt::format("{} {} cannot be {}: {}", target.plural,
                                             kConfigurationName, what, answer.problem));
    }
    const std::string_view hint = answer.status == 404   ? "; apply deploy/kubernetes"
                                  : answer.status == 403 ? "; the account needs get and patch on it"
                                                         : "";
    set_trouble(target, fmt::format("{} {} cannot be {}: the API server answers {}{}",
                                    target.plural, kConfigurationName, what, answer.status, hint));
  }

  void set_trouble(Target& target, std::string why) {
    target.complete = why.empty();
    target.trouble = std::move(why);
    std::string all;
    for (const Target& one : targets) {
      if (!one.trouble.empty()) {
        all += all.empty() ? "" : "; ";
        all += printable(one.trouble);
      }
    }
    if (all != said && targets[0].trouble != "it has not been read yet" &&
        targets[1].trouble != "it has not been read yet") {
      tell(all.empty() ? "registered: the API server trusts and reaches this replica" : all);
      said = all;
    }
    if (all.empty() && next && !next_known) {
      next_known = client->timers().clock().now();
    }
    handler.set_trouble(std::move(all));
  }

  // Makes the next authority at half of the current one's life, and changes to it once it has been
  // registered for a while.
  void rotate() {
    const std::int64_t half = options.certificate_life.count() / 2000;
    if (!next && now_s() >= current.made_s + half) {
      auto made = make_keys();
      if (!made.ok()) {
        return tell(made.error().to_string());
      }
      next = *std::move(made);
      next_known.reset();
      for (Target& target : targets) {
        target.complete = false;
        target.trouble = "the next authority is not registered yet";
      }
    }
    const Time now = client->timers().clock().now();
    if (!next || !next_known || now - *next_known < settle()) {
      return;
    }
    const auto replaced = server->replace_certificate(next->server.certificate, next->server.key);
    if (!replaced.ok()) {
      return tell(replaced.error().to_string());
    }
    current = *std::move(next);
    next.reset();
    handler.set_certificate_end(current.end_s);
    tell("serving with a new certificate");
  }

  void run(const std::atomic<bool>& stop) {
    check();
    while (!stop) {
      client->turn(Duration(500));
    }
    server->stop();
  }
};

Webhook::Webhook(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Webhook::~Webhook() = default;

Result<std::unique_ptr<Webhook>> Webhook::start(WebhookOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY_VOID(impl->begin());
  return std::unique_ptr<Webhook>(new Webhook(std::move(impl)));
}

void Webhook::run(const std::atomic<bool>& stop) { impl_->run(stop); }

std::string Webhook::address() const { return impl_->server->addresses().front(); }

}  // namespace berth::kube
