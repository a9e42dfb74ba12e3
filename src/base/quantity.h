// Quantities: exact integers that cannot be mixed up.
//
//   Memory need = Memory::mib(4096);
//   if (need <= headroom) { headroom -= need; }
//
// Memory counts bytes, Milli thousandths of a device or of a core, Nano thousand-millionths of a
// device (the unit in which fractions are kept, annotations.md 1.1), Time and Duration
// milliseconds. All are signed 64-bit: books may go below zero while capacity shrinks under running
// work, and only decisions clamp. Arithmetic that can overflow is the caller's to bound: every
// quantity that comes from outside is bounded by its parser (Memory below 2^63 bytes, counts below
// 2^31).
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace berth {

template <typename Tag>
class Quantity {
 public:
  constexpr Quantity() = default;

  constexpr explicit Quantity(std::int64_t count) : count_(count) {}

  constexpr std::int64_t count() const { return count_; }

  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }

  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }

  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }

  friend constexpr Quantity operator*(Quantity a, std::int64_t factor) {
    return Quantity(a.count_ * factor);
  }

 private:
  std::int64_t count_ = 0;
};

struct MilliTag;
struct NanoTag;
struct DurationTag;

using Milli = Quantity<MilliTag>;        // thousandths of one device or of one CPU core
using Nano = Quantity<NanoTag>;          // 10^-9 of one device's usable memory
using Duration = Quantity<DurationTag>;  // milliseconds

inline constexpr Nano kWholeNano{1'000'000'000};
inline constexpr Milli kWholeMilli{1000};

struct MemoryTag;

class Memory : public Quantity<MemoryTag> {
 public:
  static constexpr std::int64_t kBytesPerMib = 1'048'576;

  constexpr Memory() = default;

  constexpr Memory(Quantity<MemoryTag> q) : Quantity(q) {}  // NOLINT: results of + and -

  static constexpr Memory bytes(std::int64_t n) { return Memory(Quantity<MemoryTag>(n)); }

  static constexpr Memory mib(std::int64_t n) { return bytes(n * kBytesPerMib); }

  constexpr std::int64_t in_bytes() const { return count(); }

  // Whole MiB, rounded down: the way capacity rounds.
  constexpr std::int64_t floor_mib() const {
    return count() >= 0 ? count() / kBytesPerMib : -((-count() + kBytesPerMib - 1) / kBytesPerMib);
  }

  // Whole MiB, rounded up: the way requests round.
  constexpr std::int64_t ceil_mib() const { return -bytes(-count()).floor_mib(); }
};

// A point in engine time: milliseconds since an origin that the harbour chooses.
class Time {
 public:
  constexpr Time() = default;

  constexpr explicit Time(std::int64_t ms) : ms_(ms) {}

  constexpr std::int64_t ms() const { return ms_; }

  constexpr auto operator<=>(const Time&) const = default;

  friend constexpr Time operator+(Time t, Duration d) { return Time(t.ms_ + d.count()); }

  friend constexpr Time operator-(Time t, Duration d) { return Time(t.ms_ - d.count()); }

  friend constexpr Duration operator-(Time a, Time b) { return Duration(a.ms_ - b.ms_); }

 private:
  std::int64_t ms_ = 0;
};

}  // namespace berth
