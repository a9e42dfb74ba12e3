// Api: requests of leases.md 3 and interfaces.md 4, answered through a lease::Service.
//
//   Api api(service, options);
//   api.handle(std::move(request), std::move(reply), moment);   // any number: one batch
//   const lease::Batch batch = service.take_batch();
//   if (store.commit(batch.records)) { service.settle(now); api.settled(batch, moment); }
//   else { service.undo(now); api.failed(moment); }
//
// Nothing leaves before the batch in which it was decided is on disk: answers wait in the outbox,
// long polls and streams are told in settled(). It owns the open long polls and streams.
// Thread-safety: none; one decision thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/route.h"
#include "api/write.h"
#include "lease/service.h"
#include "net/message.h"
#include "net/reply.h"

namespace berth::api {

struct Moment {
  lease::Now now;
  std::int64_t real_ms = 0;  // monotonic: long polls wait in real time, whatever `now` does
};

struct ApiOptions {
  std::string node;  // this machine's name in the fleet
  GuardHouse* guards = nullptr;
  std::string version;  // of the program
  // Called with the watch's number when the client of a long poll or stream has left. Any thread.
  std::function<void(std::uint64_t)> left;
  // Why the service is not ready although the service itself is; empty = it is.
  std::function<std::string()> not_ready = {};
  // Further lines for /metrics.
  std::function<std::string()> more_metrics = {};
};

lease::Party party_of(const net::Caller& caller);

class Api {
 public:
  Api(lease::Service& service, ApiOptions options);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  void handle(const net::Request& request, net::Reply reply, const Moment& moment);
  // The API's own calls, in the order in which they are tried.
  static std::vector<RoutePath> routes();
  // A further way: asked in order before the API's own. False = not its business.
  using Route = std::function<bool(const net::Request&, net::Reply&, const Moment&)>;
  void add_route(Route route);
  // An answer that waits for the batch, for routes.
  void answer(net::Reply reply, net::Response response);

  void client_left(std::uint64_t watch, const Moment& moment);
  // Long polls whose time is over.
  void tick(const Moment& moment);
  std::optional<std::int64_t> next_due_real_ms() const;

  void settled(const lease::Batch& batch, const Moment& moment);
  void failed(const Moment& moment);

  std::size_t watches() const { return watches_.size(); }

 private:
  struct Watch;
  struct Waiting {
    net::Reply reply;
    net::Response response;
    bool durable = true;  // its content depends on the batch
  };
  using Call = void (Api::*)(const net::Request&, net::Reply&, const Moment&);
  struct RouteRow;
  static std::span<const RouteRow> table();

  void post_lease(const net::Request& request, net::Reply& reply, const Moment& moment);
  void list_leases(const net::Request& request, net::Reply& reply, const Moment& moment);
  void get_lease(const net::Request& request, net::Reply& reply, const Moment& moment);
  void lease_events(const net::Request& request, net::Reply& reply, const Moment& moment);
  void confirm(const net::Request& request, net::Reply& reply, const Moment& moment);
  void renew(const net::Request& request, net::Reply& reply, const Moment& moment);
  void release(const net::Request& request, net::Reply& reply, const Moment& moment);
  void release_key(const net::Request& request, net::Reply& reply, const Moment& moment);
  void explain(const net::Request& request, net::Reply& reply, const Moment& moment);
  void devices(const net::Request& request, net::Reply& reply, const Moment& moment);
  void patch_device(const net::Request& request, net::Reply& reply, const Moment& moment);
  void queues(const net::Request& request, net::Reply& reply, const Moment& moment);
  void healthz(const net::Request& request, net::Reply& reply, const Moment& moment);
  void readyz(const net::Request& request, net::Reply& reply, const Moment& moment);
  void metrics(const net::Request& request, net::Reply& reply, const Moment& moment);
  void openapi(const net::Request& request, net::Reply& reply, const Moment& moment);

  void refuse(net::Reply& reply, const lease::Refusal& refusal);
  void answer_lease(net::Reply& reply, int status, const lease::Lease& lease, const Moment& moment);
  void answer_release(net::Reply& reply, const lease::Outcome<lease::Service::Release>& outcome,
                      const Moment& moment);
  void not_found(const net::Request& request, net::Reply& reply,
                 const std::vector<std::string>& allowed);
  std::uint64_t watch(const lease::Lease& lease, net::Reply& reply, const net::Request& request);
  void close_watch(std::uint64_t number, const Moment& moment);
  void tell(Watch& watch, const lease::Lease& lease, const Moment& moment);
  std::string metrics_text(const Moment& moment) const;
  void count(const lease::Batch& batch);

  lease::Service& service_;
  ApiOptions options_;
  std::vector<Route> routes_;
  std::vector<Waiting> outbox_;
  std::map<std::uint64_t, Watch> watches_;
  std::map<std::string, std::set<std::uint64_t>> watches_of_;   // by lease id
  std::set<std::pair<std::int64_t, std::uint64_t>> watch_due_;  // real ms
  std::vector<std::uint64_t>
      fresh_;  // streams opened in this batch: their first event waits for it
  std::uint64_t last_watch_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> events_;   // counted by kind
  std::map<std::string, std::uint64_t, std::less<>> answers_;  // reserve results, by result
};

}  // namespace berth::api
