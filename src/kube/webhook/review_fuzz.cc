// Any bytes as an AdmissionReview, both ways: there is always an answer, and it is JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "json/dom.h"
#include "kube/webhook/review.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth;
  static kube::Reviewer reviewer({});
  static json::DomParser parser;
  for (const kube::ReviewKind kind : {kube::ReviewKind::mutate, kube::ReviewKind::validate}) {
    const kube::ReviewAnswer answer =
        reviewer.review(kind, {reinterpret_cast<const char*>(data), size});
    ASSERT(answer.status == 200 || answer.status == 400, answer.status);
    const auto body = parser.parse(answer.body);
    ASSERT(body.ok());
    const bool allowed = (*body)["response"]["allowed"].flag();
    ASSERT(allowed == (answer.result == kube::ReviewResult::allowed ||
                       answer.result == kube::ReviewResult::changed));
  }
  return 0;
}
