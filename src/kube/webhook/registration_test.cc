#include "kube/webhook/registration.h"

#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kube/client/text.h"
#include "net/certificate.h"

namespace berth::kube {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr std::int64_t kNow = 1'800'000'000;

std::string authority(std::int64_t from, std::int64_t to, std::string name = {}) {
  if (name.empty()) {
    name = kAuthorityName;
  }
  return net::make_authority({.name = name, .valid = {.from = from, .to = to}})->certificate;
}

Json configuration(const std::string& bundle, int webhooks = 2) {
  Json object = {{"metadata", {{"name", "berth-webhook"}, {"resourceVersion", "42"}}},
                 {"webhooks", Json::array()}};
  for (int i = 0; i < webhooks; ++i) {
    object["webhooks"].push_back(
        {{"name", fmt::format("w{}", i)},
         {"clientConfig",
          {{"service", {{"name", "berth-webhook"}}}, {"caBundle", to_base64(bundle)}}}});
  }
  return object;
}

Registration registered(const Json& object, const RegistrationWords& words) {
  json::DomParser parser;
  const std::string text = object.dump();
  auto result = registration_of(*parser.parse(text), "/mutate", words);
  EXPECT_TRUE(result.ok());
  return *std::move(result);
}

std::size_t count_of(const std::string& bundle) { return net::read_certificates(bundle)->size(); }

TEST(Registration, AddsOurAuthorityBesideThoseOfOtherReplicas) {
  const std::string ours = authority(kNow, kNow + 900);
  const std::string other = authority(kNow - 10, kNow + 900);
  const Json before = configuration(other);
  const Registration first = registered(before, {.authorities = {ours}, .now_s = kNow});
  EXPECT_FALSE(first.complete);
  const Json after = before.patch(Json::parse(first.patch));
  for (const Json& webhook : after["webhooks"]) {
    const std::string bundle = *from_base64(webhook["clientConfig"]["caBundle"].get<std::string>());
    EXPECT_THAT(bundle, HasSubstr(ours));
    EXPECT_THAT(bundle, HasSubstr(other));
    EXPECT_TRUE(webhook["clientConfig"].contains("service"));
  }
  const Registration second = registered(after, {.authorities = {ours}, .now_s = kNow});
  EXPECT_TRUE(second.complete);
  EXPECT_EQ(second.patch, "");
}

TEST(Registration, ThePatchFailsWhenSomebodyElseWasFirst) {
  const Json before = configuration("");
  const Registration registration =
      registered(before, {.authorities = {authority(kNow, kNow + 9)}, .now_s = kNow});
  Json changed = before;
  changed["metadata"]["resourceVersion"] = "43";
  EXPECT_THROW((void)changed.patch(Json::parse(registration.patch)), Json::exception);
}

TEST(Registration, TakesOutWhatHasExpiredAndWhatIsNotOurs) {
  const std::string ours = authority(kNow, kNow + 900);
  const std::string expired = authority(kNow - 900, kNow - 1);
  const std::string foreign = authority(kNow, kNow + 900, "somebody");
  const std::string bundle = bundle_of(expired + foreign, {.authorities = {ours}, .now_s = kNow});
  EXPECT_EQ(count_of(bundle), 1U);
  EXPECT_EQ(count_of(bundle_of("no certificate", {.authorities = {ours}, .now_s = kNow})), 1U);
}

TEST(Registration, ManyRestartsDoNotFillTheObject) {
  std::string standing;
  for (int i = 0; i < 40; ++i) {
    standing += authority(kNow - i, kNow + 900);
  }
  const std::string ours = authority(kNow + 1, kNow + 900);
  const std::string bundle = bundle_of(standing, {.authorities = {ours}, .now_s = kNow});
  const auto kept = *net::read_certificates(bundle);
  ASSERT_EQ(kept.size(), kMostAuthorities);
  EXPECT_EQ(kept.front().pem, ours);
  EXPECT_EQ(kept.back().valid.from, kNow - 14) << "the oldest leave";
}

TEST(Registration, AnAddressOfOurOwnReplacesTheService) {
  const std::string ours = authority(kNow, kNow + 900);
  const RegistrationWords words{
      .authorities = {ours}, .url = "https://10.1.2.3:8443", .now_s = kNow};
  const Json before = configuration(authority(kNow, kNow + 900));
  const Json after = before.patch(Json::parse(registered(before, words).patch));
  const Json& client = after["webhooks"][1]["clientConfig"];
  EXPECT_EQ(client["url"], "https://10.1.2.3:8443/mutate");
  EXPECT_FALSE(client.contains("service"));
  EXPECT_EQ(*from_base64(client["caBundle"].get<std::string>()), ours) << "we alone serve";
  EXPECT_TRUE(registered(after, words).complete);
}

TEST(Registration, BothAuthoritiesStandThereWhileOneFollowsTheOther) {
  const std::string current = authority(kNow, kNow + 900);
  const std::string next = authority(kNow + 5, kNow + 900);
  const Json before = configuration(current);
  const RegistrationWords words{.authorities = {current, next}, .now_s = kNow};
  const Registration registration = registered(before, words);
  EXPECT_FALSE(registration.complete);
  EXPECT_TRUE(registered(before.patch(Json::parse(registration.patch)), words).complete);
}

TEST(Registration, AConfigurationWithoutWebhooksIsAnError) {
  json::DomParser parser;
  const std::string text = configuration("", 0).dump();
  const auto result = registration_of(*parser.parse(text), "/mutate", {});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message(), HasSubstr("apply deploy/kubernetes again"));
}

}  // namespace
}  // namespace berth::kube
