#include "core/queue/decay.h"

#include "base/assert.h"
#include "base/wide.h"

namespace berth::core {

namespace {

constexpr int kBits = 62;

std::uint64_t square_root(Uint128 value) {
  Uint128 root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Uint128 tried = root | (Uint128{1} << bit);
    if (tried <= value / tried) {
      root = tried;
    }
  }
  return static_cast<std::uint64_t>(root);
}

}  // namespace

std::int64_t decay_factor(Duration step, Duration half_life) {
  ASSERT(step.count() > 0 && half_life.count() > 0, step.count(), half_life.count());
  const std::int64_t halvings = step.count() / half_life.count();
  if (halvings >= kBits) {
    return kDecayOne;
  }
  auto rest = static_cast<Uint128>(step.count() % half_life.count());
  std::uint64_t left = std::uint64_t{1} << kBits;         // 2^(-step / half_life)
  std::uint64_t power = std::uint64_t{1} << (kBits - 1);  // 2^(-2^-i)
  for (int i = 0; i < kBits && rest != 0; ++i) {
    power = square_root(static_cast<Uint128>(power) << kBits);
    rest *= 2;
    if (rest >= static_cast<Uint128>(half_life.count())) {
      rest -= static_cast<Uint128>(half_life.count());
      left = static_cast<std::uint64_t>((static_cast<Uint128>(left) * power) >> kBits);
    }
  }
  left >>= halvings;
  const std::uint64_t gone = (std::uint64_t{1} << kBits) - left;
  return static_cast<std::int64_t>(gone >> (kBits - 32));
}

std::int64_t decayed(std::int64_t use, std::int64_t present, std::int64_t factor) {
  return use + static_cast<std::int64_t>((Int128{present} - use) * factor >> 32);
}

}  // namespace berth::core
