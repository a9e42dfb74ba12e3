#include "kube/client/call.h"

#include <string>

#include <fmt/format.h>

#include "json/value.h"

namespace berth::kube {

Status read_status(const Answer& answer) {
  Status status{.code = answer.status, .retry_after = answer.retry_after};
  if (answer.outcome != Outcome::answered || answer.body.empty()) return status;
  const Result<json::Value> body = json::parse(answer.body);
  if (!body.ok() || body->text("kind") != "Status") return status;
  status.reason = std::string(body->text("reason"));
  status.message = std::string(body->text("message"));
  if (const std::int64_t code = body->integer("code"); code > 0 && code < 1000) {
    status.code = static_cast<int>(code);
  }
  const json::Value* details = body->find("details");
  const std::int64_t seconds = details == nullptr ? 0 : details->integer("retryAfterSeconds");
  if (seconds > 0 && seconds < 86'400 && !status.retry_after.has_value()) {
    status.retry_after = Duration(seconds * 1'000);
  }
  return status;
}

std::string describe(const Answer& answer) {
  if (answer.outcome != Outcome::answered) return std::string(answer.problem);
  const Status status = read_status(answer);
  std::string text = fmt::format("{}", answer.status);
  if (!status.reason.empty()) text += " " + status.reason;
  if (!status.message.empty()) text += ": " + status.message;
  return text;
}

}  // namespace berth::kube
