// GangProof: whether a gang could ever start, proved on the machines as they are when nothing runs.
//
// By counts and bounds, never by a search: each group by itself, each rule of topology by what its
// domains hold. Exact for groups of equal members; for others it may say "it could" where the
// pieces do not fit together. What is learned about a shape is learned once per proof.
// Thread-safety: none; reads one engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/engine/engine_impl.h"

namespace berth::core {

class GangProof {
 public:
  GangProof(const Engine::Impl& engine, const GangState& gang);

  // What no rule of topology is needed for; none: it could, or that is not disproved.
  Cause never();
  // The first group whose rule of topology no domain could keep. Such a gang waits (annotations.md
  // T2, T3) and is told so. Empty: domains could, or that is not disproved.
  std::optional<GangShortage> lack_of_domains();

 private:
  struct Amount {
    std::int64_t whole = 0;  // devices for itself alone
    std::int64_t mib = 0;    // at least, of memory; whole devices not counted
  };
  struct Rule {
    const Domains* domains = nullptr;  // null: none that counts
    LevelRule levels;
  };
  // Where a group has to stay.
  struct Part {
    const Domains* domains = nullptr;  // null: anywhere
    DomainId domain = kWholePool;
  };

  GangShortage shortage_of(std::size_t group, const Rule& rule);
  void count_alike(const Domains& domains, int level, GangShortage& found);
  Cause of_group(std::size_t group);
  bool holds(std::size_t group, Part within);
  bool holds_inside(std::size_t group, Part within);
  bool is_complete(std::size_t group) const;
  std::int64_t missing(const GangNode& node) const;
  Rule rule_of(std::size_t group, Part within) const;
  std::map<ShapeId, std::int64_t> shapes_of(const GangNode& leaf) const;
  std::optional<ShapeId> only_shape(const GangNode& node) const;
  const std::vector<std::int64_t>& by_node(ShapeId shape);
  const MemberCounts& counts(ShapeId shape, const Domains& domains);
  std::int64_t members_in(ShapeId shape, Part within);
  Amount least_of(std::size_t group) const;
  static Amount least_of(const Shape& shape);
  Amount amount_in(Part within) const;

  const Engine::Impl& engine_;
  const GangState& gang_;
  std::map<ShapeId, std::vector<std::int64_t>> by_node_;
  std::map<std::pair<ShapeId, const Domains*>, MemberCounts> counts_;
};

}  // namespace berth::core
