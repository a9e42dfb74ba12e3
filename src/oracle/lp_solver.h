// A linear program that grows by columns, for column generation.
//
//   maximise    sum_j objective_j x_j
//   subject to  sum_j a_ij x_j <= limit_i   for every row i,  limit_i >= 0
//               0 <= x_j
//
// x = 0 is always feasible, so a solve fails only if the program is unbounded or numerically
// hopeless. After columns were added, the next solve starts from the basis of the last one.
//
// Thread-safety: one LpSolver belongs to one thread; different ones are independent.
// Deterministic: the same calls in the same order give the same numbers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace berth::oracle {

struct LpEntry {
  std::size_t row = 0;
  double value = 0;
};

class LpSolver {
 public:
  // One row per limit. Requires every limit >= 0.
  explicit LpSolver(std::span<const double> row_limits);
  ~LpSolver();
  LpSolver(LpSolver&&) noexcept;
  LpSolver& operator=(LpSolver&&) noexcept;

  // Queues a column for the next solve. Requires rows in range, each at most once.
  void add_column(double objective, std::span<const LpEntry> entries);

  // Solves to optimality. Fails with a message if the program is unbounded or the solver gives up.
  Result<void> maximise();

  // Of the last successful maximise().
  double objective() const;
  // Price of one more unit of each row's limit, >= 0 up to the solver's tolerance of 1e-9.
  std::span<const double> row_prices() const;

  int column_count() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::oracle
