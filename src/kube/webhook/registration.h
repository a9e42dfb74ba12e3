// What stands in the webhook configurations about us: whom the API server is to trust, and where we
// are. Functions of values; who reads and writes them is webhook.cc.
//
// Every replica has an authority of its own, whose key never leaves its process. The caBundle of
// the configurations is the union: each replica adds its own certificate and takes out only those
// that have expired. Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/dom.h"

namespace berth::kube {

inline constexpr std::string_view kConfigurationName = "berth-webhook";
inline constexpr std::string_view kAuthorityName = "berth-webhook authority";
// Beyond it the oldest leave: a loop of restarts must not fill the object.
inline constexpr std::size_t kMostAuthorities = 16;

struct RegistrationWords {
  std::vector<std::string> authorities = {};  // PEM of ours: the one in use, and the next
  // Empty: the configurations name a service, and others serve beside us. Else we alone serve, at
  // this address: "https://10.1.2.3:8443"; paths are added.
  std::string url = {};
  std::int64_t now_s = 0;  // since 1970
};

struct Registration {
  bool complete = false;   // every webhook trusts our authorities (and has our address)
  std::string patch = {};  // JSON Patch that makes it so; empty when complete
};

// `configuration`: a Mutating- or ValidatingWebhookConfiguration; `path` is what follows the URL.
// Errors: invalid_argument when it has no webhook.
Result<Registration> registration_of(json::Element configuration, std::string_view path,
                                     const RegistrationWords& words);

// The union described above; what stood there and cannot be read leaves. Newest first.
std::string bundle_of(std::string_view standing, const RegistrationWords& words);

}  // namespace berth::kube
