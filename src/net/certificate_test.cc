#include "net/certificate.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/client.h"
#include "net/net_test_support.h"
#include "net/server.h"

namespace berth::net {
namespace {

using testing::HasSubstr;

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Validity around_now() { return {.from = now_s() - 60, .to = now_s() + 3600}; }

TEST(Certificate, AnAuthoritySaysWhoItIsAndUntilWhen) {
  const auto made =
      make_authority({.name = "berth-webhook", .valid = {1'700'000'000, 1'800'000'000}});
  ASSERT_TRUE(made.ok()) << made.error().message();
  const auto facts = read_certificates(made->certificate);
  ASSERT_TRUE(facts.ok());
  ASSERT_EQ(facts->size(), 1U);
  EXPECT_EQ(facts->front().subject, "berth-webhook");
  EXPECT_EQ(facts->front().valid.from, 1'700'000'000);
  EXPECT_EQ(facts->front().valid.to, 1'800'000'000);
  EXPECT_EQ(facts->front().pem, made->certificate);
  EXPECT_EQ(facts->front().fingerprint.size(), 64U);
}

TEST(Certificate, ReadsSeveralAndRefusesBrokenOnes) {
  const auto a = make_authority({.name = "a", .valid = around_now()});
  const auto b = make_authority({.name = "b", .valid = around_now()});
  const auto both = read_certificates("words\n" + a->certificate + "\n\n" + b->certificate);
  ASSERT_TRUE(both.ok());
  ASSERT_EQ(both->size(), 2U);
  EXPECT_NE(both->front().fingerprint, both->back().fingerprint);
  EXPECT_TRUE(read_certificates("")->empty());
  const auto cut = read_certificates(a->certificate + b->certificate.substr(0, 200));
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().message(), HasSubstr("certificate 2"));
}

TEST(Certificate, RefusesWhatACertificateCannotHold) {
  EXPECT_FALSE(make_authority({.name = "", .valid = around_now()}).ok());
  EXPECT_FALSE(make_authority({.name = "x", .valid = {5, 5}}).ok());
  const auto authority = make_authority({.name = "a", .valid = around_now()});
  EXPECT_FALSE(make_certificate(*authority, {.names = {}, .valid = around_now()}).ok());
  EXPECT_FALSE(
      make_certificate({.certificate = "x", .key = "y"}, {.names = {"n"}, .valid = around_now()})
          .ok());
}

class Greeter : public Handler {
 public:
  void handle(Request request, Reply reply) override {
    reply.send({.status = 200, .body = "hello " + request.caller.name});
  }
};

// A server with this certificate, and a client that trusts this authority.
std::string answer_of(const CertifiedKey& server_key, const std::string& authority) {
  Greeter greeter;
  ServerOptions options{.listen = {"127.0.0.1:0"}};
  options.certificate = server_key.certificate;
  options.key = server_key.key;
  options.anyone = true;
  auto server = Server::start(std::move(options), greeter);
  EXPECT_TRUE(server.ok()) << server.error().message();
  const TempFolder folder;
  const std::string file = folder.file("ca.pem");
  std::ofstream(file) << authority;
  auto client = Client::connect((*server)->addresses().front(), {.ca_file = file});
  if (!client.ok()) {
    return client.error().to_string();
  }
  auto response = client->call({.timeout = Duration(5000)});
  return response.ok() ? response->body : response.error().to_string();
}

TEST(Certificate, AServerWithOneIsTrustedByWhomTrustsTheAuthority) {
  const auto authority = make_authority({.name = "a", .valid = around_now()});
  const auto good =
      make_certificate(*authority, {.names = {"x.svc", "127.0.0.1"}, .valid = around_now()});
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_EQ(answer_of(*good, authority->certificate), "hello ");

  const auto other = make_authority({.name = "a", .valid = around_now()});
  EXPECT_THAT(answer_of(*good, other->certificate), HasSubstr("not trusted"));
  const auto elsewhere = make_certificate(*authority, {.names = {"x.svc"}, .valid = around_now()});
  EXPECT_THAT(answer_of(*elsewhere, authority->certificate), HasSubstr("not trusted"));
  const auto old =
      make_certificate(*authority, {.names = {"127.0.0.1"}, .valid = {now_s() - 900, now_s() - 9}});
  EXPECT_THAT(answer_of(*old, authority->certificate), HasSubstr("expired"));
}

TEST(Certificate, AServerTakesAnotherOneWhileItRuns) {
  const auto authority = make_authority({.name = "a", .valid = around_now()});
  const auto first = make_certificate(*authority, {.names = {"x.svc"}, .valid = around_now()});
  const auto second = make_certificate(*authority, {.names = {"127.0.0.1"}, .valid = around_now()});
  Greeter greeter;
  ServerOptions options{.listen = {"127.0.0.1:0"}};
  options.certificate = first->certificate;
  options.key = first->key;
  options.anyone = true;
  auto server = Server::start(std::move(options), greeter);
  ASSERT_TRUE(server.ok());
  EXPECT_FALSE((*server)->replace_certificate(second->certificate, first->key).ok())
      << "a key of another certificate";
  ASSERT_TRUE((*server)->replace_certificate(second->certificate, second->key).ok());
  const TempFolder folder;
  std::ofstream(folder.file("ca.pem")) << authority->certificate;
  auto client = Client::connect((*server)->addresses().front(), {.ca_file = folder.file("ca.pem")});
  ASSERT_TRUE(client.ok()) << client.error().message();
  EXPECT_TRUE(client->call({.timeout = Duration(5000)}).ok());
}

}  // namespace
}  // namespace berth::net
