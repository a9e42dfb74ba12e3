// DomainRooms: what each domain holds for one ask, counted in the unit of its level.
//
// A domain at or above the level of a segment rule counts whole segments (of the widest rule that
// lies at or below it), every other one members. Two things are placed once beside the units: the
// leader, and the rest, the last segment when the size does not divide the members. A Room says how
// many whole units fit beside each set of them, so that "does it fit" is one comparison at any
// level, and exact.
//
// Made for one decision; the counts must not change meanwhile.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/placement/choose_domains.h"

namespace berth::core {

// Bits: what stands in the domain beside the units.
inline constexpr unsigned kNothing = 0;
inline constexpr unsigned kLeader = 1;
inline constexpr unsigned kRest = 2;

// By set of those: whole units that fit beside it; kNoRoom: it does not fit itself.
struct Room {
  std::array<std::int64_t, 4> units{0, kNoRoom, kNoRoom, kNoRoom};
};

// Something below a domain: a domain or, if that is none, a node.
struct Part {
  DomainId domain;
  NodeId node;
  Room room;
  std::int64_t members = 0;  // that fit, segments aside
};

struct Load {
  std::int64_t units = 0;
  unsigned beside = kNothing;
};

class DomainRooms {
 public:
  DomainRooms(const MemberCounts& counts, const LevelRule& rule, const DomainAsk& ask);

  // The whole ask in the unit of a level.
  Load whole(int level) const;
  // How many members such a number of units beside `beside` stands for.
  std::int64_t members_of(const Load& load, int level) const;

  Room room(DomainId domain);
  Part part(DomainId domain);
  // Everything directly below the domain that is not empty, in the order of ties.
  std::vector<Part> parts(DomainId domain);
  // A load of the domain in the unit of what is directly below it.
  Load below(DomainId domain, const Load& load) const;
  // The largest hole of a node in it.
  std::int64_t hole(const Part& part) const;

 private:
  struct Layer {
    int level = kNoLevel;
    std::int64_t size = 1;        // members
    std::int64_t ratio = 1;       // units of the next layer
    std::int64_t rest_units = 0;  // whole units of the next layer in the rest
    bool has_rest = false;
  };

  // The widest layer at or below the level; layers_.size(): none, members are counted.
  std::size_t layer_at(int level) const;
  bool has_rest(std::size_t layer) const {
    return layer < layers_.size() && layers_[layer].has_rest;
  }
  bool plain() const { return layers_.empty() && !ask_.leader; }
  Room node_room(NodeId node, int level_below) const;
  Room combine(const std::vector<Part>& parts) const;
  Room in_segments(const Room& below, std::size_t layer) const;

  const MemberCounts& counts_;
  const Domains& domains_;
  DomainAsk ask_;
  std::vector<Layer> layers_;  // widest first
  std::vector<Room> rooms_;    // by DomainId, where known_
  std::vector<bool> known_;
};

}  // namespace berth::core
