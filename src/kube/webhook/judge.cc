// Validation: the rules of annotations.md 2.2 for one review.
#include <utility>

#include "kube/objects/read.h"
#include "kube/webhook/review_parts.h"

namespace berth::kube {

using json::Element;
using request::ReasonCode;
using request::Writer;

namespace {

Writer writer_of(const Review& review, const ReviewRules& rules) {
  if (review.user == rules.scheduler_user) {
    return Writer::scheduler;
  }
  return review.user == rules.agent_user ? Writer::agent : Writer::user;
}

request::Annotations annotations_of(Element object, Judgement& into) {
  auto meta = read_meta(object);
  if (!meta.ok()) {
    into.problem = meta.error().message();
    return {};
  }
  return std::move(meta->annotations);
}

Judgement judge_create(const Review& review, const ReviewRules& rules) {
  Judgement into;
  auto pod = read_pod(review.object);
  if (!pod.ok()) {
    into.problem = pod.error().message();
    return into;
  }
  if (pod->scheduler_name != rules.scheduler_name) {
    return into;  // somebody else's pod: a policy of the cluster guards our keys there
  }
  pod->words.namespace_name = review.namespace_name;
  auto outcome = request::admit_create(pod->words, rules.pod, writer_of(review, rules));
  into.errors = std::move(outcome.errors);
  into.warnings = std::move(outcome.warnings);
  return into;
}

Judgement judge_update(const Review& review, const ReviewRules& rules) {
  Judgement into;
  const auto before = annotations_of(review.old_object, into);
  const auto after = annotations_of(review.object, into);
  if (into.problem.empty()) {
    into.errors = request::check_update(before, after, writer_of(review, rules));
  }
  return into;
}

// A Binding adds its annotations to the pod's: only the scheduler's may be ours, and no other may
// set sizes anew.
Judgement judge_binding(const Review& review, const ReviewRules& rules) {
  Judgement into;
  const auto added = annotations_of(review.object, into);
  if (into.problem.empty()) {
    into.errors = request::check_update({}, added, writer_of(review, rules));
  }
  return into;
}

// A49 for the containers that are new: none of them may make devices visible.
Judgement judge_ephemeral(const Review& review, const ReviewRules& rules) {
  Judgement into = judge_update(review, rules);
  const Element known = review.old_object["spec"]["ephemeralContainers"];
  for (const Element container : review.object["spec"]["ephemeralContainers"].items()) {
    const std::string_view name = container["name"].text();
    if (any_named(known, name)) {
      continue;
    }
    for (const Element env : container["env"].items()) {
      const std::string_view value = env["value"].text();
      const bool hides = (value == "void" || value == "none") && !env["valueFrom"].exists();
      if (env["name"].text() == "NVIDIA_VISIBLE_DEVICES" && !hides) {
        into.errors.push_back(
            {.code = ReasonCode::protected_env,
             .key = "NVIDIA_VISIBLE_DEVICES",
             .value = env["valueFrom"].exists() ? env["valueFrom"].raw() : std::string(value),
             .rule = "void, none or not set: an ephemeral container has no share of its own",
             .container = std::string(name)});
      }
    }
  }
  return into;
}

}  // namespace

Judgement judge(const Review& review, const ReviewRules& rules) {
  if (review.subresource == "binding" || review.kind == "Binding") {
    return judge_binding(review, rules);
  }
  if (review.subresource == "ephemeralcontainers") {
    return judge_ephemeral(review, rules);
  }
  if (review.operation == "CREATE" && review.subresource.empty()) {
    return judge_create(review, rules);
  }
  return review.operation == "UPDATE" ? judge_update(review, rules) : Judgement{};
}

}  // namespace berth::kube
