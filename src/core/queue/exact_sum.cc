#include "core/queue/exact_sum.h"

#include <algorithm>

#include "base/assert.h"
#include "base/wide.h"

namespace berth::core {

namespace {

using Fraction = ExactSum::Fraction;

// Floor of a quotient, and what is left, for a positive divisor.
struct Quotient {
  std::int64_t floor = 0;
  std::int64_t rest = 0;
};

Quotient floor_divide(std::int64_t amount, std::int64_t by) {
  Quotient quotient{.floor = amount / by, .rest = amount % by};
  if (quotient.rest < 0) {
    --quotient.floor;
    quotient.rest += by;
  }
  return quotient;
}

// A natural number of any length, lowest limb first. Only for sums of several denominators that lie
// within a few 2^-64 of the bound.
class Natural {
 public:
  explicit Natural(std::uint64_t value) : limbs_{value} {}

  void multiply(std::uint64_t factor) {
    std::uint64_t carry = 0;
    for (std::uint64_t& limb : limbs_) {
      const Uint128 product = Uint128{limb} * factor + carry;
      limb = static_cast<std::uint64_t>(product);
      carry = static_cast<std::uint64_t>(product >> 64);
    }
    if (carry != 0) {
      limbs_.push_back(carry);
    }
  }

  void add(const Natural& other) {
    limbs_.resize(std::max(limbs_.size(), other.limbs_.size()) + 1, 0);
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < limbs_.size(); ++i) {
      const Uint128 sum =
          Uint128{limbs_[i]} + (i < other.limbs_.size() ? other.limbs_[i] : 0) + carry;
      limbs_[i] = static_cast<std::uint64_t>(sum);
      carry = static_cast<std::uint64_t>(sum >> 64);
    }
  }

  std::strong_ordering operator<=>(const Natural& other) const {
    for (std::size_t i = std::max(limbs_.size(), other.limbs_.size()); i-- > 0;) {
      const std::uint64_t mine = i < limbs_.size() ? limbs_[i] : 0;
      const std::uint64_t theirs = i < other.limbs_.size() ? other.limbs_[i] : 0;
      if (mine != theirs) {
        return mine <=> theirs;
      }
    }
    return std::strong_ordering::equal;
  }

 private:
  std::vector<std::uint64_t> limbs_;
};

const std::vector<Fraction> kNoFractions;

// The terms of two sums as one list by denominator: calls take(denominator, numerator), numerator
// below 2·denominator.
template <class Take>
void merge(const std::vector<Fraction>& a, const std::vector<Fraction>& b, Take take) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].denominator < b[j].denominator)) {
      take(a[i].denominator, a[i].numerator);
      ++i;
    } else if (i == a.size() || b[j].denominator < a[i].denominator) {
      take(b[j].denominator, b[j].numerator);
      ++j;
    } else {
      take(a[i].denominator, a[i].numerator + b[j].numerator);
      ++i;
      ++j;
    }
  }
}

// Σ numerator/denominator against above/per_whole (0 <= above), by a common denominator.
std::strong_ordering compare_exactly(const std::vector<Fraction>& a, const std::vector<Fraction>& b,
                                     std::int64_t above, std::int64_t per_whole) {
  Natural sum(0);
  Natural common(1);
  merge(a, b, [&](std::int64_t denominator, std::int64_t numerator) {
    Natural term = common;
    term.multiply(static_cast<std::uint64_t>(numerator));
    sum.multiply(static_cast<std::uint64_t>(denominator));
    sum.add(term);
    common.multiply(static_cast<std::uint64_t>(denominator));
  });
  sum.multiply(static_cast<std::uint64_t>(per_whole));
  common.multiply(static_cast<std::uint64_t>(above));
  return sum <=> common;
}

// whole + Σ fractions of both lists, against bound/per_whole.
std::strong_ordering compare_sum(std::int64_t whole, const std::vector<Fraction>& a,
                                 const std::vector<Fraction>& b, std::int64_t bound,
                                 std::int64_t per_whole) {
  const Int128 above = Int128{bound} - Int128{whole} * per_whole;
  const auto terms = static_cast<std::int64_t>(a.size() + b.size());
  if (terms == 0 || above < 0) {
    return Int128{0} <=> above;
  }
  if (above >= Int128{terms} * per_whole) {  // each term is less than one
    return std::strong_ordering::less;
  }
  std::int64_t denominators = 0;
  Uint128 low = 0;  // of the sum in 2^-64, at most one unit per denominator too small
  std::strong_ordering single = std::strong_ordering::equal;
  merge(a, b, [&](std::int64_t denominator, std::int64_t numerator) {
    ++denominators;
    single = Int128{numerator} * per_whole <=> above * denominator;
    low += (static_cast<Uint128>(numerator) << 64) / static_cast<Uint128>(denominator);
  });
  if (denominators == 1) {
    return single;
  }
  const Uint128 floor = (static_cast<Uint128>(above) << 64) / static_cast<Uint128>(per_whole);
  if (low > floor) {
    return std::strong_ordering::greater;
  }
  if (low + static_cast<Uint128>(denominators) <= floor) {
    return std::strong_ordering::less;
  }
  return compare_exactly(a, b, static_cast<std::int64_t>(above), per_whole);
}

}  // namespace

void ExactSum::add_fraction(std::int64_t amount, std::int64_t denominator) {
  ASSERT(denominator > 0, denominator);
  const Quotient quotient = floor_divide(amount, denominator);
  whole_ += quotient.floor;
  if (quotient.rest == 0) {
    return;
  }
  const auto at = std::ranges::lower_bound(fractions_, denominator, std::ranges::less(),
                                           &Fraction::denominator);
  if (at == fractions_.end() || at->denominator != denominator) {
    fractions_.insert(at, {.denominator = denominator, .numerator = quotient.rest});
    return;
  }
  if (at->numerator >= denominator - quotient.rest) {
    ++whole_;
    at->numerator -= denominator - quotient.rest;
  } else {
    at->numerator += quotient.rest;
  }
  if (at->numerator == 0) {
    fractions_.erase(at);
  }
}

void ExactSum::add(const ExactSum& other) {
  whole_ += other.whole_;
  for (const Fraction& fraction : other.fractions_) {
    add_fraction(fraction.numerator, fraction.denominator);
  }
}

void ExactSum::subtract(const ExactSum& other) {
  whole_ -= other.whole_;
  for (const Fraction& fraction : other.fractions_) {
    add_fraction(-fraction.numerator, fraction.denominator);
  }
}

void ExactSum::clear() {
  whole_ = 0;
  fractions_.clear();
}

std::strong_ordering ExactSum::compare(std::int64_t bound, std::int64_t per_whole) const {
  return compare_sum(whole_, fractions_, kNoFractions, bound, per_whole);
}

std::strong_ordering ExactSum::compare_with(const ExactSum& other, std::int64_t bound,
                                            std::int64_t per_whole) const {
  return compare_sum(whole_ + other.whole_, fractions_, other.fractions_, bound, per_whole);
}

std::int64_t ExactSum::rounded_up(std::int64_t per_whole) const {
  if (fractions_.empty()) {
    return whole_ * per_whole;
  }
  if (fractions_.size() == 1) {
    const Fraction& only = fractions_.front();
    const Int128 units =
        (Int128{only.numerator} * per_whole + only.denominator - 1) / only.denominator;
    return whole_ * per_whole + static_cast<std::int64_t>(units);
  }
  // The smallest number of units that is not below the sum.
  std::int64_t low = whole_ * per_whole;  // the sum is above this
  std::int64_t high = low + static_cast<std::int64_t>(fractions_.size()) * per_whole;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (compare(middle, per_whole) == std::strong_ordering::greater ? low : high) = middle;
  }
  return high;
}

}  // namespace berth::core
