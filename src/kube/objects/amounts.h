// What a pod takes of a node, by the formula of Kubernetes (kubernetes-api.md 12).
//
//   TRY(Amounts request, effective_request(pod));
//   request["cpu"];                 // millicores
//   request["nvidia.com/gpu"];      // whole units; bytes of memory and storage
//   request["pods"];                // 1
//
// GPU memory and compute follow the same formula inside the engine, device by device.
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/objects/objects.h"

namespace berth::kube {

// Resource -> amount: "cpu" in millicores, everything else in units (bytes, devices, pods).
using Amounts = std::map<std::string, std::int64_t>;

// A quantity of this resource, rounded up as Kubernetes rounds requests. Errors: invalid_argument
// when it is none, negative or beyond what an engine counts.
Result<std::int64_t> read_amount(std::string_view resource, std::string_view quantity);

// `allocatable` of a node. What cannot be read is left out: nothing is offered of it.
Amounts read_capacity(const Labels& allocatable);

// Total of a pod, with overhead, pod-level requests, resizing in place, and its slot. Amounts of
// zero are left out. Errors: as read_amount, naming container and resource.
Result<Amounts> effective_request(const Pod& pod);

}  // namespace berth::kube
