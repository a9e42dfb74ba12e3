// The quota tree once more, from the text of the contract: every answer recomputed from lists of
// bookings, plain recursion, amounts of devices in 1/120. For the property tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/queue/division.h"
#include "core/queue/queue_tree.h"

namespace berth::core {

inline constexpr std::int64_t kPerDevice = 120;  // of 24 and 40 MiB, eighths and milli of R'

// What one workload takes: devices of class "A" hold 24 MiB, of class "B" 40.
struct NaiveCharge {
  std::string device_class = "A";
  std::int64_t shares_mib = 0;
  std::int64_t whole = 0;
  std::int64_t eighths = 0;
  std::int64_t compute = 0;
  std::int64_t usable() const { return device_class == "A" ? 24 : 40; }
};

struct NaiveBooking {
  std::string leaf;
  NaiveCharge charge;
  BookingState state = BookingState::running;
  bool preemptible = true;
};

struct NaiveDemand {
  std::string leaf;
  NaiveCharge charge;
};

using NaiveDimension = std::pair<std::string, DimensionKind>;

class NaiveTree {
 public:
  std::vector<QueueSpec> queues;
  std::map<NaiveDimension, std::int64_t> capacity;
  std::vector<NaiveBooking> bookings;
  std::vector<NaiveDemand> demand;

  std::vector<std::string> children(const std::string& parent) const;
  bool is_leaf(const std::string& queue) const { return children(queue).empty(); }
  std::vector<std::string> path(const std::string& leaf) const;  // up to the root
  std::vector<NaiveDimension> dimensions() const;
  QueueDimension terms(const std::string& queue, const NaiveDimension& dimension) const;
  const QueueSpec& spec(const std::string& queue) const;

  // In 1/120 of a device, MiB or milli.
  static std::int64_t amount(const NaiveCharge& charge, const NaiveDimension& dimension);
  static std::int64_t per_unit(const NaiveDimension& dimension);  // amounts that make a unit, ·1000
  static std::int64_t rounded_up(std::int64_t amount, const NaiveDimension& dimension);
  static bool exceeds(std::int64_t amount, std::int64_t bound, const NaiveDimension& dimension);

  struct Filter {
    Counting counting = Counting::present;
    bool fixed_only = false;
  };

  std::int64_t alloc(const std::string& queue, const NaiveDimension& dimension,
                     Filter filter) const;
  std::int64_t demand_of(const std::string& queue, const NaiveDimension& dimension) const;
  std::map<std::string, DivisionShare> shares(const NaiveDimension& dimension) const;
  // 4.2, with `more` added to the leaf; in thousandths of amounts.
  std::int64_t charge_of(const std::string& queue, const NaiveDimension& dimension,
                         Counting counting, const NaiveDemand* more) const;
  Cause may_start(const NaiveDemand& what, bool preemptible, Counting counting) const;
  bool within(const NaiveDemand& what, const std::string& ancestor, Entitlement entitlement,
              bool preemptible) const;
  bool above(const std::string& leaf, const std::string& ancestor, const NaiveDimension& dimension,
             Entitlement entitlement) const;
  std::string common_ancestor(const std::string& a, const std::string& b) const;
  // The leaf whose turn it is, of those with something in `heads`.
  std::string turn(const std::string& queue, const std::map<std::string, NaiveCharge>& heads) const;

 private:
  bool goes_before(const std::string& a, const NaiveCharge& of_a, const std::string& b,
                   const NaiveCharge& of_b) const;
  void divide_below(const std::string& queue, const NaiveDimension& dimension,
                    std::map<std::string, DivisionShare>& shares) const;
};

}  // namespace berth::core
