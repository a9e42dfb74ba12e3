// The books of a cluster, as `berth scheduler` tells them. Thread-safety: none.
#pragma once

#include <memory>

#include "cli/books.h"

namespace berth::cli {

// Asks the scheduler through the API server's proxy, so that a kubeconfig is all that is needed;
// where no scheduler answers, pods and nodes themselves (cluster_scan.h).
// Errors: those of kube::find_access().
Result<std::unique_ptr<Books>> open_cluster(const Arguments& arguments);

}  // namespace berth::cli
