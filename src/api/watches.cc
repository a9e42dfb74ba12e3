// Long polls and streams: who waits for news of which lease, and what they are told.
#include <utility>

#include "api/api.h"
#include "api/watch.h"
#include "net/sse.h"

namespace berth::api {

using json::Value;
using lease::Lease;

std::uint64_t Api::watch(const Lease& lease, net::Reply& reply, const net::Request& request) {
  const std::uint64_t number = ++last_watch_;
  if (options_.left) {
    reply.on_gone([left = options_.left, number] { left(number); });
  }
  Watch& added = watches_[number];
  added.lease = lease.id;
  added.keeps = request.caller.name == lease.principal;
  watches_of_[lease.id].insert(number);
  return number;
}

void Api::close_watch(std::uint64_t number, const Moment& moment) {
  const auto found = watches_.find(number);
  if (found == watches_.end()) {
    return;
  }
  Watch& watch = found->second;
  if (watch.stream) {
    watch.stream->close();
  }
  watch_due_.erase({watch.due, number});
  if (watch.keeps) {
    service_.watching(watch.lease, false, moment.now);
  }
  const auto of = watches_of_.find(watch.lease);
  of->second.erase(number);
  if (of->second.empty()) {
    watches_of_.erase(of);
  }
  watches_.erase(found);
}

void Api::client_left(std::uint64_t watch, const Moment& moment) { close_watch(watch, moment); }

// Says what is new; a watch whose client needs no more is left without reply or open stream.
void Api::tell(Watch& watch, const Lease& lease, const Moment& moment) {
  if (lease.version <= watch.version) {
    return;
  }
  watch.version = lease.version;
  const Value value = lease_value(service_, lease, moment.now, options_.guards);
  if (watch.reply.has_value()) {
    watch.reply->send(json_response(200, value));
    watch.reply.reset();
    return;
  }
  if (watch.stream) {
    const bool leaves = lease.evicting.has_value() && lease::holds(lease.state);
    watch.stream->write(
        net::sse_text({.id = std::to_string(lease.version),
                       .event = std::string(leaves ? "evicting" : lease::state_name(lease.state)),
                       .data = json::dump(value)}));
    if (!lease::is_live(lease.state)) {
      watch.stream->close();
    }
  }
}

void Api::tick(const Moment& moment) {
  while (!watch_due_.empty() && watch_due_.begin()->first <= moment.real_ms) {
    const std::uint64_t number = watch_due_.begin()->second;
    Watch& watch = watches_.at(number);
    const Lease* lease = service_.find(watch.lease);
    if (watch.reply.has_value()) {
      if (lease != nullptr) {
        answer_lease(*watch.reply, 200, *lease, moment);
      }
      watch.reply.reset();
    }
    close_watch(number, moment);
  }
}

std::optional<std::int64_t> Api::next_due_real_ms() const {
  return watch_due_.empty() ? std::nullopt : std::optional(watch_due_.begin()->first);
}

}  // namespace berth::api
