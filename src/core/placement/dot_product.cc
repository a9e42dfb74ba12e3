#include "core/placement/dot_product.h"

#include "core/placement/score_rationals.h"

namespace berth::core {

std::int64_t DotProductPolicy::score(const PlaceInput& input, const Places& places) const {
  return dot_product_score({.free_cpu_milli = input.on.face.cpu_free,
                            .free_gpu_milli = input.value.spare,
                            .cpu_milli = input.cpu,
                            .gpu_milli = milli_of(input, places)});
}

}  // namespace berth::core
