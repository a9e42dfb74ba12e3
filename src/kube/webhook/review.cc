#include "kube/webhook/review.h"

#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "json/text.h"
#include "kube/client/text.h"
#include "kube/webhook/review_parts.h"

namespace berth::kube {

namespace {

constexpr std::string_view kVersion = "admission.k8s.io/v1";
constexpr std::size_t kMostWarning = 256;  // the API server cuts longer ones
constexpr std::size_t kMostWarnings = 16;
constexpr int kUnprocessable = 422;

ReviewAnswer malformed(std::string_view what) {
  ReviewAnswer answer{.status = 400, .result = ReviewResult::malformed};
  json::Text text;
  text.open_object().key("code").put("bad-request").key("message").put(what);
  answer.body = text.close_object().take();
  return answer;
}

Review read_review(json::Element root) {
  const json::Element request = root["request"];
  return {.uid = request["uid"].text(),
          .kind = request["kind"]["kind"].text(),
          .subresource = request["subResource"].text(),
          .namespace_name = request["namespace"].text(),
          .operation = request["operation"].text(),
          .user = request["userInfo"]["username"].text(),
          .object = request["object"],
          .old_object = request["oldObject"]};
}

json::Text begin_response(const Review& review, bool allowed) {
  json::Text text(512);
  text.open_object().key("apiVersion").put(kVersion).key("kind").put("AdmissionReview");
  text.key("response").open_object().key("uid").put(review.uid).key("allowed").put(allowed);
  return text;
}

void write_refusal(json::Text& text, const std::string& message) {
  text.key("status").open_object().key("code").put(kUnprocessable);
  text.key("message").put(message).close_object();
}

void write_warnings(json::Text& text, const std::vector<request::Finding>& warnings) {
  if (warnings.empty()) {
    return;
  }
  text.key("warnings").open_list();
  std::size_t count = 0;
  for (const request::Finding& warning : warnings) {
    if (++count > kMostWarnings) {
      break;
    }
    text.put(shortened(warning.text(), kMostWarning));
  }
  text.close_list();
}

std::string lines_of(const std::vector<request::Finding>& errors) {
  std::string lines;
  for (const request::Finding& error : errors) {
    lines += lines.empty() ? "" : "\n";
    lines += error.text();
  }
  return lines;
}

ReviewAnswer validate(const Review& review, const ReviewRules& rules) {
  const Judgement judgement = judge(review, rules);
  const bool allowed = judgement.errors.empty() && judgement.problem.empty();
  ReviewAnswer answer{.result = allowed ? ReviewResult::allowed : ReviewResult::refused};
  json::Text text = begin_response(review, allowed);
  if (!judgement.problem.empty()) {
    answer.code = "Unreadable";
    write_refusal(text, judgement.problem);
  } else if (!allowed) {
    answer.code = request::reason_name(judgement.errors.front().code);
    write_refusal(text, lines_of(judgement.errors));
  }
  write_warnings(text, judgement.warnings);
  answer.body = text.close_object().close_object().take();
  return answer;
}

ReviewAnswer mutate(const Review& review, const ReviewRules& rules) {
  const Change change = change_of(review, rules);
  const std::string& patch = change.patch;
  ReviewAnswer answer{.result = patch.empty() ? ReviewResult::allowed : ReviewResult::changed};
  json::Text text = begin_response(review, true);
  if (!patch.empty()) {
    text.key("patchType").put("JSONPatch").key("patch").put(to_base64(patch));
  }
  write_warnings(text, change.warnings);
  answer.body = text.close_object().close_object().take();
  return answer;
}

}  // namespace

bool any_named(json::Element list, std::string_view name) {
  for (const json::Element item : list.items()) {
    if (item["name"].text() == name) {
      return true;
    }
  }
  return false;
}

ReviewAnswer Reviewer::review(ReviewKind kind, std::string_view body) {
  const auto root = parser_.parse(body);
  if (!root.ok()) {
    return malformed(root.error().message());
  }
  if ((*root)["apiVersion"].text() != kVersion || (*root)["kind"].text() != "AdmissionReview") {
    return malformed("an AdmissionReview of admission.k8s.io/v1 is expected here");
  }
  const Review review = read_review(*root);
  if (review.uid.empty()) {
    return malformed("the review has no request.uid to answer to");
  }
  return kind == ReviewKind::mutate ? mutate(review, rules_) : validate(review, rules_);
}

}  // namespace berth::kube
