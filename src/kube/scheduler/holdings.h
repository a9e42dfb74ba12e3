// Holdings: what a pod that lies on a node has of its devices, by its own annotations.
//
// A pod of ours has what its `berth.dev/grant` says. Of all others the most that can be known is
// taken: the device that KAI's reservation pod names, the sizes that NvFractions keys say, the
// whole devices that a vendor's plug-in counts. Source: annotations.md 3.2, 4.3.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/events.h"
#include "core/model/request.h"
#include "kube/objects/grant.h"
#include "kube/objects/objects.h"

namespace berth::kube {

struct Holdings {
  bool foreign = true;
  // By name of device; the containers are those that the shares point to, in start order.
  std::vector<core::ContainerAsk> containers = {};
  std::vector<core::GrantAdopted::Share> shares = {};
  std::int64_t whole = 0;  // devices of a node that nobody names
  std::vector<std::pair<std::string, std::int64_t>> mig = {};  // profile -> instances, likewise
  std::string problem = {};  // why its grant cannot be read: an alarm

  bool operator==(const Holdings&) const = default;
};

Holdings holdings_from(const GrantRecord& record);
// `ours`: the pod has our scheduler's name.
Holdings holdings_of(const Pod& pod, bool ours);

}  // namespace berth::kube
