// From what the engine finds to the closed list of reasons of leases.md 3.5.
#pragma once

#include "core/model/verdict.h"
#include "lease/lease.h"

namespace berth::lease {

// Of something that waits.
Reason reason_of(core::Cause cause);
// Of something that can never be.
Reason never_reason_of(core::Cause cause);

}  // namespace berth::lease
