#include "oracle/lp_solver.h"

#include <cstddef>
#include <string>
#include <utility>

#include <coin/ClpSimplex.hpp>
#include <coin/CoinError.hpp>

namespace berth::oracle {
namespace {

// Tighter than the pricing tolerance of the bounds (1e-7), so that a column already in the program
// never looks worth adding again.
constexpr double kTolerance = 1e-9;
constexpr int kNoScreenOutput = 0;
constexpr int kMinimise = 1;

}  // namespace

struct LpSolver::Impl {
  ClpSimplex model;
  std::vector<double> prices;

  // Columns not yet in the model, one after the other: column j has the entries from starts[j] to
  // starts[j + 1].
  std::vector<double> objectives;
  std::vector<CoinBigIndex> starts{0};
  std::vector<int> rows;
  std::vector<double> values;

  int pending() const { return static_cast<int>(objectives.size()); }

  void hand_over() {
    const std::vector<double> lower(objectives.size(), 0.0);
    const std::vector<double> upper(objectives.size(), COIN_DBL_MAX);
    model.addColumns(pending(), lower.data(), upper.data(), objectives.data(), starts.data(),
                     rows.data(), values.data());
    objectives.clear();
    starts.assign(1, 0);
    rows.clear();
    values.clear();
  }
};

LpSolver::LpSolver(std::span<const double> row_limits) : impl_(std::make_unique<Impl>()) {
  ClpSimplex& model = impl_->model;
  model.setLogLevel(kNoScreenOutput);
  model.setOptimizationDirection(kMinimise);
  model.setPrimalTolerance(kTolerance);
  model.setDualTolerance(kTolerance);
  model.resize(static_cast<int>(row_limits.size()), 0);
  for (std::size_t row = 0; row < row_limits.size(); ++row) {
    ASSERT(row_limits[row] >= 0, row);
    model.setRowBounds(static_cast<int>(row), -COIN_DBL_MAX, row_limits[row]);
  }
  impl_->prices.assign(row_limits.size(), 0.0);
}

LpSolver::~LpSolver() = default;
LpSolver::LpSolver(LpSolver&&) noexcept = default;
LpSolver& LpSolver::operator=(LpSolver&&) noexcept = default;

void LpSolver::add_column(double objective, std::span<const LpEntry> entries) {
  for (const LpEntry& entry : entries) {
    ASSERT(entry.row < impl_->prices.size(), entry.row, impl_->prices.size());
    impl_->rows.push_back(static_cast<int>(entry.row));
    impl_->values.push_back(entry.value);
  }
  impl_->objectives.push_back(-objective);  // CLP minimises
  impl_->starts.push_back(static_cast<CoinBigIndex>(impl_->rows.size()));
}

Result<void> LpSolver::maximise() {
  ClpSimplex& model = impl_->model;
  try {
    if (impl_->pending() > 0) impl_->hand_over();
    model.primal();
  } catch (const CoinError& error) {
    return Error(ErrorCode::internal,
                 "the LP solver failed in " + error.methodName() + ": " + error.message());
  }
  if (!model.isProvenOptimal()) {
    return Error(ErrorCode::internal, "the LP solver stopped without an optimum (CLP status " +
                                          std::to_string(model.status()) + ", secondary " +
                                          std::to_string(model.secondaryStatus()) + ")");
  }
  const double* duals = model.dualRowSolution();
  for (std::size_t row = 0; row < impl_->prices.size(); ++row) {
    impl_->prices[row] = -duals[row];
  }
  return {};
}

double LpSolver::objective() const { return -impl_->model.objectiveValue(); }

std::span<const double> LpSolver::row_prices() const { return impl_->prices; }

int LpSolver::column_count() const { return impl_->model.numberColumns() + impl_->pending(); }

}  // namespace berth::oracle
