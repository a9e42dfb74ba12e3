// Pods and devices in the JSON of the one-machine daemon, so that verbs and tables exist once.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "json/value.h"
#include "kube/scheduler/harbour.h"

namespace berth::kube {

// The states of leases.md 3.4, as far as a pod has them.
std::string_view lease_state(const Harbour::View& pod);

// Who is before whom, in its queue, as of now.
class PlacesInQueue {
 public:
  struct Place {
    std::int64_t index = 0;  // from 1
    std::int64_t of = 0;
  };

  explicit PlacesInQueue(const Harbour& harbour);
  // index 0: it does not wait in the engine.
  Place of(const std::string& id) const;
  // All pods of ours: those that wait first, as they will be served; then the others by name.
  const std::vector<std::string>& in_order() const { return order_; }

 private:
  std::map<std::string, std::pair<std::int64_t, std::string>> places_;  // index and queue
  std::map<std::string, std::int64_t> waiting_;                         // by queue
  std::vector<std::string> order_;
};

// The filters of `GET /v1/leases`. Unknown words are none of them.
class LeaseFilter {
 public:
  void set(std::string_view name, const std::string& value);
  bool takes(const json::Value& lease) const;

 private:
  std::set<std::string, std::less<>> states_;
  std::string owner_;
  std::string queue_;
  std::string device_;
};

// Requires: `id` is a pod of ours. `now`: milliseconds since 1970.
json::Value lease_value(const Harbour& harbour, const std::string& id, const PlacesInQueue& places,
                        Time now);
// With the devices that are nearest to what it needs, or hold it, and what would help.
json::Value explained_lease(const Harbour& harbour, const std::string& id,
                            const PlacesInQueue& places, Time now);
json::Value device_value(const core::Engine& engine, core::NodeId node, core::DeviceId id);

}  // namespace berth::kube
