// Credentials: what we prove ourselves with, kept fresh (kubernetes-api.md 9).
//
// Files are read again every minute and after a 401, an exec plug-in is run again when four fifths
// of its credential's life are over and after a 401. Nothing here is ever logged or put into an
// error. Thread-safety: the client's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/client/access.h"
#include "kube/client/clock.h"
#include "kube/client/poller.h"

namespace berth::kube {

// All of it secret, except the authorities. A value that never changes; another one replaces it.
struct CredentialSet {
  std::vector<std::string> headers = {};  // "Authorization: Bearer …", "Impersonate-User: …"
  std::string ca_pem = {};
  std::string certificate_pem = {};
  std::string key_pem = {};

  bool operator==(const CredentialSet&) const = default;
};

class Credentials {
 public:
  // `changed` is called in a turn of the poller or of the timers when current() is another one, or
  // when there is no hope for the moment (then current() is null and trouble() says why).
  static Result<std::unique_ptr<Credentials>> make(const Access& access, Poller& poller,
                                                   Timers& timers, std::function<void()> changed);
  virtual ~Credentials() = default;

  // Null: being fetched, or trouble() says why there are none. Asking starts what is needed.
  virtual std::shared_ptr<const CredentialSet> current() = 0;
  // The server answered 401 to this. True: there is, or soon will be, something else to try with.
  virtual bool rejected(const std::shared_ptr<const CredentialSet>& used) = 0;
  // One sentence; empty: none.
  virtual std::string trouble() const = 0;
};

}  // namespace berth::kube
