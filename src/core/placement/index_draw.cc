// The part of PlacementIndex that policies which draw need.
#include <bit>

#include "core/placement/index.h"

namespace berth::core {

// One of the feasible nodes, each once and in order of their names, so that the answer depends on
// the generator alone.
Selection PlacementIndex::draw(const Shape& shape, const ShapePage& page, const GuardRule& guard) {
  Ranking& ranking = ranking_of(shape);
  std::vector<Selection> feasible;
  for (const NodeId node : ranking.by_name) {
    if (!guarded_[node.index()]) {
      if (page.takes(ranking.position[node.index()])) {
        feasible.push_back({.node = node});
      }
      continue;
    }
    const std::optional<std::uint64_t> allowed = guard ? guard(node) : ~std::uint64_t{0};
    if (allowed.has_value() &&
        answer(shape, input_of(node), ranking.values[node.index()], *allowed).cause ==
            Cause::none) {
      feasible.push_back({.node = node, .allowed = *allowed});
    }
  }
  if (feasible.empty()) {
    return {};
  }
  Selection drawn = feasible[ranking.draw->below(static_cast<std::uint32_t>(feasible.size()))];
  draw_place(shape, drawn);
  return drawn;
}

// After the node, for a part of a device: which of the places that fit.
void PlacementIndex::draw_place(const Shape& shape, Selection& selection) {
  if (!shape.wants_gpu() || !shape.simple || !shape.ask(0).is_share()) {
    return;
  }
  const StaticFit& fit = shapes_.fit(shape.id, types_, fleet_, selection.node);
  const AskPlaces found =
      places_for(shape.ask(0), fit.asks[0], ledger_.faces(selection.node), selection.allowed);
  selection.drawn =
      ranking_of(shape).draw->below(static_cast<std::uint32_t>(std::popcount(found.fits)));
}

}  // namespace berth::core
