#include "core/queue/queue_tree.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.h"
#include "core/queue/queue_tree_impl.h"

namespace berth::core {

QueueTree::QueueTree() : impl_(std::make_unique<Impl>()) {
  const std::vector<QueueProblem> problems = configure(default_queues(), {});
  ASSERT(problems.empty());
}

QueueTree::~QueueTree() = default;
QueueTree::QueueTree(QueueTree&&) noexcept = default;
QueueTree& QueueTree::operator=(QueueTree&&) noexcept = default;

std::optional<QueueId> QueueTree::find(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? std::nullopt : std::optional(found->second);
}

std::size_t QueueTree::queue_slots() const { return impl_->nodes.size(); }

bool QueueTree::is_listed(QueueId queue) const { return impl_->node(queue).listed; }

bool QueueTree::is_leaf(QueueId queue) const {
  const QueueNode& node = impl_->node(queue);
  return node.listed && queue != kRootQueue && !node.has_listed_children;
}

QueueId QueueTree::parent(QueueId queue) const { return impl_->node(queue).parent; }

std::span<const QueueId> QueueTree::children(QueueId queue) const {
  return impl_->node(queue).children;
}

const std::string& QueueTree::name(QueueId queue) const { return impl_->node(queue).name; }

std::string QueueTree::path_name(QueueId queue) const {
  std::string path = name(queue);
  for (QueueId at = parent(queue); !at.is_none(); at = parent(at)) {
    path = name(at) + "/" + path;
  }
  return path;
}

const QueueSpec& QueueTree::spec(QueueId queue) const { return impl_->node(queue).spec; }

std::string QueueTree::held_because(QueueId queue) const {
  for (QueueId at = queue; !at.is_none(); at = parent(at)) {
    const QueueNode& node = impl_->node(at);
    if (!node.held.empty()) {
      return at == queue ? node.held : fmt::format("queue {} is held: {}", node.name, node.held);
    }
  }
  return "";
}

QueueStop QueueTree::stop(QueueId queue) const {
  QueueStop strictest = QueueStop::none;
  for (QueueId at = queue; !at.is_none(); at = parent(at)) {
    strictest = std::max(strictest, spec(at).stop);
  }
  return strictest;
}

Cause QueueTree::queue_refusal(std::string_view queue_name) const {
  const std::optional<QueueId> queue = find(queue_name);
  if (!queue.has_value() || !is_listed(*queue)) {
    return Cause::unknown_queue;
  }
  return is_leaf(*queue) ? Cause::none : Cause::not_a_leaf_queue;
}

DeviceClassId QueueTree::class_of(std::string_view model) { return impl_->intern_class(model); }

const std::string& QueueTree::class_name(DeviceClassId device_class) const {
  return impl_->classes[device_class.index()];
}

std::size_t QueueTree::dimensions() const { return impl_->dimensions.size(); }

std::optional<QuotaDimensionId> QueueTree::dimension(std::string_view device_class,
                                                     DimensionKind kind) const {
  const auto found = impl_->class_by_name.find(device_class);
  if (found == impl_->class_by_name.end()) {
    return std::nullopt;
  }
  const QuotaDimensionId d = impl_->of_slot[slot_of(found->second, kind).index()];
  return d.is_none() ? std::nullopt : std::optional(d);
}

std::string QueueTree::dimension_name(QuotaDimensionId dimension) const {
  const QuotaSlot slot = impl_->dim(dimension).slot;
  return fmt::format("{}/{}", class_name(class_in(slot)), dimension_kind_name(kind_of(slot)));
}

std::vector<QuotaDimensionId> QueueTree::dimensions_of(const Charge& charge) const {
  std::vector<QuotaDimensionId> named;
  for (const ChargeNeed& need : impl_->named_needs(charge)) {
    if (!need.dimension.is_none()) {
      named.push_back(need.dimension);
    }
  }
  std::ranges::sort(named);
  return named;
}

std::int64_t QueueTree::amount_of(const Charge& charge, QuotaDimensionId dimension) const {
  for (const ChargeNeed& need : impl_->named_needs(charge)) {
    if (need.dimension == dimension) {
      return need.amount.rounded_up(impl_->dim(dimension).per_whole);
    }
  }
  return 0;
}

// The charge by slot, each slot once and none with nothing. Valid until the next call.
std::span<const ChargeNeed> QueueTree::Impl::needs(const Charge& charge) {
  return find_needs<false>(charge);
}

// Those of the dimensions that somebody names: all that a question is about.
std::span<const ChargeNeed> QueueTree::Impl::named_needs(const Charge& charge) {
  return find_needs<true>(charge);
}

template <bool kNamedOnly>
std::span<const ChargeNeed> QueueTree::Impl::find_needs(const Charge& charge) {
  needs_used = 0;
  const auto is_asked = [&](DeviceClassId device_class, DimensionKind kind) {
    return !kNamedOnly || !of_slot[slot_of(device_class, kind).index()].is_none();
  };
  const auto amount_in = [&](DeviceClassId device_class, DimensionKind kind) -> ExactSum& {
    const QuotaSlot slot = slot_of(device_class, kind);
    for (std::size_t i = 0; i < needs_used; ++i) {
      if (needs_memory[i].slot == slot) {
        return needs_memory[i].amount;
      }
    }
    if (needs_used == needs_memory.size()) {
      needs_memory.emplace_back();
    }
    ChargeNeed& need = needs_memory[needs_used++];
    need.slot = slot;
    need.dimension = of_slot[slot.index()];
    need.amount.clear();
    return need.amount;
  };
  const auto take = [&](const ChargePart& part, DeviceClassId device_class) {
    if (part.mib != 0 && is_asked(device_class, DimensionKind::memory)) {
      amount_in(device_class, DimensionKind::memory).add_whole(part.mib);
    }
    if (part.compute_milli != 0 && is_asked(device_class, DimensionKind::compute)) {
      amount_in(device_class, DimensionKind::compute).add_whole(part.compute_milli);
    }
    if ((part.whole != 0 || part.nano != 0 || part.shares_mib != 0) &&
        is_asked(device_class, DimensionKind::devices)) {
      ExactSum& devices = amount_in(device_class, DimensionKind::devices);
      devices.add_whole(part.whole);
      devices.add_fraction(part.nano, ExactSum::kNano);
      if (part.shares_mib != 0) {
        devices.add_fraction(part.shares_mib, part.usable_mib);
      }
    }
  };
  for (const ChargePart& part : charge.parts) {
    take(part, part.device_class);
    if (part.device_class != kEveryClass) {
      take(part, kEveryClass);
    }
  }
  return std::span(needs_memory).first(needs_used);
}

namespace {

void change(ExactSum& sum, const ExactSum& by, bool adding) {
  if (adding) {
    sum.add(by);
  } else {
    sum.subtract(by);
  }
}

struct BookingKind {
  bool releasing = false;
  bool preemptible = false;
  bool adding = false;
};

void change(BookedSums& sums, const ExactSum& by, BookingKind kind) {
  change(sums.present, by, kind.adding);
  if (!kind.releasing) {
    change(sums.future, by, kind.adding);
  }
  if (!kind.preemptible) {
    change(sums.fixed_present, by, kind.adding);
    if (!kind.releasing) {
      change(sums.fixed_future, by, kind.adding);
    }
  }
}

}  // namespace

void QueueTree::Impl::book(QueueId leaf, const Charge& charge, BookingState state, bool preemptible,
                           bool adding) {
  standing_changed(leaf);
  const BookingKind kind{
      .releasing = state == BookingState::releasing, .preemptible = preemptible, .adding = adding};
  for (const ChargeNeed& need : needs(charge)) {
    std::vector<BookedSums>& own = node(leaf).own;
    if (own.size() <= need.slot.index()) {
      own.resize(of_slot.size());
    }
    change(own[need.slot.index()], need.amount, kind);
    if (need.dimension.is_none()) {
      continue;
    }
    for (QueueId at = leaf; !at.is_none(); at = node(at).parent) {
      change(place(at, need.dimension).sums, need.amount, kind);
    }
    if (dim(need.dimension).reserving) {
      charge_booked(leaf, need.dimension, Counting::present, need.amount, adding);
      if (!kind.releasing) {
        charge_booked(leaf, need.dimension, Counting::future, need.amount, adding);
      }
    }
  }
}

void QueueTree::add(QueueId leaf, const Charge& charge, BookingState state, bool preemptible) {
  impl_->book(leaf, charge, state, preemptible, true);
}

void QueueTree::remove(QueueId leaf, const Charge& charge, BookingState state, bool preemptible) {
  impl_->book(leaf, charge, state, preemptible, false);
}

void QueueTree::add_demand(QueueId leaf, const Charge& charge) {
  impl_->change_demand(leaf, charge, 1);
}

void QueueTree::remove_demand(QueueId leaf, const Charge& charge) {
  impl_->change_demand(leaf, charge, -1);
}

void QueueTree::set_capacity(DeviceClassId device_class, DimensionKind kind, std::int64_t amount) {
  const QuotaSlot slot = slot_of(device_class, kind);
  if (impl_->capacity[slot.index()] == amount) {
    return;
  }
  impl_->capacity[slot.index()] = amount;
  const QuotaDimensionId d = impl_->of_slot[slot.index()];
  if (!d.is_none()) {
    impl_->mark_stale(kRootQueue, d);
  }
}

}  // namespace berth::core
