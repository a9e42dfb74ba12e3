#include "lease/reasons.h"

namespace berth::lease {

using core::Cause;

Reason reason_of(Cause cause) {
  switch (cause) {
    case Cause::none: return Reason::none;
    case Cause::reserved_for_other:
    case Cause::backfill_too_long: return Reason::behind_head;
    case Cause::device_cap: return Reason::device_cap;
    case Cause::stale_observation: return Reason::stale_samples;
    case Cause::no_usable_memory: return Reason::unknown_memory;
    case Cause::node_cordoned:
    case Cause::device_cordoned: return Reason::drained;
    case Cause::node_not_ready:
    case Cause::sharing_not_ready:
    case Cause::device_unhealthy: return Reason::unhealthy;
    case Cause::queue_held:
    case Cause::over_limit:
    case Cause::non_preemptible_over_quota: return Reason::quota;
    case Cause::no_node_matches:
    case Cause::untolerated_taint:
    case Cause::no_devices:
    case Cause::resource_kind_mismatch:
    case Cause::no_such_profile:
    case Cause::type_mismatch:
    case Cause::uuid_mismatch:
    case Cause::replicas_unknown:
    case Cause::device_not_owned:
    case Cause::backend_cannot_enforce:
    case Cause::largest_device_too_small:
    case Cause::exceeds_fleet:
    case Cause::no_topology_domain:
    case Cause::no_link_set: return Reason::no_eligible_device;
    default: return Reason::no_room;
  }
}

Reason never_reason_of(Cause cause) {
  switch (cause) {
    case Cause::no_node_matches:
    case Cause::no_devices:
    case Cause::resource_kind_mismatch:
    case Cause::no_such_profile:
    case Cause::type_mismatch:
    case Cause::uuid_mismatch:
    case Cause::untolerated_taint:
    case Cause::device_not_owned:
    case Cause::backend_cannot_enforce: return Reason::no_such_device;
    default: return Reason::too_large;
  }
}

}  // namespace berth::lease
