// Deeds: what the harbour wants written or read, as values, and what became of it.
//
// The loop turns them into calls (body.h of kube/objects has the words) and answers with the number
// that the deed has. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/quantity.h"
#include "kube/objects/objects.h"

namespace berth::kube {

struct PodName {
  std::string namespace_name = {};
  std::string name = {};
  std::string uid = {};
  bool operator==(const PodName&) const = default;
};

// POST …/binding, with the uid as precondition and without a resourceVersion.
struct Bind {
  PodName pod;
  std::string node = {};
  Labels annotations = {};
  bool operator==(const Bind&) const = default;
};

// GET of a pod whose state decides what an answer meant.
struct ReadPod {
  PodName pod;
  bool operator==(const ReadPod&) const = default;
};

// PATCH …/status: the condition PodScheduled=False.
struct PatchStatus {
  PodName pod;
  std::string reason = {};
  std::string message = {};
  std::int64_t transition_ms = 0;  // since 1970
  std::int64_t generation = 0;
  bool operator==(const PatchStatus&) const = default;
};

// An event about a pod; of a series the first is made and the later ones change it.
struct Say {
  PodName pod;
  bool warning = false;
  std::string reason = {};  // "Scheduled", "FailedScheduling"
  std::string action = {};  // "Binding", "Scheduling"
  std::string note = {};
  std::int64_t first_us = 0;  // of the series, since 1970: part of the event's name
  std::int64_t last_us = 0;
  std::int64_t count = 1;  // above 1: a change of the event that is there
  bool operator==(const Say&) const = default;
};

// A claim is to be provided for a node (annotation selected-node), or is not any more (empty), or
// an existing volume is set aside for it.
struct PatchClaim {
  std::string namespace_name = {};
  std::string claim = {};
  std::string claim_uid = {};
  std::string node = {};
  std::string volume = {};  // set aside this one instead
  std::string volume_version = {};
  std::string for_pod = {};  // "namespace/name", for the log
  bool operator==(const PatchClaim&) const = default;
};

using DeedBody = std::variant<Bind, ReadPod, PatchStatus, Say, PatchClaim>;

struct Deed {
  std::uint64_t number = 0;  // rises; an answer names it
  DeedBody body;
};

// What became of a deed.
struct Said {
  enum class Outcome : std::uint8_t {
    answered,  // with a status
    not_sent,  // surely nothing happened
    unknown    // it may have happened
  };
  Outcome outcome = Outcome::answered;
  int status = 0;  // of HTTP
  std::string message = {};
  std::optional<Duration> retry_after = {};
  std::optional<Pod> pod = {};  // of a ReadPod that found it
};

}  // namespace berth::kube
