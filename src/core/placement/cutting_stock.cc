#include "core/placement/cutting_stock.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "core/placement/wide_arithmetic.h"

namespace berth::core {
namespace {

constexpr int kCells = 100;        // of 10 milli on a device
constexpr double kWorthIt = 1e-7;  // a pattern enters if it is worth that much more than a device
constexpr double kZero = 1e-9;     // pivots and ties in the simplex

std::size_t index(int i) { return static_cast<std::size_t>(i); }

int cells_of(const FractionSize& size) { return (size.milli + 9) / 10; }

// The unbounded knapsack over the cells of one device: best[u], and which piece ends the best
// filling of u cells (-1: leave a cell empty). The first size wins a tie.
template <typename Value>
struct Knapsack {
  std::vector<Value> best = std::vector<Value>(kCells + 1, Value{0});
  std::vector<int> last = std::vector<int>(kCells + 1, -1);

  Knapsack(std::span<const FractionSize> sizes, std::span<const Value> values) {
    for (int u = 1; u <= kCells; ++u) {
      Value& here = best[index(u)];
      here = best[index(u - 1)];
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const int before = u - cells_of(sizes[i]);
        if (before < 0 || best[index(before)] + values[i] <= here) continue;
        here = best[index(before)] + values[i];
        last[index(u)] = static_cast<int>(i);
      }
    }
  }

  [[nodiscard]] Pattern best_pattern(std::span<const FractionSize> sizes) const {
    Pattern pattern(sizes.size(), 0);
    for (int u = kCells; u > 0;) {
      const int piece = last[index(u)];
      if (piece >= 0) ++pattern[index(piece)];
      u -= piece >= 0 ? cells_of(sizes[index(piece)]) : 1;
    }
    return pattern;
  }
};

// The restricted programme: one basic pattern per size, and the inverse of their matrix.
class Simplex {
 public:
  // Starts with the patterns of one piece each.
  explicit Simplex(std::span<const FractionSize> sizes) : n_(sizes.size()), inverse_(n_ * n_, 0.0) {
    for (std::size_t i = 0; i < n_; ++i) {
      inverse_[i * n_ + i] = 1.0;
      basis_.push_back({.pieces = Pattern(n_, 0), .devices = static_cast<double>(sizes[i].count)});
      basis_.back().pieces[i] = 1;
    }
  }

  // What a piece of each size is worth now: the column sums of the inverse, as every pattern
  // costs one device.
  [[nodiscard]] std::vector<double> duals() const {
    std::vector<double> duals(n_, 0.0);
    for (std::size_t row = 0; row < n_; ++row) {
      for (std::size_t i = 0; i < n_; ++i)
        duals[i] += inverse_[row * n_ + i];
    }
    return duals;
  }

  // Brings the pattern into the basis. False if no row can leave, which exact arithmetic excludes.
  bool enter(Pattern pattern) {
    std::vector<double> direction(n_, 0.0);
    for (std::size_t row = 0; row < n_; ++row) {
      for (std::size_t i = 0; i < n_; ++i)
        direction[row] += inverse_[row * n_ + i] * pattern[i];
    }

    std::optional<std::size_t> leaving;
    for (std::size_t row = 0; row < n_; ++row) {
      if (direction[row] <= kZero) continue;
      if (!leaving || leaves_before(row, *leaving, direction)) leaving = row;
    }
    if (!leaving) return false;
    pivot(*leaving, direction);
    basis_[*leaving].pieces = std::move(pattern);
    return true;
  }

  [[nodiscard]] const std::vector<PlannedPattern>& basis() const { return basis_; }

 private:
  // The lexicographic ratio test: smallest amount per direction, ties by the rows of the inverse.
  // No basis returns under it, whichever pattern enters, so the simplex cannot cycle.
  [[nodiscard]] bool leaves_before(std::size_t row, std::size_t other,
                                   const std::vector<double>& direction) const {
    const auto differ = [](double a, double b) {
      return std::abs(a - b) > kZero * (1.0 + std::abs(a) + std::abs(b));
    };
    const double mine = basis_[row].devices / direction[row];
    const double its = basis_[other].devices / direction[other];
    if (differ(mine, its)) return mine < its;
    for (std::size_t i = 0; i < n_; ++i) {
      const double a = inverse_[row * n_ + i] / direction[row];
      const double b = inverse_[other * n_ + i] / direction[other];
      if (differ(a, b)) return a < b;
    }
    return false;
  }

  void pivot(std::size_t leaving, const std::vector<double>& direction) {
    double* const pivot_row = &inverse_[leaving * n_];
    for (std::size_t i = 0; i < n_; ++i)
      pivot_row[i] /= direction[leaving];
    const double amount = basis_[leaving].devices / direction[leaving];
    for (std::size_t row = 0; row < n_; ++row) {
      if (row == leaving || direction[row] == 0.0) continue;
      for (std::size_t i = 0; i < n_; ++i)
        inverse_[row * n_ + i] -= direction[row] * pivot_row[i];
      basis_[row].devices = std::max(0.0, basis_[row].devices - direction[row] * amount);
    }
    basis_[leaving].devices = amount;
  }

  std::size_t n_;
  std::vector<double> inverse_;  // n x n, row by row; row i belongs to basis_[i]
  std::vector<PlannedPattern> basis_;
};

struct Rational {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

// The fraction with a small denominator within 1e-9 of the value, by its continued fraction. Two
// such fractions differ by 1e-8 at least, so there is at most one.
std::optional<Rational> small_rational(double value) {
  constexpr std::int64_t kLargest = 10'000;
  Rational previous{.numerator = 1, .denominator = 0};
  Rational current{.numerator = static_cast<std::int64_t>(std::floor(value)), .denominator = 1};
  double rest = value - std::floor(value);
  while (std::abs(static_cast<double>(current.numerator) -
                  value * static_cast<double>(current.denominator)) >
         1e-9 * static_cast<double>(current.denominator)) {
    if (rest < 1e-12) return std::nullopt;
    const double whole = std::floor(1.0 / rest);
    rest = 1.0 / rest - whole;
    if (whole > static_cast<double>(kLargest)) return std::nullopt;
    const auto step = static_cast<std::int64_t>(whole);
    const Rational next{.numerator = step * current.numerator + previous.numerator,
                        .denominator = step * current.denominator + previous.denominator};
    if (next.denominator > kLargest) return std::nullopt;
    previous = std::exchange(current, next);
  }
  return current;
}

// The duals as fractions of a common denominator, if that is what they provably are: every basic
// pattern is worth one device exactly and no pattern is worth more. Sets values, scale and exact.
bool set_exact_values(std::span<const FractionSize> sizes, const std::vector<double>& duals,
                      CuttingStock& stock) {
  std::vector<Rational> rationals;
  std::int64_t scale = 1;
  for (const double dual : duals) {
    const std::optional<Rational> rational = small_rational(dual);
    if (!rational || rational->numerator < 0) return false;
    rationals.push_back(*rational);
    scale = std::lcm(scale, rational->denominator);
    if (scale > kOneInP) return false;
  }
  std::vector<std::int64_t> values;
  for (const Rational& r : rationals)
    values.push_back(r.numerator * (scale / r.denominator));

  for (const PlannedPattern& basic : stock.plan) {
    std::int64_t worth = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      worth += basic.pieces[i] * values[i];
    if (worth != scale) return false;
  }
  if (best_fillings(sizes, values).back() > scale) return false;
  stock.values = std::move(values);
  stock.scale = scale;
  stock.exact = true;
  return true;
}

// The duals rounded down to p and lowered until no pattern is worth more than a device.
void set_rounded_values(std::span<const FractionSize> sizes, const std::vector<double>& duals,
                        CuttingStock& stock) {
  stock.scale = kOneInP;
  stock.values.clear();
  for (const double dual : duals) {
    const double in_p = std::floor(std::clamp(dual, 0.0, 1.0) * static_cast<double>(kOneInP));
    stock.values.push_back(static_cast<std::int64_t>(in_p));
  }
  const std::int64_t most = best_fillings(sizes, stock.values).back();
  if (most <= kOneInP) return;
  for (std::int64_t& value : stock.values)
    value = static_cast<std::int64_t>(Int128{value} * kOneInP / most);
}

}  // namespace

std::vector<std::int64_t> best_fillings(std::span<const FractionSize> sizes,
                                        std::span<const std::int64_t> values) {
  return Knapsack<std::int64_t>(sizes, values).best;
}

CuttingStock solve_cutting_stock(std::span<const FractionSize> sizes, int most_pivots) {
  for (const FractionSize& size : sizes)
    ASSERT(size.milli > 0 && size.milli < 1000 && size.count > 0, size.milli, size.count);

  Simplex simplex(sizes);
  CuttingStock stock;
  std::vector<double> duals = simplex.duals();
  for (; stock.pivots < most_pivots; ++stock.pivots) {
    const Knapsack<double> knapsack(sizes, duals);
    if (knapsack.best.back() <= 1.0 + kWorthIt) break;
    if (!simplex.enter(knapsack.best_pattern(sizes))) break;
    duals = simplex.duals();
  }
  stock.plan = simplex.basis();
  if (!set_exact_values(sizes, duals, stock)) set_rounded_values(sizes, duals, stock);
  return stock;
}

}  // namespace berth::core
