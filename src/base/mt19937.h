// Mt19937: the generator and the draws behind the benchmark's exact arrival sequences.
//
// A Mersenne twister whose state is filled by init_by_array from the seed's 32-bit words, low word
// first (std::mt19937 has the same core, but no such seeding). below() and shuffle() are part of
// the contract too: a different way to draw from a range gives other arrivals (placement page, 2).
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace berth {

class Mt19937 {
 public:
  explicit Mt19937(std::uint64_t seed);

  std::uint32_t next32();
  // Uniform over 0 … n-1, by rejection of the top bits. Requires 0 < n < 2^32.
  std::uint32_t below(std::uint32_t n);

  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[below(static_cast<std::uint32_t>(i + 1))]);
    }
  }

 private:
  static constexpr std::size_t kWords = 624;
  void refill();

  std::array<std::uint32_t, kWords> state_{};
  std::size_t next_ = kWords;
};

}  // namespace berth
