// Reviews as an API server sends them, for tests.
#pragma once

#include <string>
#include <string_view>

#include "kube/webhook/review.h"

namespace berth::kube {

struct ReviewWords {
  std::string object = "null";
  std::string old_object = "null";
  std::string operation = "CREATE";
  std::string kind = "Pod";
  std::string subresource = {};
  std::string user = "alice";
};

inline std::string review_text(const ReviewWords& words) {
  return R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"r-1",)"
         R"("kind":{"group":"","version":"v1","kind":")" +
         words.kind + R"("},"resource":{"group":"","version":"v1","resource":"pods"},)" +
         (words.subresource.empty() ? "" : R"("subResource":")" + words.subresource + R"(",)") +
         R"("name":"p","namespace":"n","operation":")" + words.operation +
         R"(","userInfo":{"username":")" + words.user +
         R"(","groups":["system:authenticated"]},"object":)" + words.object + R"(,"oldObject":)" +
         words.old_object + R"(,"dryRun":false,"options":{}}})";
}

// A pod of ours with these annotations (an object) and containers (the inside of a list).
inline std::string pod_text(std::string_view annotations, std::string_view containers,
                            std::string_view more = "") {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n",)"
         R"("annotations":)" +
         std::string(annotations) + R"(},"spec":{"schedulerName":"berth-scheduler",)" +
         std::string(more) + R"("containers":[)" + std::string(containers) + "]}}";
}

}  // namespace berth::kube
