// The calls under /v1/leases and /v1/release.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "api/api.h"
#include "api/query.h"
#include "api/read_reserve.h"
#include "api/watch.h"

namespace berth::api {

using json::Value;
using lease::Lease;
using lease::Outcome;
using lease::Refusal;
using lease::State;

void Api::post_lease(const net::Request& request, net::Reply& reply, const Moment& moment) {
  if (auto known = check_query(request, {"dry_run"}); !known) {
    return refuse(reply, known.error());
  }
  const Outcome<Value> body = read_body(request.body);
  if (!body) {
    return refuse(reply, body.error());
  }
  const lease::Party party = party_of(request.caller);
  Outcome<Reserve> reserve = read_reserve(*body, party, {.node = options_.node});
  if (!reserve) {
    ++answers_["refused"];
    return refuse(reply, reserve.error());
  }
  const auto dry = query_flag(request, "dry_run");
  if (!dry) {
    return refuse(reply, dry.error());
  }
  if (*dry) {
    const Outcome<core::Verdict> verdict = service_.dry_run(party, reserve->ask, moment.now);
    if (!verdict) {
      return refuse(reply, verdict.error());
    }
    return answer(
        std::move(reply),
        json_response(200, explain_value(service_, reserve->ask, nullptr, *verdict, moment.now)));
  }
  const Outcome<lease::Reserved> reserved =
      service_.reserve(party, std::move(reserve->ask), moment.now, reserve->supersedes);
  if (!reserved) {
    ++answers_[reserved.error().code == "never" ? "never" : "refused"];
    return refuse(reply, reserved.error());
  }
  const bool waits = reserved->lease->state == State::waiting;
  ++answers_[reserved->known ? "known" : waits ? "waiting" : "granted"];
  answer_lease(reply, reserved->known ? 200 : waits ? 202 : 201, *reserved->lease, moment);
}

namespace {

// "waiting", or several with commas between them; "live" stands for all that are not ended.
Outcome<std::vector<State>> read_states(std::string_view text) {
  std::vector<State> states;
  while (true) {
    const std::string_view word = text.substr(0, text.find(','));
    if (word == "live") {
      states.insert(states.end(),
                    {State::waiting, State::granted, State::active, State::suspect, State::ending});
    } else if (const auto state = lease::state_from_name(word)) {
      states.push_back(*state);
    } else {
      return std::unexpected(bad_query("state", word,
                                       "is a state of a lease, such as waiting, granted, active or "
                                       "released, or live for all that have not ended"));
    }
    if (word.size() == text.size()) {
      return states;
    }
    text.remove_prefix(word.size() + 1);
  }
}

}  // namespace

void Api::list_leases(const net::Request& request, net::Reply& reply, const Moment& moment) {
  if (auto known = check_query(
          request, {"state", "owner", "key_prefix", "device", "node", "queue", "limit", "cursor"});
      !known) {
    return refuse(reply, known.error());
  }
  lease::Filter filter;
  const auto text = [&](std::string_view name) {
    const std::string* value = request.query_value(name);
    return value == nullptr ? std::string() : *value;
  };
  if (const std::string state = text("state"); !state.empty()) {
    Outcome<std::vector<State>> states = read_states(state);
    if (!states) {
      return refuse(reply, states.error());
    }
    filter.states = std::move(*states);
  }
  filter.owner = text("owner");
  filter.key_prefix = text("key_prefix");
  filter.device = text("device");
  filter.node = text("node");
  filter.queue = text("queue");
  const auto limit = query_number(request, "limit", 1, 10'000);
  if (!limit) {
    return refuse(reply, limit.error());
  }
  const std::size_t most = static_cast<std::size_t>(limit->value_or(1000));
  const std::vector<const Lease*> found = service_.list(party_of(request.caller), filter);
  // A cursor is the id of the last lease that was shown.
  std::size_t first = 0;
  if (const std::string cursor = text("cursor"); !cursor.empty()) {
    const auto at =
        std::ranges::find_if(found, [&](const Lease* lease) { return lease->id == cursor; });
    if (at == found.end()) {
      return refuse(reply,
                    bad_query("cursor", cursor,
                              "is next_cursor of an earlier answer; it is gone: start anew"));
    }
    first = static_cast<std::size_t>(at - found.begin()) + 1;
  }
  json::Array rows;
  for (std::size_t i = first; i < found.size() && rows.size() < most; ++i) {
    rows.push_back(lease_value(service_, *found[i], moment.now, nullptr));
  }
  Value value = json::object();
  const bool more = first + rows.size() < found.size();
  value.set("next_cursor", more ? Value(found[first + rows.size() - 1]->id) : Value());
  value.set("leases", std::move(rows));
  answer(std::move(reply), json_response(200, value));
}

void Api::get_lease(const net::Request& request, net::Reply& reply, const Moment& moment) {
  if (auto known = check_query(request, {"wait", "version"}); !known) {
    return refuse(reply, known.error());
  }
  const auto wait = query_number(request, "wait", 0, 60);
  const auto version = query_number(request, "version", 0, INT64_MAX);
  if (!wait || !version) {
    return refuse(reply, !wait ? wait.error() : version.error());
  }
  const Outcome<const Lease*> lease =
      service_.read(party_of(request.caller), request.segments[2], moment.now);
  if (!lease) {
    return refuse(reply, lease.error());
  }
  const auto seen = static_cast<std::uint64_t>(version->value_or(0));
  // Another version, not a later one alone: a journal from a backup begins at earlier ones.
  if (wait->value_or(0) == 0 || (*lease)->version != seen || !lease::is_live((*lease)->state)) {
    return answer_lease(reply, 200, **lease, moment);
  }
  const std::uint64_t number = watch(**lease, reply, request);
  Watch& added = watches_.at(number);
  added.version = seen;
  added.due = moment.real_ms + **wait * 1000;
  added.reply = std::move(reply);
  watch_due_.emplace(added.due, number);
  if (added.keeps) {
    service_.watching(added.lease, true, moment.now);
  }
}

void Api::lease_events(const net::Request& request, net::Reply& reply, const Moment& moment) {
  const Outcome<const Lease*> lease =
      service_.read(party_of(request.caller), request.segments[2], moment.now);
  if (!lease) {
    return refuse(reply, lease.error());
  }
  const auto seen = number_of(request.last_event_id);
  const std::uint64_t number = watch(**lease, reply, request);
  Watch& added = watches_.at(number);
  // What lies ahead of it was said by a journal that a backup has taken the place of: all is new.
  const bool known =
      seen.has_value() && *seen > 0 && static_cast<std::uint64_t>(*seen) <= (*lease)->version;
  added.version = known ? static_cast<std::uint64_t>(*seen) : 0;
  net::Response head;
  head.content_type = "text/event-stream";
  head.headers.emplace_back("Cache-Control", "no-store");
  added.stream = reply.stream(std::move(head));
  if (added.keeps) {
    service_.watching(added.lease, true, moment.now);
  }
  fresh_.push_back(number);
}

void Api::confirm(const net::Request& request, net::Reply& reply, const Moment& moment) {
  const Outcome<Value> body = read_body(request.body);
  if (!body) {
    return refuse(reply, body.error());
  }
  static constexpr auto kKnown = std::to_array<std::string_view>({"pid", "cgroup", "pod_uid"});
  if (auto known = check_fields(*body, kKnown); !known) {
    return refuse(reply, known.error());
  }
  local::Confirmation confirmation;
  if (const Value* pid = body->find("pid"); pid != nullptr && !pid->is_null()) {
    if (!pid->is_integer() || pid->as_integer() <= 0) {
      return refuse(reply, bad_field("pid", *pid, "pid is the number of a process",
                                     "as the daemon's machine counts them"));
    }
    confirmation.pid = pid->as_integer();
  }
  for (const auto& [name, into] :
       {std::pair("cgroup", &confirmation.cgroup), std::pair("pod_uid", &confirmation.pod_uid)}) {
    if (const Value* text = body->find(name); text != nullptr && !text->is_null()) {
      if (!text->is_string() || text->as_string().size() > 4096) {
        return refuse(reply, bad_field(name, *text, fmt::format("{} is a string", name),
                                       "leave it out where there is none"));
      }
      *into = text->as_string();
    }
  }
  const Outcome<const Lease*> lease =
      service_.confirm(party_of(request.caller), request.segments[2], confirmation, moment.now);
  if (!lease) {
    return refuse(reply, lease.error());
  }
  answer_lease(reply, 200, **lease, moment);
}

void Api::renew(const net::Request& request, net::Reply& reply, const Moment& moment) {
  const Outcome<Value> body = read_body(request.body);
  if (!body) {
    return refuse(reply, body.error());
  }
  if (auto known = check_fields(*body, {}); !known) {
    return refuse(reply, known.error());
  }
  const Outcome<const Lease*> lease =
      service_.renew(party_of(request.caller), request.segments[2], moment.now);
  if (!lease) {
    return refuse(reply, lease.error());
  }
  answer_lease(reply, 200, **lease, moment);
}

void Api::answer_release(net::Reply& reply, const Outcome<lease::Service::Release>& outcome,
                         const Moment& moment) {
  if (!outcome) {
    return refuse(reply, outcome.error());
  }
  Value value = json::object({{"released", outcome->released}});
  value.set("lease", outcome->lease != nullptr
                         ? lease_value(service_, *outcome->lease, moment.now, options_.guards)
                         : Value());
  answer(std::move(reply), json_response(200, value));
}

namespace {

struct ReleaseBody {
  bool if_gone = false;
  std::string reason;
  std::string key;
};

Outcome<ReleaseBody> read_release(const net::Request& request, bool with_key) {
  static constexpr auto kKnown = std::to_array<std::string_view>({"reason", "if_gone", "key"});
  const Outcome<Value> body = read_body(request.body);
  if (!body) {
    return std::unexpected(body.error());
  }
  if (auto known = check_fields(*body, std::span(kKnown).first(with_key ? 3 : 2)); !known) {
    return std::unexpected(known.error());
  }
  ReleaseBody read;
  if (const Value* flag = body->find("if_gone"); flag != nullptr && !flag->is_null()) {
    if (!flag->is_bool()) {
      return std::unexpected(bad_field("if_gone", *flag, "if_gone is true or false",
                                       "leave it out for a plain release"));
    }
    read.if_gone = flag->as_bool();
  }
  if (const Value* reason = body->find("reason"); reason != nullptr && !reason->is_null()) {
    if (!reason->is_string() || reason->as_string().size() > 512) {
      return std::unexpected(bad_field("reason", *reason, "reason is a string of at most 512 bytes",
                                       "leave it out where there is none"));
    }
    read.reason = reason->as_string();
  }
  const Value* key = body->find("key");
  if (with_key) {
    if (key == nullptr || !key->is_string() || key->as_string().empty()) {
      return std::unexpected(Refusal{.status = 400,
                                     .code = "invalid-key",
                                     .field = "key",
                                     .message = "key is the key of the lease, and required",
                                     .hint = "send {\"key\": \"…\"}"});
    }
    read.key = key->as_string();
  }
  return read;
}

}  // namespace

void Api::release(const net::Request& request, net::Reply& reply, const Moment& moment) {
  const Outcome<ReleaseBody> body = read_release(request, false);
  if (!body) {
    return refuse(reply, body.error());
  }
  answer_release(reply,
                 service_.release(party_of(request.caller), request.segments[2], body->if_gone,
                                  body->reason, moment.now),
                 moment);
}

void Api::release_key(const net::Request& request, net::Reply& reply, const Moment& moment) {
  const Outcome<ReleaseBody> body = read_release(request, true);
  if (!body) {
    return refuse(reply, body.error());
  }
  answer_release(reply,
                 service_.release_key(party_of(request.caller), body->key, body->if_gone,
                                      body->reason, moment.now),
                 moment);
}

void Api::explain(const net::Request& request, net::Reply& reply, const Moment& moment) {
  const Outcome<core::Verdict> verdict =
      service_.explain(party_of(request.caller), request.segments[2]);
  if (!verdict) {
    return refuse(reply, verdict.error());
  }
  const Lease* lease = service_.find(request.segments[2]);
  answer(std::move(reply),
         json_response(200, explain_value(service_, lease->ask, lease, *verdict, moment.now)));
}

}  // namespace berth::api
