// What Berth writes to a Kubernetes API server: paths and bodies, as text at once.
//
//   binding_path("team-a", "train-0");      // "/api/v1/namespaces/team-a/pods/train-0/binding"
//   binding_body({.pod = …, .node = "n1", .annotations = …});
//
// Bodies follow kubernetes-api.md 4 to 6. Names are those of existing objects: labels of DNS, safe
// in a path as they are. Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kube/objects/objects.h"

namespace berth::kube {

// Whom a write is about.
struct ObjectRef {
  std::string_view kind = "Pod";
  std::string_view api_version = "v1";
  std::string_view namespace_name = {};
  std::string_view name = {};
  std::string_view uid = {};
};

ObjectRef ref_of(const Pod& pod);  // valid as long as the pod

std::string pod_path(std::string_view namespace_name, std::string_view name);
std::string binding_path(std::string_view namespace_name, std::string_view name);
std::string pod_status_path(std::string_view namespace_name, std::string_view name);
std::string events_path(std::string_view namespace_name);
std::string event_path(std::string_view namespace_name, std::string_view event);

// POST. The uid is always sent, a resourceVersion never (kubernetes-api.md 4).
std::string binding_body(const ObjectRef& pod, std::string_view node, const Labels& annotations);

// PATCH of `pods/status`, as a strategic merge: PodScheduled = False.
struct ScheduledCondition {
  std::string_view reason = {};  // "Unschedulable", "QuotaExceeded", …
  std::string_view message = {};
  std::int64_t transition_ms = 0;  // when `status` became what it is; not when the words changed
  std::int64_t observed_generation = 0;  // 0: not sent
};
std::string condition_body(std::string_view uid, const ScheduledCondition& condition);

// POST of an event of `events.k8s.io/v1`.
struct EventWords {
  ObjectRef regarding = {};
  std::string_view type = "Normal";  // or "Warning"
  std::string_view reason = {};      // "Scheduled", "FailedScheduling"
  std::string_view action = {};      // "Binding", "Scheduling"
  std::string_view note = {};        // cut to 1024 bytes at a character's boundary
  std::string_view controller = "berth.dev/scheduler";
  std::string_view instance = {};  // of the controller, e.g. the pod's name
  std::int64_t time_us = 0;
};
// "<object>.<hex>": a name of its own as long as no two are made in the same microsecond.
std::string event_name(const ObjectRef& regarding, std::int64_t time_us);
std::string event_body(const EventWords& words, std::string_view name);
// PATCH (merge patch) of an event that has happened again.
std::string event_series_body(std::int64_t count, std::int64_t last_us);

}  // namespace berth::kube
