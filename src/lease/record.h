// How leases and nodes are written down in the journal: one JSON object each, `"v":1`.
//
// What is read back is checked like anything from outside: a journal may have been edited, or come
// from another version. Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "core/model/device.h"
#include "lease/lease.h"

namespace berth::lease {

std::string lease_record(const Lease& lease);
// Errors: invalid_argument naming what is missing or out of range.
Result<Lease> read_lease(std::string_view body);

std::string node_record(const core::Node& node);
Result<core::Node> read_node(std::string_view body);

}  // namespace berth::lease
