#include "core/queue/naive_tree_test.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/wide.h"

namespace berth::core {

std::vector<std::string> NaiveTree::children(const std::string& parent) const {
  std::vector<std::string> names;
  for (const QueueSpec& queue : queues) {
    if (queue.parent == parent && queue.name != "root") names.push_back(queue.name);
  }
  return names;
}

const QueueSpec& NaiveTree::spec(const std::string& queue) const {
  static const QueueSpec kRoot = {};
  const auto found = std::ranges::find(queues, queue, &QueueSpec::name);
  return found == queues.end() ? kRoot : *found;
}

std::vector<std::string> NaiveTree::path(const std::string& leaf) const {
  std::vector<std::string> names{leaf};
  while (names.back() != "root") {
    names.push_back(spec(names.back()).parent);
  }
  return names;
}

std::vector<NaiveDimension> NaiveTree::dimensions() const {
  std::set<NaiveDimension> named;
  for (const QueueSpec& queue : queues) {
    for (const QueueDimension& dimension : queue.dimensions) {
      named.emplace(dimension.device_class, dimension.kind);
    }
  }
  return {named.begin(), named.end()};
}

QueueDimension NaiveTree::terms(const std::string& queue, const NaiveDimension& dimension) const {
  for (const QueueDimension& terms : spec(queue).dimensions) {
    if (terms.device_class == dimension.first && terms.kind == dimension.second) return terms;
  }
  return {};
}

std::int64_t NaiveTree::amount(const NaiveCharge& charge, const NaiveDimension& dimension) {
  if (dimension.first != "*" && dimension.first != charge.device_class) return 0;
  switch (dimension.second) {
    case DimensionKind::memory: return charge.shares_mib + charge.whole * charge.usable();
    case DimensionKind::compute: return charge.compute;
    case DimensionKind::devices:
      return charge.whole * kPerDevice + charge.eighths * (kPerDevice / 8) +
             charge.shares_mib * (kPerDevice / charge.usable());
  }
  return 0;
}

// A bound of b units is b · per_unit thousandths of amounts.
std::int64_t NaiveTree::per_unit(const NaiveDimension& dimension) {
  return dimension.second == DimensionKind::devices ? kPerDevice : 1000;
}

std::int64_t NaiveTree::rounded_up(std::int64_t amount, const NaiveDimension& dimension) {
  const std::int64_t unit = per_unit(dimension);
  return (amount * 1000 + unit - 1) / unit;
}

bool NaiveTree::exceeds(std::int64_t amount, std::int64_t bound, const NaiveDimension& dimension) {
  return amount * 1000 > bound * per_unit(dimension);
}

std::int64_t NaiveTree::alloc(const std::string& queue, const NaiveDimension& dimension,
                              Filter filter) const {
  std::int64_t sum = 0;
  for (const NaiveBooking& booking : bookings) {
    const std::vector<std::string> way = path(booking.leaf);
    const bool counts =
        std::ranges::find(way, queue) != way.end() &&
        (filter.counting == Counting::present || booking.state != BookingState::releasing) &&
        (!filter.fixed_only || !booking.preemptible);
    sum += counts ? amount(booking.charge, dimension) : 0;
  }
  return sum;
}

std::int64_t NaiveTree::demand_of(const std::string& queue, const NaiveDimension& dimension) const {
  std::int64_t sum = 0;
  for (const NaiveDemand& one : demand) {
    sum += one.leaf == queue ? rounded_up(amount(one.charge, dimension), dimension) : 0;
  }
  for (const std::string& child : children(queue)) {
    const QueueDimension limits = terms(child, dimension);
    const std::int64_t wanted = std::max(demand_of(child, dimension), limits.reserved);
    sum += limits.limit == kUnlimited ? wanted : std::min(limits.limit, wanted);
  }
  return sum;
}

void NaiveTree::divide_below(const std::string& queue, const NaiveDimension& dimension,
                             std::map<std::string, DivisionShare>& shares) const {
  std::vector<std::string> names = children(queue);
  std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
    return std::tuple(spec(a).created, a) < std::tuple(spec(b).created, b);
  });
  std::vector<Sibling> siblings;
  for (const std::string& name : names) {
    const QueueDimension t = terms(name, dimension);
    siblings.push_back({.deserved = t.deserved,
                        .limit = t.limit,
                        .reserved = t.reserved,
                        .weight = t.weight,
                        .priority = spec(name).priority,
                        .demand = demand_of(name, dimension),
                        .rank = static_cast<std::uint32_t>(siblings.size())});
  }
  std::vector<DivisionShare> result(names.size());
  Division().divide(shares.at(queue).fair, siblings, result);
  for (std::size_t i = 0; i < names.size(); ++i) {
    shares[names[i]] = result[i];
    divide_below(names[i], dimension, shares);
  }
}

std::map<std::string, DivisionShare> NaiveTree::shares(const NaiveDimension& dimension) const {
  const auto found = capacity.find(dimension);
  const std::int64_t all = found == capacity.end() ? 0 : found->second;
  std::map<std::string, DivisionShare> shares{
      {"root", {.deserved = all, .reserved = 0, .fair = all}}};
  divide_below("root", dimension, shares);
  return shares;
}

std::int64_t NaiveTree::charge_of(const std::string& queue, const NaiveDimension& dimension,
                                  Counting counting, const NaiveDemand* more) const {
  const std::map<std::string, DivisionShare> all = shares(dimension);
  const auto charge = [&](const auto& self, const std::string& at) -> std::int64_t {
    std::int64_t sum = 0;
    for (const NaiveBooking& booking : bookings) {
      const bool counts = booking.leaf == at && (counting == Counting::present ||
                                                 booking.state != BookingState::releasing);
      sum += counts ? amount(booking.charge, dimension) * 1000 : 0;
    }
    sum += more != nullptr && more->leaf == at ? amount(more->charge, dimension) * 1000 : 0;
    for (const std::string& child : children(at)) {
      sum += self(self, child);
    }
    return std::max(sum, all.at(at).reserved * per_unit(dimension));
  };
  return charge(charge, queue);
}

Cause NaiveTree::may_start(const NaiveDemand& what, bool preemptible, Counting counting) const {
  bool over_deserved = false;
  bool over_capacity = false;
  for (const NaiveDimension& dimension : dimensions()) {
    const std::int64_t x = amount(what.charge, dimension);
    if (x == 0) continue;
    bool reserving = false;
    for (const QueueSpec& queue : queues) {
      reserving = reserving || terms(queue.name, dimension).reserved > 0;
    }
    for (const std::string& queue : path(what.leaf)) {
      const QueueDimension t = terms(queue, dimension);
      if (t.limit != kUnlimited &&
          exceeds(alloc(queue, dimension, {.counting = counting}) + x, t.limit, dimension)) {
        return Cause::over_limit;
      }
      const bool bounded = t.deserved != kUnlimited && (queue != "root" || t.deserved != 0);
      const std::int64_t fixed =
          alloc(queue, dimension, {.counting = counting, .fixed_only = true});
      over_deserved =
          over_deserved || (!preemptible && bounded && exceeds(fixed + x, t.deserved, dimension));
    }
    const std::int64_t before = charge_of("root", dimension, counting, nullptr);
    const std::int64_t after = charge_of("root", dimension, counting, &what);
    over_capacity = over_capacity || (reserving && after > before &&
                                      after > capacity.at(dimension) * per_unit(dimension));
  }
  return over_deserved   ? Cause::non_preemptible_over_quota
         : over_capacity ? Cause::over_limit
                         : Cause::none;
}

bool NaiveTree::within(const NaiveDemand& what, const std::string& ancestor,
                       Entitlement entitlement, bool preemptible) const {
  for (const NaiveDimension& dimension : dimensions()) {
    const std::int64_t x = amount(what.charge, dimension);
    const std::map<std::string, DivisionShare> all = shares(dimension);
    for (const std::string& queue : path(what.leaf)) {
      if (queue == ancestor || x == 0) break;
      const DivisionShare share = all.at(queue);
      const std::int64_t bound = entitlement == Entitlement::deserved ? share.deserved : share.fair;
      const Filter future{.counting = Counting::future};
      const Filter fixed{.counting = Counting::future, .fixed_only = true};
      if (exceeds(alloc(queue, dimension, future) + x, bound, dimension) ||
          (!preemptible &&
           exceeds(alloc(queue, dimension, fixed) + x, share.deserved, dimension))) {
        return false;
      }
    }
  }
  return true;
}

bool NaiveTree::above(const std::string& leaf, const std::string& ancestor,
                      const NaiveDimension& dimension, Entitlement entitlement) const {
  const std::map<std::string, DivisionShare> all = shares(dimension);
  for (const std::string& queue : path(leaf)) {
    if (queue == ancestor) break;
    const DivisionShare share = all.at(queue);
    const std::int64_t bound = entitlement == Entitlement::deserved ? share.deserved : share.fair;
    if (terms(queue, dimension).deserved == kUnlimited ||
        !exceeds(alloc(queue, dimension, {.counting = Counting::future}), bound, dimension)) {
      return false;
    }
  }
  return true;
}

std::string NaiveTree::common_ancestor(const std::string& a, const std::string& b) const {
  const std::vector<std::string> other = path(b);
  for (const std::string& queue : path(a)) {
    if (std::ranges::find(other, queue) != other.end()) return queue;
  }
  return "root";
}

std::string NaiveTree::turn(const std::string& queue,
                            const std::map<std::string, NaiveCharge>& heads) const {
  if (is_leaf(queue)) return heads.contains(queue) ? queue : "";
  std::string best;
  std::string best_leaf;
  for (const std::string& child : children(queue)) {
    const std::string leaf = turn(child, heads);
    if (!leaf.empty() &&
        (best.empty() || goes_before(child, heads.at(leaf), best, heads.at(best_leaf)))) {
      best = child;
      best_leaf = leaf;
    }
  }
  return best_leaf;
}

bool NaiveTree::goes_before(const std::string& a, const NaiveCharge& of_a, const std::string& b,
                            const NaiveCharge& of_b) const {
  struct Standing {
    bool below_fair = true;
    bool below_deserved = true;
    std::int64_t above = 0;  // the dominant ratio
    std::int64_t below = 1;
  };
  const auto standing = [&](const std::string& queue, const NaiveCharge& charge) {
    Standing result;
    for (const NaiveDimension& dimension : dimensions()) {
      const DivisionShare share = shares(dimension).at(queue);
      const std::int64_t has = alloc(queue, dimension, {.counting = Counting::future});
      const std::int64_t x = amount(charge, dimension);
      if (x > 0) {
        result.below_fair = result.below_fair && has * 1000 < share.fair * per_unit(dimension);
        result.below_deserved =
            result.below_deserved && !exceeds(has + x, share.deserved, dimension);
      }
      std::int64_t may = std::max(share.deserved, share.fair);
      const std::int64_t limit = terms(queue, dimension).limit;
      may = std::max<std::int64_t>(1, limit == kUnlimited ? may : std::min(limit, may));
      const std::int64_t with = rounded_up(has + x, dimension);
      if (Int128{with} * result.below > Int128{result.above} * may) {
        result.above = with;
        result.below = may;
      }
    }
    return result;
  };
  const Standing left = standing(a, of_a);
  const Standing right = standing(b, of_b);
  if (left.below_fair != right.below_fair) return left.below_fair;
  if (left.below_deserved != right.below_deserved) return left.below_deserved;
  if (spec(a).priority != spec(b).priority) return spec(a).priority > spec(b).priority;
  const Int128 l = Int128{left.above} * right.below;
  const Int128 r = Int128{right.above} * left.below;
  if (l != r) return l < r;
  return std::tuple(spec(a).created, a) < std::tuple(spec(b).created, b);
}

}  // namespace berth::core
