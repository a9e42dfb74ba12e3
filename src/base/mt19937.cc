#include "base/mt19937.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace berth {

namespace {

constexpr std::size_t kShift = 397;

std::uint32_t twist(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
  return (mixed >> 1U) ^ ((mixed & 1U) != 0 ? 0x9908B0DFU : 0U);
}

// How far init_by_array carries the previous word into the next one.
std::uint32_t carried(std::uint32_t previous, std::uint32_t factor) {
  return (previous ^ (previous >> 30U)) * factor;
}

}  // namespace

// init_genrand(19650218), then init_by_array over the seed's words, as their authors published it.
Mt19937::Mt19937(std::uint64_t seed) {
  const std::uint32_t key[2] = {static_cast<std::uint32_t>(seed),
                                static_cast<std::uint32_t>(seed >> 32U)};
  const std::size_t key_words = key[1] == 0 ? 1 : 2;
  state_[0] = 19650218U;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    state_[i] = carried(state_[i - 1], 1812433253U) + i;
  }
  std::size_t i = 1;
  const auto advance = [&] {
    if (++i == kWords) {
      state_[0] = state_[kWords - 1];
      i = 1;
    }
  };
  for (std::size_t step = 0, j = 0; step < kWords; ++step) {
    state_[i] =
        (state_[i] ^ carried(state_[i - 1], 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
    advance();
    j = (j + 1) % key_words;
  }
  for (std::size_t step = 0; step + 1 < kWords; ++step) {
    state_[i] = (state_[i] ^ carried(state_[i - 1], 1566083941U)) - static_cast<std::uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void Mt19937::refill() {
  for (std::size_t i = 0; i < kWords; ++i) {
    state_[i] = state_[(i + kShift) % kWords] ^ twist(state_[i], state_[(i + 1) % kWords]);
  }
  next_ = 0;
}

std::uint32_t Mt19937::next32() {
  if (next_ == kWords) refill();
  std::uint32_t word = state_[next_++];
  word ^= word >> 11U;
  word ^= (word << 7U) & 0x9D2C5680U;
  word ^= (word << 15U) & 0xEFC60000U;
  return word ^ (word >> 18U);
}

std::uint32_t Mt19937::below(std::uint32_t n) {
  ASSERT(n > 0);
  const auto bits = static_cast<unsigned>(std::bit_width(n));
  while (true) {
    const std::uint32_t drawn = next32() >> (32U - bits);
    if (drawn < n) return drawn;
  }
}

}  // namespace berth
