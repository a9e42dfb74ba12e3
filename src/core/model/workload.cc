#include "core/model/workload.h"

namespace berth::core {

Workload Workload::task(std::string uid, Request request, WorkloadOptions options) {
  return {std::move(uid), std::move(request), std::move(options)};
}

}  // namespace berth::core
