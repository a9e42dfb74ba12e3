// Admission reviews: the API server's question in, its answer out (annotations.md 2;
// kubernetes-api.md 10).
//
//   Reviewer reviewer(rules);
//   ReviewAnswer answer = reviewer.review(ReviewKind::mutate, body);   // answer.body is the
//   response
//
// Mutating makes of a pod with our scheduler's name what the scheduler and the node read: sizes
// per container, environment by reference, the runtime class (2.4). It never refuses: what is wrong
// with a pod the validating review says, all at once (2.2). A second pass changes nothing.
//
// Nothing but the review decides: no cluster is asked, so every replica gives the same answer.
// Thread-safety: one thread per Reviewer (its parser is used again and again).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/dom.h"
#include "request/admission.h"
#include "request/pod.h"

namespace berth::kube {

struct ReviewRules {
  request::PodRules pod = {};
  std::string scheduler_name = "berth-scheduler";
  // Users whose writes are the scheduler's and the node agent's own.
  std::string scheduler_user = "system:serviceaccount:berth-system:berth-scheduler";
  std::string agent_user = "system:serviceaccount:berth-system:berth-agent";
  std::string runtime_class = "nvidia";  // where a GPU is asked for and none is set; empty: none
  bool assigns_whole = false;            // `wholeDevices: berth`
};

enum class ReviewKind : std::uint8_t { mutate, validate };

enum class ReviewResult : std::uint8_t {
  allowed,    // as it is
  changed,    // with a patch
  refused,    // with reasons
  malformed,  // no review: answered with status 400
};

struct ReviewAnswer {
  int status = 200;       // of HTTP
  std::string body = {};  // JSON
  ReviewResult result = ReviewResult::allowed;
  std::string code = {};  // the first reason of a refusal, e.g. "BadMemory"; for metrics
};

class Reviewer {
 public:
  explicit Reviewer(ReviewRules rules) : rules_(std::move(rules)) {}

  ReviewAnswer review(ReviewKind kind, std::string_view body);

 private:
  ReviewRules rules_;
  json::DomParser parser_;
};

}  // namespace berth::kube
