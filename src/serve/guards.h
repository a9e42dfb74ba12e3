// Guards: the grant directories of the leases of this machine: made when a lease's environment is
// first told, gone with the lease. Each belongs to the user of its lease, and nobody else can enter
// it: its programs write their account there.
//
// Between the request and the limit of a lease its cap moves with the room on its devices
// (enforcement.md 2.8): what nobody was promised and nobody uses is divided among those that may
// burst; a waiting claim that would fit without bursts takes it back first. Never below the
// request. Thread-safety: none; the decision thread's.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "api/write.h"
#include "grant/directory.h"
#include "lease/service.h"

namespace berth::serve {

class Guards final : public api::GuardHouse {
 public:
  // `library` empty: there is no guard. `directory` is made when first needed.
  Guards(std::string directory, std::string library);
  ~Guards() override;

  std::optional<api::GuardPaths> paths(const lease::Lease& lease) override;

  // After a restart: what leases that live have stays, the rest is removed.
  void restore(const lease::Service& service);
  void ended(const std::string& lease);
  // Moves the caps to what the books allow now.
  void balance(const lease::Service& service);
  // What leases that may burst use now, by their accounts.
  lease::Service::Uses uses(const lease::Service& service) const;

  const std::string& library() const { return library_; }
  // The last thing that went wrong, for the log; told once.
  std::string take_problem() { return std::exchange(problem_, {}); }

 private:
  struct Grant;

  std::string path_of(const std::string& lease) const;
  bool make(const lease::Lease& lease);
  bool make_place(const lease::Lease& lease);

  std::string directory_;
  std::string library_;
  std::string problem_;
  std::map<std::string, std::unique_ptr<Grant>> grants_;  // by lease
  std::set<std::string> bursting_;                        // those whose limit exceeds their request
  std::set<std::string> without_;                         // leases that no guard can limit
};

}  // namespace berth::serve
