// Workload: what is decided together, and Grant: the answer that it may run. Values.
//
// A workload is one task, or a gang: a tree of groups whose members start together (gang.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/model/gang.h"
#include "core/model/ids.h"
#include "core/model/request.h"

namespace berth::core {

struct WorkloadOptions {
  std::string queue = "default";
  std::int64_t priority = 0;  // higher first; aging adds to it while it waits
  bool preemptible = false;
  bool restartable = true;       // something starts it again elsewhere: it may be moved
  bool backfill = false;         // marked to fill a gap: it leaves when a reservation becomes due
  Duration preemption_delay{0};  // it causes no eviction before it has waited so long
  std::optional<Duration> max_run =
      std::nullopt;  // declared run time from its grant: what ETA and backfill count on
  std::optional<Time> queued_at =
      std::nullopt;  // keeps its age when submitted again; empty = the event's time
  std::optional<Duration> wait_timeout =
      std::nullopt;  // 0 = now or never mind; empty = wait as long as it takes
  std::optional<Duration> confirm_within =
      std::nullopt;  // an unconfirmed grant returns to the pool after this
  std::optional<std::string> policy =
      std::nullopt;  // how its place is chosen, as in `berth policies`; empty = as its queue says
  // Somebody else decided it and it runs: adopted, never submitted. It counts in no queue and is
  // never asked to leave; devices that it has whole are told as held by a peer.
  bool foreign = false;
  bool operator==(const WorkloadOptions&) const = default;
};

class Workload {
 public:
  static Workload task(std::string uid, Request request, WorkloadOptions options = {});
  // Errors: those of check_group (gang.h), and a negative time-out.
  static Result<Workload> gang(std::string uid, Gang gang, WorkloadOptions options = {});

  const std::string& uid() const { return uid_; }
  // Of a gang: what its first member asks for, or nothing while no member exists.
  const Request& request() const;
  const WorkloadOptions& options() const { return options_; }
  // Null for a task.
  const Gang* gang() const { return gang_.get(); }
  bool operator==(const Workload& other) const;

 private:
  Workload(std::string uid, Request request, WorkloadOptions options)
      : uid_(std::move(uid)), request_(std::move(request)), options_(std::move(options)) {}
  std::string uid_;
  Request request_;
  WorkloadOptions options_;
  std::shared_ptr<const Gang> gang_;
};

// What a grant's memory limit is really held by.
enum class Isolation : std::uint8_t { hardware, driver, library, advisory };

// One device of one container.
struct DeviceShare {
  DeviceId device;
  std::int64_t request_mib = 0;
  std::int64_t limit_mib = 0;
  bool operator==(const DeviceShare&) const = default;
};

struct ContainerGrant {
  std::uint32_t container = 0;  // index into Request::containers()
  std::vector<DeviceShare> shares;
  bool operator==(const ContainerGrant&) const = default;
};

// What a grant takes of one device: the largest phase now, and what stays once its init containers
// are done (annotations.md 1.4, "pod phases on one Device").
struct DeviceCharge {
  DeviceId device;
  std::int64_t starting_mib = 0;
  std::int64_t running_mib = 0;
  std::int64_t starting_limit_mib = 0;
  std::int64_t running_limit_mib = 0;
  std::int64_t starting_nano = 0;
  std::int64_t running_nano = 0;
  int compute_milli = 0;  // 0 = undeclared
  bool exclusive = false;
  bool mutex = false;  // it starts only on a device without grants
  SharingMode mode = SharingMode::time_slicing;
  bool operator==(const DeviceCharge&) const = default;
};

enum class GrantState : std::uint8_t {
  promised,   // room is being freed for it (L3): booked, not running
  granted,    // counts in full from the moment of the answer
  active,     // confirmed
  releasing,  // its end has been asked for; it counts until it is gone
};

struct Grant {
  std::uint64_t number = 0;  // rises by one per grant of an engine
  NodeId node;
  GrantState state = GrantState::granted;
  bool starting = false;  // init containers still run: the starting charge counts
  bool adopted = false;   // found running, not decided here: it may break the rules
  bool foreign = false;   // WorkloadOptions::foreign
  Isolation isolation = Isolation::advisory;
  Time granted_at;
  Milli cpu;
  Memory ram;
  std::vector<ContainerGrant> containers;
  std::vector<DeviceCharge> charges;  // one per device, by device id ascending
};

}  // namespace berth::core
