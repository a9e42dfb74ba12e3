// Lease: a grant held by somebody outside, from the moment it was asked for until a day after its
// end (leases.md 1, 3.3, 3.4).
//
// A plain value. Service (service.h) alone changes it; record.h writes it down. Engine times are
// what decides; wall times are only shown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "core/engine/actions.h"
#include "core/model/request.h"
#include "core/model/workload.h"
#include "local/attribution.h"

namespace berth::lease {

using core::Request;

enum class State : std::uint8_t {
  waiting,
  granted,  // counts in full; to be confirmed
  active,
  suspect,  // not renewed in time; counts while a process of it is left
  ending,   // its end was asked for; counts while a process of it is left
  released,
  cancelled,
  timed_out,
  expired,
  lost,
  never,
};

std::string_view state_name(State state);  // "timed-out"
std::optional<State> state_from_name(std::string_view name);
// It holds a place in the books.
bool holds(State state);
// It waits or holds.
bool is_live(State state);

// Why a lease is in its state: leases.md 3.5 (waiting and never) and what ended it.
enum class Reason : std::uint8_t {
  none,
  // waiting
  no_room,
  behind_head,
  device_cap,
  quota,
  stale_samples,
  unknown_memory,
  no_source,
  reconciling,
  drained,
  unhealthy,
  no_eligible_device,
  ledger_unwritable,
  // never
  too_large,
  gpu_disabled,
  no_such_device,
  // suspect and ending
  not_renewed,
  process_alive,
  // ended
  not_confirmed,
  client_silent,
  process_ended,
  forced,
  queue_timeout,
  device_lost,
  evicted,
  superseded,
  overuse,
  kCount,
};

std::string_view reason_name(Reason reason);  // "no-room"; empty for none
std::optional<Reason> reason_from_name(std::string_view name);

// Who acts: a user of this machine by its socket, or the holder of a token.
struct Party {
  std::string name;  // "alice", "token:airflow"
  bool admin = false;
  bool local = false;  // over the Unix socket
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct Held {
  std::string uuid;
  int index = 0;  // when it was granted; informational
  std::string model;
  bool mig = false;
  std::int64_t request_mib = 0;
  std::int64_t limit_mib = 0;
  bool operator==(const Held&) const = default;
};

// A claim that has to leave by `deadline`.
struct Eviction {
  std::string beneficiary;  // lease id; empty = none
  core::Evicted::Rule rule = core::Evicted::Rule::guarantee;
  Time deadline;
  std::string text;
  bool operator==(const Eviction&) const = default;
};

// What is asked for: the part of a lease that never changes.
struct Ask {
  std::string key;  // 1 … 512 bytes, of one principal
  std::string owner;
  std::map<std::string, std::string> labels;
  Request request;  // one container "main"
  std::string queue = "default";
  std::int64_t priority = 0;
  std::string policy;  // empty = the queue's
  bool preemptible = false;
  bool container = false;
  bool guard = true;
  bool wait_for_hardware = false;
  std::optional<Duration> queue_timeout;  // Q
  std::optional<Duration> confirm;        // G
  std::optional<Duration> ttl;            // T
  std::optional<Duration> max_run;
  std::string kaapana;  // executor_config as it came, JSON text; empty = single fields were used

  const core::DeviceAsk& gpu() const;
};

struct Lease {
  std::uint64_t number = 0;
  std::string id;  // "l-" and the number in hexadecimal
  Ask ask;
  std::string principal;  // who reserved: sees and ends it
  bool local = false;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  std::uint64_t version = 1;  // rises on state, reason and device, never on position
  State state = State::waiting;
  Reason reason = Reason::none;
  std::string message;

  std::string node;
  std::vector<Held> devices;
  core::Isolation isolation = core::Isolation::advisory;
  std::optional<local::Proof> proof;  // what ties processes to it; from confirm
  std::optional<Eviction> evicting;

  Time queued_at;
  std::int64_t queued_wall = 0;  // ms since 1970
  std::optional<Time> granted_at;
  std::int64_t granted_wall = 0;
  std::optional<Time> ended_at;
  std::int64_t ended_wall = 0;
  std::optional<Time> confirm_by;  // granted
  std::optional<Time> renew_by;    // active
  std::optional<Time> heard_by;    // waiting: W; not written down
  std::optional<Time> deadline;    // waiting: Q
  std::optional<Time> force_by;    // suspect, ending: F
  std::optional<Time> forget_at;   // ended, or without a GPU: D

  bool wants_gpu() const { return ask.request.wants_gpu(); }
};

}  // namespace berth::lease
