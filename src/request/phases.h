// The phases of a pod: which of its containers run at the same time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/model/request.h"

namespace berth::request {

// Puts containers in start order: init containers and sidecars as listed, then apps as listed.
// `kind_of` gives the core::ContainerKind of an element.
template <typename T, typename KindOf>
void sort_by_start(std::vector<T>& containers, KindOf kind_of) {
  std::vector<T> ordered;
  ordered.reserve(containers.size());
  for (const bool apps : {false, true}) {
    for (T& container : containers) {
      const bool is_app = kind_of(container) == core::ContainerKind::app;
      if (is_app == apps) ordered.push_back(std::move(container));
    }
  }
  containers = std::move(ordered);
}

struct PhaseUse {
  core::ContainerKind kind = core::ContainerKind::app;
  std::int64_t amount = 0;  // not negative
};

// The most that is in use at once, in start order: max(sum of apps and sidecars; for each init
// container, it and the sidecars started before it). Saturates at 2^62.
std::int64_t peak_use(const std::vector<PhaseUse>& containers);

}  // namespace berth::request
