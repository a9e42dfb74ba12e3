#include "core/placement/value_table.h"

#include <vector>

#include "core/placement/cutting_stock.h"
#include "core/placement/wide_arithmetic.h"

namespace berth::core {

ValueTable::ValueTable() {
  for (std::size_t milli = 0; milli < values_.size(); ++milli)
    values_[milli] = static_cast<std::int64_t>(milli) * (kOneInP / 1000);
}

ValueTable::ValueTable(const ClassCounts& counts) : ValueTable() {
  if (!counts.has_gpu_work()) return;
  const std::vector<FractionSize> sizes = counts.fraction_sizes();
  const CuttingStock stock = solve_cutting_stock(sizes);
  const std::vector<std::int64_t> best = best_fillings(sizes, stock.values);
  for (std::size_t milli = 0; milli < values_.size(); ++milli)
    values_[milli] = floor_quotient(Int128{best[milli / 10]} * kOneInP, stock.scale);
  // The page adds a piece of a whole device worth one; nothing else can be worth more.
  values_.back() = kOneInP;
}

}  // namespace berth::core
