// What pods and nodes alone tell of a cluster's GPUs, in the words of the daemon: for the time in
// which no scheduler answers. No places in a queue, no alternatives; the sentence is that of the
// pod's own condition. Thread-safety: functions of their arguments.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "json/value.h"

namespace berth::cli {

// Reads one path of the Kubernetes API: the body of a good answer.
using ReadPath = std::function<Result<std::string>(const std::string&)>;

// `target` as a daemon is asked: "/v1/devices", "/v1/leases?state=live", "/v1/leases/NS%2FPOD",
// "/v1/leases/NS%2FPOD/explain". Errors: those of `read`; not_found for a pod that Berth does not
// schedule, and for what only a scheduler knows.
Result<json::Value> scan_cluster(const std::string& target, const ReadPath& read);

}  // namespace berth::cli
