// Everything that is kept incrementally, once more from the caller's lists.
#include <fmt/format.h>

#include "core/queue/queue_tree_impl.h"

namespace berth::core {

namespace {

Error differs(const QueueTree& tree, QueueId queue, std::string_view what) {
  return {ErrorCode::internal, fmt::format("queue {}: {} kept are not those of its bookings",
                                           tree.path_name(queue), what)};
}

// Sums by slot, where a missing tail means nothing.
template <class Value>
bool same(const std::vector<Value>& a, const std::vector<Value>& b) {
  const Value nothing{};
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if ((i < a.size() ? a[i] : nothing) != (i < b.size() ? b[i] : nothing)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<void> QueueTree::verify(std::span<const Booking> bookings,
                               std::span<const QueueHead> demand) const {
  QueueTree again;
  *again.impl_ = *impl_;
  for (QueueNode& node : again.impl_->nodes) {
    node.own.clear();
    node.own_demand.clear();
  }
  // Without a name for any slot only the queues' own books are written.
  const std::vector<QuotaDimensionId> named = impl_->of_slot;
  again.impl_->of_slot.assign(named.size(), QuotaDimensionId::none());
  for (const Booking& booking : bookings) {
    again.add(booking.leaf, booking.charge, booking.state, booking.preemptible);
  }
  for (const QueueHead& one : demand) {
    again.add_demand(one.leaf, *one.charge);
  }
  again.impl_->of_slot = named;
  again.impl_->set_terms();
  again.impl_->rebuild_books();
  for (std::size_t d = 0; d < dimensions(); ++d) {
    again.impl_->settle(QuotaDimensionId(d));
    impl_->settle(QuotaDimensionId(d));
  }
  for (std::size_t i = 0; i < queue_slots(); ++i) {
    const QueueNode& kept = impl_->nodes[i];
    const QueueNode& right = again.impl_->nodes[i];
    if (!same(kept.own, right.own) || !same(kept.own_demand, right.own_demand)) {
      return differs(*this, QueueId(i), "own sums");
    }
    for (std::size_t d = 0; d < dimensions(); ++d) {
      const QueuePlace& here = kept.places[d];
      const QueuePlace& there = right.places[d];
      if (here.sums != there.sums || here.demand != there.demand) {
        return differs(*this, QueueId(i), "sums or demand");
      }
      if (here.share != there.share || here.use != there.use) {
        return differs(*this, QueueId(i), "entitlements or past use");
      }
      if (impl_->dimensions[d].reserving && here.charges != there.charges) {
        return differs(*this, QueueId(i), "charges of reservations");
      }
    }
  }
  return {};
}

}  // namespace berth::core
