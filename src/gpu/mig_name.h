// What a MIG instance is called when only sizes are known: "1g.10gb".
//
// Source: nvidia-node.md 10.1. Hardware is asked by its attributes instead; names differ between
// drivers, so a name is for people and for requests by profile, never for arithmetic.
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>

#include "base/quantity.h"

namespace berth::gpu {

struct MigSizes {
  Memory total;     // of the GPU
  Memory instance;  // of the instance
};

// GB of the name: with e eighths of the GPU (rounded up) and G GiB (rounded up), (e x G + 4) / 8.
std::int64_t mig_gigabytes(const MigSizes& sizes);

// The whole name, with the compute slices that such an amount of memory usually comes with: 1, 2, 3
// and 7 for 1, 2, 4 and 8 eighths. An unknown size counts as one eighth.
std::string mig_profile_name(const MigSizes& sizes);

// The same with the slices known; `compute` is left out where it equals `gpu`.
struct MigSlices {
  int gpu = 1;
  int compute = 1;
};
std::string mig_profile_name(const MigSizes& sizes, const MigSlices& slices);

}  // namespace berth::gpu
