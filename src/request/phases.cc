#include "request/phases.h"

#include <algorithm>

namespace berth::request {

namespace {

constexpr std::int64_t kCeiling = std::int64_t{1} << 62;

std::int64_t add(std::int64_t a, std::int64_t b) { return a > kCeiling - b ? kCeiling : a + b; }

}  // namespace

std::int64_t peak_use(const std::vector<PhaseUse>& containers) {
  std::int64_t running = 0;  // apps and sidecars
  std::int64_t sidecars = 0;
  std::int64_t peak = 0;
  for (const PhaseUse& use : containers) {
    const std::int64_t amount = std::min(use.amount, kCeiling);
    if (use.kind == core::ContainerKind::init) {
      peak = std::max(peak, add(sidecars, amount));
      continue;
    }
    running = add(running, amount);
    if (use.kind == core::ContainerKind::sidecar) sidecars = add(sidecars, amount);
  }
  return std::max(peak, running);
}

}  // namespace berth::request
