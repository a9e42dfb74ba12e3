#include "kube/webhook/registration.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "json/text.h"
#include "kube/client/text.h"
#include "net/certificate.h"

namespace berth::kube {

namespace {

using net::CertificateFacts;

std::vector<CertificateFacts> certificates_in(std::string_view pem) {
  auto read = net::read_certificates(std::string(pem));
  return read.ok() ? *std::move(read) : std::vector<CertificateFacts>();
}

bool contains(const std::vector<CertificateFacts>& all, const CertificateFacts& one) {
  return std::ranges::find(all, one.fingerprint, &CertificateFacts::fingerprint) != all.end();
}

std::vector<CertificateFacts> ours(const RegistrationWords& words) {
  std::vector<CertificateFacts> all;
  for (const std::string& pem : words.authorities) {
    std::ranges::move(certificates_in(pem), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::string bundle_of(std::string_view standing, const RegistrationWords& words) {
  std::vector<CertificateFacts> all = ours(words);
  if (words.url.empty()) {
    std::vector<CertificateFacts> others = certificates_in(standing);
    std::ranges::stable_sort(others, std::greater{},
                             [](const CertificateFacts& c) { return c.valid.from; });
    for (CertificateFacts& other : others) {
      const bool alive = other.subject == kAuthorityName && other.valid.to > words.now_s;
      if (alive && all.size() < kMostAuthorities && !contains(all, other)) {
        all.push_back(std::move(other));
      }
    }
  }
  std::string bundle;
  for (const CertificateFacts& certificate : all) {
    bundle += certificate.pem;
  }
  return bundle;
}

Result<Registration> registration_of(json::Element configuration, std::string_view path,
                                     const RegistrationWords& words) {
  const json::Element webhooks = configuration["webhooks"];
  if (webhooks.size() == 0) {
    return invalid_argument(
        fmt::format("the configuration {} has no webhooks; apply deploy/kubernetes again",
                    configuration["metadata"]["name"].text()));
  }
  const std::vector<CertificateFacts> own = ours(words);
  const std::string url = words.url.empty() ? "" : words.url + std::string(path);
  json::Text patch;
  patch.open_list().open_object().key("op").put("test");
  patch.key("path").put("/metadata/resourceVersion");
  patch.key("value").put(configuration["metadata"]["resourceVersion"].text()).close_object();
  bool complete = true;
  std::size_t place = 0;
  for (const json::Element webhook : webhooks.items()) {
    const json::Element client = webhook["clientConfig"];
    const auto decoded = from_base64(client["caBundle"].text());
    const std::string standing = decoded ? *decoded : "";
    const std::vector<CertificateFacts> trusted = certificates_in(standing);
    const bool trusts = std::ranges::all_of(
        own, [&](const CertificateFacts& one) { return contains(trusted, one); });
    const bool found = client["url"].text() == url;
    const std::string where = fmt::format("/webhooks/{}/clientConfig", place++);
    if (trusts && found) {
      continue;
    }
    complete = false;
    const std::string bundle = to_base64(bundle_of(standing, words));
    patch.open_object().key("op").put("add");
    if (url.empty()) {
      patch.key("path").put(where + "/caBundle").key("value").put(bundle);
    } else {
      patch.key("path").put(where).key("value").open_object();
      patch.key("url").put(url).key("caBundle").put(bundle).close_object();
    }
    patch.close_object();
  }
  patch.close_list();
  return Registration{.complete = complete, .patch = complete ? "" : patch.take()};
}

}  // namespace berth::kube
