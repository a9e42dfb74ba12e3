// Whether shares of memory may be placed on MIG instances of a node (annotations 4, `shareOnMig`).
//
// Kubernetes users expect that they are not, so a node has to say so, by a label. Leases have no
// such expectation: there an instance is a device like others (leases.md B37).
#pragma once

#include <string>

#include "core/model/device.h"

namespace berth::core {

inline const std::string kShareOnMigLabel = "berth.dev/share-on-mig";

inline bool shares_on_instances(const Node& node) {
  const auto label = node.labels.find(kShareOnMigLabel);
  return label != node.labels.end() && label->second == "true";
}

}  // namespace berth::core
