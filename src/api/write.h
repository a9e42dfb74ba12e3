// Leases, devices, queues and refusals as the JSON of leases.md 3.3, 3.5 and interfaces.md 4.
//
// Thread-safety: functions of their arguments; the decision thread calls them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/queue/queue_tree.h"
#include "json/value.h"
#include "lease/service.h"
#include "net/message.h"

namespace berth::api {

// Where the guard finds the limits of a lease; made on first use.
struct GuardPaths {
  std::string directory;  // BERTH_GRANT_DIR
  std::string library;    // LD_PRELOAD
};

class GuardHouse {
 public:
  virtual ~GuardHouse() = default;
  // Empty: there is no guard for this lease (no library, no device it can limit, or it failed).
  virtual std::optional<GuardPaths> paths(const lease::Lease& lease) = 0;
};

// RFC 3339, UTC, whole seconds; from ms since 1970.
std::string time_text(std::int64_t wall_ms);

// The environment of leases.md 3.6.
json::Value environment(const lease::Service& service, const lease::Lease& lease,
                        GuardHouse* guards);

json::Value lease_value(const lease::Service& service, const lease::Lease& lease, lease::Now now,
                        GuardHouse* guards);
// Why it waits, with those whose bursts are in its way; else what was last said of it.
std::string message_of(const lease::Service& service, const lease::Lease& lease,
                       const core::Verdict& verdict);
// What is missing on the nearest device; null where something else than memory is missing.
json::Value shortfall_value(const lease::Ask& ask, lease::Reason reason,
                            const core::Verdict& verdict);
json::Value device_value(const lease::Device& device);
json::Value queues_value(const lease::Service& service);

struct QueueCount {
  std::int64_t waiting = 0;
  std::int64_t running = 0;
};

using QueueCounts = std::map<std::string, QueueCount>;  // by queue
json::Value queues_value(const core::QueueTree& tree, QueueCounts counts);
// One change that alone would let it start, in words.
std::string help_text(const core::Unblock& help);
// 3.5: per device, what would help, and the verdict of queues 9.1 as `detail`.
json::Value explain_value(const lease::Service& service, const lease::Ask& ask,
                          const lease::Lease* lease, const core::Verdict& verdict, lease::Now now);

net::Response json_response(int status, const json::Value& value);
net::Response refusal_response(const lease::Refusal& refusal);
// 405, with the methods that the path takes.
net::Response wrong_method(const net::Request& request, std::span<const std::string> allowed);

}  // namespace berth::api
