#include "core/model/workload.h"

#include <fmt/format.h>

namespace berth::core {

Workload Workload::task(std::string uid, Request request, WorkloadOptions options) {
  return {std::move(uid), std::move(request), std::move(options)};
}

Result<Workload> Workload::gang(std::string uid, Gang gang, WorkloadOptions options) {
  TRY_VOID(check_group(gang.root));
  const auto negative = [&](const std::optional<Duration>& time, std::string_view name) {
    return time.has_value() && time->count() < 0
               ? Result<void>(invalid_argument(fmt::format(
                     "gang {}: {} is {} ms; it cannot be negative", uid, name, time->count())))
               : success();
  };
  TRY_VOID(negative(gang.options.start_timeout, "start_timeout"));
  TRY_VOID(negative(gang.options.recovery_timeout, "recovery_timeout"));
  Workload workload(std::move(uid), Request(), std::move(options));
  workload.gang_ = std::make_shared<const Gang>(std::move(gang));
  return workload;
}

namespace {

const MemberSet* first_members(const Group& group) {
  if (!group.members.empty()) {
    return &group.members.front();
  }
  for (const Group& inner : group.groups) {
    if (const MemberSet* found = first_members(inner); found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

}  // namespace

const Request& Workload::request() const {
  const MemberSet* first = gang_ != nullptr ? first_members(gang_->root) : nullptr;
  return first != nullptr ? first->request : request_;
}

bool Workload::operator==(const Workload& other) const {
  const bool same_gang = gang_ == other.gang_ ||
                         (gang_ != nullptr && other.gang_ != nullptr && *gang_ == *other.gang_);
  return same_gang && uid_ == other.uid_ && request_ == other.request_ &&
         options_ == other.options_;
}

}  // namespace berth::core
