#include "gpu/health.h"

#include <algorithm>
#include <utility>

#include "gpu/xid.h"

namespace berth::gpu {

namespace {

// Whether an event is one of this device: of its whole GPU, or of its very instance.
bool hits(const XidEvent& event, const DevicePlace& place) {
  if (event.uuid != place.gpu) return false;
  if (event.gpu_instance == kWholeGpu) return true;
  return event.gpu_instance == place.gpu_instance &&
         (event.compute_instance == kWholeGpu || event.compute_instance == place.compute_instance);
}

bool same_place(const XidEvent& left, const XidEvent& right) {
  return left.uuid == right.uuid && left.gpu_instance == right.gpu_instance &&
         left.compute_instance == right.compute_instance;
}

}  // namespace

void HealthBook::note(XidEvent event, Time now) {
  if (is_critical_xid(event.xid)) {
    const auto known = std::ranges::find_if(
        faults_, [&event](const Fault& fault) { return same_place(fault.event, event); });
    if (known == faults_.end()) {
      faults_.push_back({.event = event, .quiet_since = now, .errors = std::nullopt});
    } else {
      known->event.xid = event.xid;
      known->quiet_since = now;
    }
  }
  fresh_.push_back(std::move(event));
}

void HealthBook::settle(std::string_view gpu, const GpuProbe& probe, Time now) {
  std::erase_if(faults_, [&](Fault& fault) {
    if (fault.event.uuid != gpu) return false;
    const bool more_errors = fault.errors && probe.errors && *probe.errors > *fault.errors;
    if (!probe.answers || more_errors) fault.quiet_since = now;
    if (probe.errors) fault.errors = probe.errors;
    return now - fault.quiet_since >= quiet_;
  });
}

DeviceFaults HealthBook::of(const DevicePlace& place) const {
  DeviceFaults found;
  for (const Fault& fault : faults_) {
    if (!hits(fault.event, place)) continue;
    found.lost = true;
    found.cause = fault.event.xid;
  }
  for (const XidEvent& event : fresh_) {
    if (!hits(event, place)) continue;
    (is_critical_xid(event.xid) ? found.xids : found.app_xids).push_back(event.xid);
  }
  return found;
}

}  // namespace berth::gpu
