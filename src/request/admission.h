// Admission: what depends on who writes a pod and when, beside the grammar of pod.h (annotations.md
// 2.2, A44 … A50).
//
//   PodOutcome outcome = admit_create(pod, rules);          // grammar and A47 … A50, A44 for
//   CREATE auto errors = check_update(before, after, Writer::user);  // A44 … A46
//
// A pod that the scheduler reads back has a node name and Berth's own environment: read it with
// read_pod. Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "request/pod.h"
#include "request/reason.h"

namespace berth::request {

// Who asks the API server for a change.
enum class Writer : std::uint8_t {
  user,       // anybody else, administrators included
  webhook,    // our mutating webhook, on CREATE
  scheduler,  // the scheduler's service account, in the Binding
  agent,      // the node agent's service account
};

using Annotations = std::map<std::string, std::string>;

// read_pod, and all rules for a pod that is being created by `writer`.
PodOutcome admit_create(const PodWords& pod, const PodRules& rules, Writer writer = Writer::user);

// A44 … A46 for a change of annotations on a pod that exists, in key order.
std::vector<Finding> check_update(const Annotations& before, const Annotations& after,
                                  Writer writer);

// Protected keys of annotations.md 3.4: only one writer may create, change or remove them.
bool is_protected_key(std::string_view key);
// Keys of 1.2, which size or steer the request: fixed at CREATE.
bool is_sizing_key(std::string_view key);

}  // namespace berth::request
