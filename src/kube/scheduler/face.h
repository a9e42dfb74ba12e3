// Face: what the scheduler tells readers over HTTP. Nothing can be changed through it.
//
// /readyz, /metrics, and the JSON of the one-machine daemon: /v1/devices, /v1/leases (a lease is a
// pod of ours), /v1/leases/{id}, /v1/leases/{id}/explain, /v1/queues (src/kube/README.md).
// Thread-safety: the client's thread; answers are made from what is known at that moment.
#pragma once

#include <string>

#include "base/quantity.h"
#include "kube/client/client.h"
#include "kube/scheduler/caches.h"
#include "kube/scheduler/harbour.h"
#include "kube/scheduler/sender.h"
#include "net/message.h"

namespace berth::kube {

class Face {
 public:
  struct Facts {
    const Harbour* harbour = nullptr;  // null: another one leads
    const Caches* caches = nullptr;
    const Client* client = nullptr;
    const Sender* sender = nullptr;
    bool leads = false;
    std::string leader = {};
    bool dry_run = false;
    std::string version = {};
    Time now;
  };

  explicit Face(Facts facts) : facts_(std::move(facts)) {}

  net::Response answer(const net::Request& request) const;

 private:
  net::Response readiness() const;
  net::Response metrics() const;
  net::Response devices() const;
  net::Response leases(const net::Request& request) const;
  net::Response lease(const std::string& id) const;
  net::Response explain(const std::string& id) const;
  net::Response queues() const;

  Facts facts_;
};

}  // namespace berth::kube
