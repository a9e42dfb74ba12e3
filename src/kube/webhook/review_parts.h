// What a review is made of. Private to src/kube/webhook.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json/dom.h"
#include "kube/objects/objects.h"
#include "kube/webhook/review.h"
#include "request/reason.h"

namespace berth::kube {

// The fields of `request` that are used. Views into the review's text.
struct Review {
  std::string_view uid;
  std::string_view kind;         // of the object: "Pod", "Binding"
  std::string_view subresource;  // "", "status", "ephemeralcontainers", "binding"
  std::string_view namespace_name;
  std::string_view operation;  // "CREATE", "UPDATE"
  std::string_view user;
  json::Element object;
  json::Element old_object;
};

struct Judgement {
  std::vector<request::Finding> errors = {};
  std::vector<request::Finding> warnings = {};
  std::string problem = {};  // the object itself cannot be read
};

// The rules of annotations.md 2.2 for one review.
Judgement judge(const Review& review, const ReviewRules& rules);

struct Change {
  std::string patch = {};  // a JSON Patch; empty when nothing is to be changed
  // About the words as they were written: the validating review sees them changed.
  std::vector<request::Finding> warnings = {};
};

// annotations.md 2.4.
Change change_of(const Review& review, const ReviewRules& rules);

// Whether an object of this list has this `name`.
bool any_named(json::Element list, std::string_view name);

}  // namespace berth::kube
