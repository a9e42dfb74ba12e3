#include "core/placement/domain_rooms.h"

#include <algorithm>

namespace berth::core {

DomainRooms::DomainRooms(const MemberCounts& counts, const LevelRule& rule, const DomainAsk& ask)
    : counts_(counts), domains_(counts.domains()), ask_(ask) {
  for (std::size_t i = 0; i < rule.segments.size(); ++i) {
    const std::int64_t size = rule.segments[i].size;
    const std::int64_t finer = i + 1 < rule.segments.size() ? rule.segments[i + 1].size : 1;
    layers_.push_back({.level = rule.segments[i].level,
                       .size = size,
                       .ratio = size / finer,
                       .rest_units = ask.members % size / finer,
                       .has_rest = ask.members % size != 0});
  }
  if (!plain()) {
    rooms_.resize(domains_.slots());
    known_.resize(domains_.slots());
  }
}

std::size_t DomainRooms::layer_at(int level) const {
  std::size_t layer = 0;
  while (layer < layers_.size() && layers_[layer].level < level) {
    ++layer;
  }
  return layer;
}

Load DomainRooms::whole(int level) const {
  const std::size_t layer = layer_at(level);
  const std::int64_t size = layer < layers_.size() ? layers_[layer].size : 1;
  return {.units = ask_.members / size,
          .beside = (ask_.leader ? kLeader : kNothing) | (has_rest(layer) ? kRest : kNothing)};
}

std::int64_t DomainRooms::members_of(const Load& load, int level) const {
  const std::size_t layer = layer_at(level);
  const std::int64_t size = layer < layers_.size() ? layers_[layer].size : 1;
  return load.units * size + ((load.beside & kRest) != 0 ? ask_.members % size : 0);
}

Room DomainRooms::node_room(NodeId node, int level_below) const {
  const NodeRoom& on = counts_.at(node);
  Room room;
  // Segments of a level that the node's labels do not name cannot stand on it.
  const bool counts_members = layer_at(level_below) == layers_.size();
  room.units[kNothing] = counts_members ? on.members : 0;
  if (on.with_leader != kNoRoom) {
    room.units[kLeader] = counts_members ? on.with_leader : 0;
  }
  return room;
}

// The most units in all parts together, for each way to share out what stands beside them.
Room DomainRooms::combine(const std::vector<Part>& parts) const {
  Room sum;
  for (const Part& part : parts) {
    Room next;
    for (unsigned set = 0; set < next.units.size(); ++set) {
      next.units[set] = kNoRoom;
      for (unsigned here = 0; here <= set; ++here) {
        const bool is_subset = (here & ~set) == 0;
        if (is_subset && part.room.units[here] != kNoRoom && sum.units[set & ~here] != kNoRoom) {
          next.units[set] =
              std::max(next.units[set], part.room.units[here] + sum.units[set & ~here]);
        }
      }
    }
    sum = next;
  }
  return sum;
}

Room DomainRooms::in_segments(const Room& below, std::size_t index) const {
  const Layer& layer = layers_[index];
  const unsigned rest_below = has_rest(index + 1) ? kRest : kNothing;
  Room room;
  for (const unsigned leader : {kNothing, kLeader}) {
    const std::int64_t all = below.units[leader];
    room.units[leader] = all == kNoRoom ? kNoRoom : all / layer.ratio;
    const std::int64_t beside_rest = below.units[leader | rest_below];
    if (layer.has_rest && beside_rest >= layer.rest_units) {
      room.units[leader | kRest] = (beside_rest - layer.rest_units) / layer.ratio;
    }
  }
  return room;
}

Room DomainRooms::room(DomainId domain) {
  if (plain()) {
    return {.units = {counts_.members(domain), kNoRoom, kNoRoom, kNoRoom}};
  }
  if (!known_[domain.index()]) {
    Room room = combine(parts(domain));
    const std::size_t layer = layer_at(domains_.level(domain));
    if (layer < layers_.size() && layers_[layer].level == domains_.level(domain)) {
      room = in_segments(room, layer);
    }
    rooms_[domain.index()] = room;
    known_[domain.index()] = true;
  }
  return rooms_[domain.index()];
}

Part DomainRooms::part(DomainId domain) {
  return {.domain = domain,
          .node = NodeId::none(),
          .room = room(domain),
          .members = counts_.members(domain)};
}

std::vector<Part> DomainRooms::parts(DomainId domain) {
  std::vector<Part> parts;
  for (const DomainId child : domains_.children(domain)) {
    if (domains_.node_count(child) > 0) {
      parts.push_back(part(child));
    }
  }
  for (const NodeId node : domains_.nodes(domain)) {
    parts.push_back({.domain = DomainId::none(),
                     .node = node,
                     .room = node_room(node, domains_.level(domain) + 1),
                     .members = counts_.at(node).members});
  }
  return parts;
}

Load DomainRooms::below(DomainId domain, const Load& load) const {
  const std::size_t index = layer_at(domains_.level(domain));
  if (index == layers_.size() || layers_[index].level != domains_.level(domain)) {
    return load;
  }
  const Layer& layer = layers_[index];
  const bool rest = (load.beside & kRest) != 0;
  return {.units = load.units * layer.ratio + (rest ? layer.rest_units : 0),
          .beside = (load.beside & kLeader) | (rest && has_rest(index + 1) ? kRest : kNothing)};
}

std::int64_t DomainRooms::hole(const Part& part) const {
  if (part.domain.is_none()) {
    return counts_.at(part.node).hole;
  }
  std::int64_t largest = 0;
  for (const DomainId child : domains_.children(part.domain)) {
    largest = std::max(largest, hole({.domain = child, .node = {}, .room = {}, .members = 0}));
  }
  for (const NodeId node : domains_.nodes(part.domain)) {
    largest = std::max(largest, counts_.at(node).hole);
  }
  return largest;
}

}  // namespace berth::core
