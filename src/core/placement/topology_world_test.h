// A fleet that is nothing but names and labels, with counts given by hand.
//
//   Racks racks({"rack", "host"});
//   racks.add("n0", {{"rack", "r1"}, {"host", "n0"}}, 3);      // three members fit
//   racks.choose({.required = "rack"}, 2)
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/placement/choose_domains.h"

namespace berth::core {

class Racks {
 public:
  explicit Racks(std::vector<std::string> levels)
      : topology{.name = "t", .levels = std::move(levels)}, domains(topology), counts(domains) {}

  Racks(const Racks&) = delete;
  Racks& operator=(const Racks&) = delete;

  NodeId add(const std::string& name, std::map<std::string, std::string> labels, NodeRoom room,
             std::int64_t tie_rank = 0) {
    Node node;
    node.name = name;
    node.labels = std::move(labels);
    node.tie_rank = tie_rank;
    const NodeId id = fleet.upsert(std::move(node)).value().node;
    domains.sync(fleet, id);
    counts.set(id, room);
    return id;
  }

  NodeId add(const std::string& name, std::map<std::string, std::string> labels,
             std::int64_t members) {
    return add(name, std::move(labels), NodeRoom{.members = members});
  }

  void remove(const std::string& name) {
    const NodeId id = fleet.remove(name).value().node;
    domains.sync(fleet, id);
    counts.set(id, {});
  }

  LevelRule rule(const TopologyRule& words) const {
    const Result<LevelRule> resolved = resolve_levels(topology, words);
    EXPECT_TRUE(resolved.ok());
    return resolved.value();
  }

  DomainChoice choose(const TopologyRule& words, std::int64_t members, bool leader = false) const {
    return choose_domains(counts, rule(words), {.members = members, .leader = leader});
  }

  // "n0:3 n1:1"; the reason when it does not fit: "2 of 4 in r1".
  std::string told(const TopologyRule& words, std::int64_t members, bool leader = false) const {
    const DomainChoice choice = choose(words, members, leader);
    std::string text;
    if (!choice.fits) {
      const DomainShortage& shortage = choice.shortage;
      return std::to_string(shortage.fits) + " of " + std::to_string(shortage.need) + " in " +
             (shortage.best.is_none() ? "none" : domains.name(shortage.best));
    }
    for (const NodeShare& share : choice.nodes) {
      text += (text.empty() ? "" : " ") + fleet.node(share.node).name + ":" +
              std::to_string(share.members);
    }
    return choice.leader.is_none() ? text : text + " leader " + fleet.node(choice.leader).name;
  }

  DomainId named(const std::string& name) const {
    for (std::size_t i = 0; i < domains.slots(); ++i) {
      if (domains.name(DomainId(i)) == name) {
        return DomainId(i);
      }
    }
    return DomainId::none();
  }

  Fleet fleet;
  Topology topology;
  Domains domains;
  MemberCounts counts;
};

}  // namespace berth::core
