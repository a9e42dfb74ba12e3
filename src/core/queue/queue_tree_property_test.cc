// Random trees of depth 4 in several dimensions under random bookings, demand, outages and
// configurations: every answer equals the one recomputed from the contract's text.
#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/shrink_test.h"
#include "core/queue/naive_tree_test.h"
#include "core/queue/queue_tree.h"

namespace berth::core {
namespace {

struct Op {
  enum class Kind : std::uint8_t { book, unbook, want, unwant, capacity, configure, start };
  Kind kind;
  std::uint32_t seed;  // of everything else that it needs
};

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}

  std::int64_t to(std::int64_t most) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most + 1));
  }

  bool one_in(std::int64_t many) { return to(many - 1) == 0; }

  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(to(static_cast<std::int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937 random_;
};

const std::vector<NaiveDimension> kDimensions{
    {"*", DimensionKind::devices}, {"*", DimensionKind::memory}, {"A", DimensionKind::devices},
    {"A", DimensionKind::compute}, {"B", DimensionKind::memory}, {"B", DimensionKind::devices}};

std::vector<QueueSpec> random_queues(std::uint32_t seed) {
  Dice dice(seed);
  std::vector<std::string> inner{"root"};
  std::vector<int> depth{0};
  std::vector<QueueSpec> queues;
  const std::int64_t many = 2 + dice.to(9);
  // The leaves l0 … l3 are always there, so that bookings find their queue again.
  for (std::int64_t i = 0; i < many + 4; ++i) {
    const bool leaf = i >= many;
    const auto at = static_cast<std::size_t>(dice.to(static_cast<std::int64_t>(inner.size()) - 1));
    QueueSpec& queue = queues.emplace_back();
    queue.name = leaf ? fmt::format("l{}", i - many) : fmt::format("q{}", i);
    queue.parent = inner[at];
    queue.priority = 100 + dice.to(1);
    queue.created = Time(dice.to(2));
    if (!leaf && depth[at] < 3) {
      inner.push_back(queue.name);
      depth.push_back(depth[at] + 1);
    }
    for (const NaiveDimension& named : kDimensions) {
      if (!dice.one_in(3)) continue;
      const std::int64_t scale = named.second == DimensionKind::memory ? 200 : 8000;
      QueueDimension t{.device_class = named.first, .kind = named.second};
      t.deserved = dice.one_in(8) ? kUnlimited : dice.to(scale);
      t.reserved = dice.one_in(3) ? dice.to(std::max<std::int64_t>(t.deserved, 0)) : 0;
      t.limit =
          dice.one_in(2) ? std::max<std::int64_t>(t.deserved, 0) + dice.to(scale) : kUnlimited;
      t.weight = dice.to(3);
      queue.dimensions.push_back(t);
    }
  }
  if (dice.one_in(3)) {
    queues.emplace_back().name = "root";
    queues.back().dimensions.push_back({.limit = 10'000 + dice.to(20'000)});
  }
  return queues;
}

NaiveCharge random_charge(Dice& dice) {
  NaiveCharge charge{.device_class = dice.one_in(2) ? "A" : "B"};
  switch (dice.to(2)) {
    case 0: charge.shares_mib = 1 + dice.to(50); break;
    case 1: charge.eighths = 1 + dice.to(7); break;
    default: charge.whole = 1 + dice.to(2);
  }
  charge.compute = dice.to(1) * 250;
  return charge;
}

class World {
 public:
  std::string apply(const Op& op) {
    Dice dice(op.seed);
    const std::string leaf = fmt::format("l{}", dice.to(3));
    switch (op.kind) {
      case Op::Kind::configure:
        naive_.queues = random_queues(op.seed);
        tree_.configure({.queues = naive_.queues}, {});
        for (const NaiveDimension& named : kDimensions) {
          naive_.capacity.try_emplace(named, 0);
        }
        break;
      case Op::Kind::capacity: {
        const NaiveDimension& named = dice.of(kDimensions);
        const std::int64_t amount = dice.to(named.second == DimensionKind::memory ? 600 : 24'000);
        naive_.capacity[named] = amount;
        tree_.set_capacity(tree_.class_of(named.first), named.second, amount);
        break;
      }
      case Op::Kind::book: {
        const NaiveBooking booking{.leaf = leaf,
                                   .charge = random_charge(dice),
                                   .state = static_cast<BookingState>(dice.to(2)),
                                   .preemptible = dice.one_in(2)};
        naive_.bookings.push_back(booking);
        tree_.add(tree_.place_of(leaf), real(booking.charge), booking.state, booking.preemptible);
        break;
      }
      case Op::Kind::unbook:
        if (!naive_.bookings.empty()) {
          const auto at = naive_.bookings.begin() + dice.to(std::ssize(naive_.bookings) - 1);
          tree_.remove(tree_.place_of(at->leaf), real(at->charge), at->state, at->preemptible);
          naive_.bookings.erase(at);
        }
        break;
      case Op::Kind::want: {
        const NaiveCharge charge = random_charge(dice);
        naive_.demand.push_back({leaf, charge});
        tree_.add_demand(tree_.place_of(leaf), real(charge));
        break;
      }
      case Op::Kind::unwant:
        if (!naive_.demand.empty()) {
          const auto at = naive_.demand.begin() + dice.to(std::ssize(naive_.demand) - 1);
          tree_.remove_demand(tree_.place_of(at->leaf), real(at->charge));
          naive_.demand.erase(at);
        }
        break;
      case Op::Kind::start: return start(dice);
    }
    return check(dice);
  }

 private:
  Charge real(const NaiveCharge& charge) {
    return {.parts = {{.device_class = tree_.class_of(charge.device_class),
                       .mib = charge.shares_mib + charge.whole * charge.usable(),
                       .compute_milli = charge.compute,
                       .whole = charge.whole,
                       .nano = charge.eighths * 125'000'000,
                       .shares_mib = charge.shares_mib,
                       .usable_mib = charge.usable()}}};
  }

  using Shares = std::vector<std::pair<std::int64_t, std::int64_t>>;

  Shares all_shares() const {
    Shares shares;
    for (std::size_t d = 0; d < tree_.dimensions(); ++d) {
      for (std::size_t q = 0; q < tree_.queue_slots(); ++q) {
        const QuotaFigures figures = tree_.figures(QueueId(q), QuotaDimensionId(d));
        shares.emplace_back(figures.effective_deserved, figures.fair);
      }
    }
    return shares;
  }

  // Constancy: what waits begins to run, and nobody's entitlement moves.
  std::string start(Dice& dice) {
    if (naive_.demand.empty() || naive_.queues.empty()) return "";
    const NaiveDemand& what = dice.of(naive_.demand);
    const Shares before = all_shares();
    naive_.bookings.push_back({.leaf = what.leaf, .charge = what.charge});
    tree_.add(tree_.place_of(what.leaf), real(what.charge), BookingState::running, true);
    return all_shares() == before ? check(dice) : "a start moved somebody's entitlement";
  }

  std::string check(Dice& dice) {
    if (naive_.queues.empty()) return "";  // nothing is configured yet
    for (const auto part : {&World::check_figures, &World::check_questions, &World::check_turn,
                            &World::check_next, &World::check_books}) {
      std::string wrong = (this->*part)(dice);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string check_figures(Dice&) {
    if (tree_.dimensions() != naive_.dimensions().size()) return "dimensions differ";
    for (const NaiveDimension& named : naive_.dimensions()) {
      const QuotaDimensionId d = tree_.dimension(named.first, named.second).value();
      for (const auto& [queue, share] : naive_.shares(named)) {
        const QuotaFigures figures = tree_.figures(tree_.find(queue).value(), d);
        const std::string where = queue + " " + tree_.dimension_name(d);
        if (figures.effective_deserved != share.deserved || figures.fair != share.fair ||
            figures.effective_reserved != share.reserved) {
          return fmt::format("{}: D' {} R' {} F {}, should be {} {} {}", where,
                             figures.effective_deserved, figures.effective_reserved, figures.fair,
                             share.deserved, share.reserved, share.fair);
        }
        if (figures.demand != naive_.demand_of(queue, named)) return where + ": demand";
        const std::int64_t alloc = naive_.alloc(queue, named, {});
        if (figures.alloc != NaiveTree::rounded_up(alloc, named)) return where + ": alloc";
      }
    }
    return "";
  }

  std::string check_questions(Dice& dice) {
    const std::vector<QueueSpec>& queues = naive_.queues;
    const NaiveDemand what{.leaf = fmt::format("l{}", dice.to(3)), .charge = random_charge(dice)};
    const std::string other = fmt::format("l{}", dice.to(3));
    const QueueId leaf = tree_.find(what.leaf).value();
    const QueueId rival = tree_.find(other).value();
    const bool preemptible = dice.one_in(2);
    const auto counting = static_cast<Counting>(dice.to(1));
    const auto entitlement = static_cast<Entitlement>(dice.to(1));
    const Cause cause = tree_.may_start(leaf, real(what.charge), preemptible, counting).cause;
    const Cause right = naive_.may_start(what, preemptible, counting);
    if (cause != right) {
      return fmt::format("{} may start: {}, should be {} ({} queues)", what.leaf, cause_name(cause),
                         cause_name(right), queues.size());
    }
    const QueueId ancestor = tree_.lowest_common_ancestor(leaf, rival);
    const std::string naive_ancestor = naive_.common_ancestor(what.leaf, other);
    if (tree_.name(ancestor) != naive_ancestor) return "common ancestor";
    if (tree_.within(leaf, ancestor, real(what.charge), entitlement, preemptible).refused() ==
        naive_.within(what, naive_ancestor, entitlement, preemptible)) {
      return "within " + what.leaf;
    }
    for (const NaiveDimension& named : naive_.dimensions()) {
      const QuotaDimensionId d = tree_.dimension(named.first, named.second).value();
      if (tree_.above(rival, ancestor, d, entitlement) !=
          naive_.above(other, naive_ancestor, named, entitlement)) {
        return "above " + other;
      }
    }
    return "";
  }

  std::string check_turn(Dice& dice) {
    std::map<std::string, NaiveCharge> naive_heads;
    std::vector<Charge> charges(4);
    std::vector<QueueHead> heads;
    for (const std::size_t i : {2u, 0u, 3u, 1u}) {
      if (dice.one_in(4)) continue;
      const std::string leaf = fmt::format("l{}", i);
      naive_heads[leaf] = random_charge(dice);
      charges[i] = real(naive_heads[leaf]);
      heads.push_back({tree_.find(leaf).value(), &charges[i]});
    }
    if (heads.empty()) return "";
    const std::string first = tree_.name(heads[tree_.first(heads)].leaf);
    const std::string right = naive_.turn("root", naive_heads);
    return first == right ? "" : fmt::format("it is the turn of {}, not of {}", right, first);
  }

  // Heads stay over many steps, so that what is remembered of them must follow every change.
  std::string check_next(Dice& dice) {
    const std::string leaf = fmt::format("l{}", dice.to(3));
    const QueueId id = tree_.find(leaf).value();
    if (dice.one_in(3)) {
      heads_[leaf] = random_charge(dice);
      tree_.set_head(id, real(heads_[leaf]));
    } else if (dice.one_in(6)) {
      heads_.erase(leaf);
      tree_.clear_head(id);
    }
    const std::optional<QueueId> next = tree_.next();
    const std::string right = naive_.turn("root", heads_);
    const std::string found = next.has_value() ? tree_.name(*next) : "";
    return found == right ? "" : fmt::format("next is '{}', should be '{}'", found, right);
  }

  std::string check_books(Dice&) {
    std::vector<Booking> bookings;
    for (const NaiveBooking& booking : naive_.bookings) {
      bookings.push_back(
          {tree_.place_of(booking.leaf), real(booking.charge), booking.state, booking.preemptible});
    }
    std::vector<Charge> charges;
    for (const NaiveDemand& one : naive_.demand) {
      charges.push_back(real(one.charge));
    }
    std::vector<QueueHead> demand;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      demand.push_back({tree_.place_of(naive_.demand[i].leaf), &charges[i]});
    }
    const Result<void> verified = tree_.verify(bookings, demand);
    return verified.ok() ? "" : verified.error().message();
  }

  QueueTree tree_;
  NaiveTree naive_;
  std::map<std::string, NaiveCharge> heads_;
};

std::string play(const std::vector<Op>& ops) {
  World world;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    std::string wrong = world.apply(ops[i]);
    if (!wrong.empty()) return fmt::format("after step {}: {}", i, wrong);
  }
  return "";
}

TEST(QueueTreeProperty, EveryAnswerIsTheOneOfTheContract) {
  for (std::uint32_t seed = 1; seed <= 120; ++seed) {
    Dice dice(seed);
    std::vector<Op> ops{{Op::Kind::configure, seed}};
    for (int i = 0; i < 40; ++i) {
      const std::int64_t roll = dice.to(15);
      const Op::Kind kind = roll < 4    ? Op::Kind::book
                            : roll < 6  ? Op::Kind::unbook
                            : roll < 10 ? Op::Kind::want
                            : roll < 11 ? Op::Kind::unwant
                            : roll < 13 ? Op::Kind::capacity
                            : roll < 15 ? Op::Kind::start
                                        : Op::Kind::configure;
      ops.push_back({kind, static_cast<std::uint32_t>(dice.to(1'000'000))});
    }
    if (!play(ops).empty()) {
      const std::vector<Op> least =
          shrink(ops, [](const std::vector<Op>& fewer) { return !play(fewer).empty(); });
      std::string text;
      for (const Op& op : least) {
        text += fmt::format(" {}:{}", static_cast<int>(op.kind), op.seed);
      }
      FAIL() << "seed " << seed << ": " << play(least) << "; steps" << text;
    }
  }
}

// Past use and the order of the file: two trees that differ in it alone answer alike.
TEST(QueueTreeProperty, TheOrderOfTheFileDecidesNothing) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    Dice dice(seed);
    std::vector<QueueSpec> queues = random_queues(seed);
    for (QueueSpec& queue : queues) {
      if (dice.one_in(3)) queue.history = QueueHistory{.half_life = Duration(600'000)};
    }
    std::vector<QueueSpec> shuffled = queues;
    std::ranges::shuffle(shuffled, std::mt19937(seed));
    for (QueueSpec& queue : shuffled) {
      std::ranges::reverse(queue.dimensions);
    }
    QueueTree left;
    QueueTree right;
    left.configure({.queues = queues}, {});
    right.configure({.queues = shuffled}, {});
    std::vector<Charge> charges(4);
    for (int step = 0; step < 30; ++step) {
      const std::string leaf = fmt::format("l{}", dice.to(3));
      const std::int64_t shares = 1 + dice.to(40);
      const std::int64_t capacity = dice.to(24'000);
      const bool preemptible = dice.one_in(2);
      std::vector<std::string> said;
      for (QueueTree* tree : {&left, &right}) {
        const Charge charge{.parts = {{.device_class = tree->class_of("A"),
                                       .mib = shares,
                                       .shares_mib = shares,
                                       .usable_mib = 24}}};
        const QueueId id = tree->find(leaf).value();
        tree->set_capacity(kEveryClass, DimensionKind::devices, capacity);
        tree->set_capacity(tree->class_of("A"), DimensionKind::devices, capacity / 2);
        tree->add_demand(id, charge);
        tree->add(id, charge, BookingState::running, preemptible);
        tree->note_grant(id, charge);
        tree->sample(Time(std::int64_t{step} * 60'000));
        std::vector<QueueHead> heads;
        for (const std::string_view each : {"l0", "l1", "l2", "l3"}) {
          heads.push_back({tree->find(each).value(), &charge});
        }
        const QuotaRefusal refused = tree->may_start(id, charge, preemptible, Counting::present);
        std::string text = fmt::format("{} {} {} {}", cause_name(refused.cause), refused.need,
                                       refused.used, tree->first(heads));
        for (const NaiveDimension& named : kDimensions) {
          const auto d = tree->dimension(named.first, named.second);
          for (const QueueSpec& queue : queues) {
            if (!d.has_value()) continue;
            const QuotaFigures figures = tree->figures(tree->find(queue.name).value(), *d);
            text += fmt::format(" {}/{}/{}", figures.effective_deserved, figures.fair,
                                figures.decayed_use);
          }
        }
        said.push_back(text);
      }
      ASSERT_EQ(said[0], said[1]) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace berth::core
