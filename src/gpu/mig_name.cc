#include "gpu/mig_name.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/wide.h"

namespace berth::gpu {

namespace {

constexpr std::int64_t kEighths = 8;

std::int64_t eighths_of(const MigSizes& sizes) {
  if (sizes.total <= Memory() || sizes.instance <= Memory()) return 1;
  const Int128 total = sizes.total.in_bytes();
  const Int128 parts = (sizes.instance.in_bytes() * Int128{kEighths} + total - 1) / total;
  return static_cast<std::int64_t>(std::min<Int128>(parts, kEighths));
}

}  // namespace

std::int64_t mig_gigabytes(const MigSizes& sizes) {
  constexpr std::int64_t kMibPerGib = 1024;
  const std::int64_t gib = (sizes.total.ceil_mib() + kMibPerGib - 1) / kMibPerGib;
  return (eighths_of(sizes) * gib + kEighths / 2) / kEighths;
}

std::string mig_profile_name(const MigSizes& sizes) {
  const std::int64_t eighths = eighths_of(sizes);
  int slices = 1;
  if (eighths > 4) {
    slices = 7;
  } else if (eighths > 2) {
    slices = 3;
  } else if (eighths == 2) {
    slices = 2;
  }
  return mig_profile_name(sizes, {.gpu = slices, .compute = slices});
}

std::string mig_profile_name(const MigSizes& sizes, const MigSlices& slices) {
  const std::string name = fmt::format("{}g.{}gb", slices.gpu, mig_gigabytes(sizes));
  return slices.compute == slices.gpu ? name : fmt::format("{}c.{}", slices.compute, name);
}

}  // namespace berth::gpu
