#include "request/pod.h"

namespace berth::request {

PodOutcome read_pod(const PodWords& pod, const PodRules&) {
  PodOutcome outcome;
  outcome.errors.push_back({.code = ReasonCode::unsupported_family,
                            .key = "annotations",
                            .value = pod.name,
                            .rule = "the words of a pod are not read yet"});
  return outcome;
}

}  // namespace berth::request
