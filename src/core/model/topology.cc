#include "core/model/topology.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/suggest.h"

namespace berth::core {

namespace {

void check_levels(const Topology& topology, std::vector<TopologyProblem>& problems) {
  const auto problem = [&](std::string text) {
    problems.push_back({.topology = topology.name, .text = std::move(text)});
  };
  if (topology.levels.empty()) {
    problem(fmt::format("topology {}: levels is empty; list 1 to {} node label keys, widest first",
                        topology.name, kMostLevels));
  }
  if (topology.levels.size() > kMostLevels) {
    problem(fmt::format("topology {}: {} levels; at most {} are supported, leave some out",
                        topology.name, topology.levels.size(), kMostLevels));
  }
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < topology.levels.size(); ++i) {
    const std::string& level = topology.levels[i];
    if (level.empty()) {
      problem(
          fmt::format("topology {}: levels[{}] is empty; name a node label key", topology.name, i));
    } else if (!seen.insert(level).second) {
      problem(fmt::format("topology {}: levels[{}] is {}, which is listed before; list each once",
                          topology.name, i, level));
    }
  }
}

}  // namespace

std::vector<TopologyProblem> check_topologies(const std::vector<Topology>& topologies) {
  std::vector<TopologyProblem> problems;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < topologies.size(); ++i) {
    const std::string& name = topologies[i].name;
    if (name.empty()) {
      problems.push_back(
          {.topology = name, .text = fmt::format("topologies[{}]: name is empty; give it one", i)});
    } else if (!names.insert(name).second) {
      problems.push_back(
          {.topology = name,
           .text = fmt::format("topology {}: the name is given twice; names are unique", name)});
    }
    check_levels(topologies[i], problems);
  }
  return problems;
}

namespace {

Error unknown(std::string_view field, std::string_view value, std::string_view what,
              std::string_view where, const std::vector<std::string>& known) {
  return invalid_argument(fmt::format("{} is {}, but {} no such {}; did you mean {}?", field, value,
                                      where, what, nearest(value, known)));
}

// The place of a level; kNoLevel for an empty key.
Result<int> place_of(const Topology& topology, std::string_view field, const std::string& key) {
  if (key.empty()) {
    return kNoLevel;
  }
  const auto found = std::ranges::find(topology.levels, key);
  if (found == topology.levels.end()) {
    return unknown(field, key, "level", fmt::format("topology {} has", topology.name),
                   topology.levels);
  }
  return static_cast<int>(found - topology.levels.begin());
}

Result<void> check_segment(const TopologyRule& rule, const LevelRule& resolved, std::size_t i) {
  const SegmentRule& segment = rule.segments[i];
  const LevelRule::Segment& place = resolved.segments[i];
  const auto refuse = [&](std::string_view why) {
    return invalid_argument(fmt::format("topology.segments[{}] is {} of {}; {}", i, segment.size,
                                        segment.level.empty() ? "no level" : segment.level, why));
  };
  if (place.level == kNoLevel) {
    return refuse("name the level that each segment must lie in");
  }
  if (segment.size < 1) {
    return refuse("a segment has at least 1 member");
  }
  if (resolved.required != kNoLevel && place.level < resolved.required) {
    return refuse(fmt::format("its level is wider than the required level {}: name one inside it",
                              rule.required));
  }
  if (i > 0) {
    const LevelRule::Segment& wider = resolved.segments[i - 1];
    if (place.level <= wider.level) {
      return refuse(fmt::format("list segments widest first, each on a narrower level than {}",
                                rule.segments[i - 1].level));
    }
    if (wider.size % segment.size != 0) {
      return refuse(
          fmt::format("its size must divide the size of the wider segment, {}", wider.size));
    }
  }
  return success();
}

}  // namespace

Result<std::size_t> find_topology(const std::vector<Topology>& topologies,
                                  const TopologyRule& rule) {
  if (topologies.empty()) {
    return invalid_argument(
        fmt::format("the group asks for topology {}, but none is defined; define one or leave the "
                    "rule out",
                    rule.topology.empty() ? "placement" : rule.topology));
  }
  std::vector<std::string> names;
  for (const Topology& topology : topologies) {
    names.push_back(topology.name);
  }
  if (rule.topology.empty()) {
    if (topologies.size() == 1) {
      return std::size_t{0};
    }
    return invalid_argument(
        fmt::format("topology.topology is empty, but {} are defined; name one, "
                    "e.g. {}",
                    topologies.size(), names.front()));
  }
  const auto found = std::ranges::find(names, rule.topology);
  if (found == names.end()) {
    return unknown("topology.topology", rule.topology, "topology", "there is", names);
  }
  return static_cast<std::size_t>(found - names.begin());
}

Result<LevelRule> resolve_levels(const Topology& topology, const TopologyRule& rule) {
  LevelRule resolved;
  TRY(resolved.required, place_of(topology, "topology.required", rule.required));
  TRY(resolved.preferred, place_of(topology, "topology.preferred", rule.preferred));
  if (resolved.preferred != kNoLevel && resolved.preferred < resolved.required) {
    return invalid_argument(fmt::format(
        "topology.preferred is {}, which is wider than the required level {} and would never "
        "apply; name a narrower level or leave it out",
        rule.preferred, rule.required));
  }
  for (std::size_t i = 0; i < rule.segments.size(); ++i) {
    TRY(const int level,
        place_of(topology, fmt::format("topology.segments[{}].level", i), rule.segments[i].level));
    resolved.segments.push_back({.level = level, .size = rule.segments[i].size});
    TRY_VOID(check_segment(rule, resolved, i));
  }
  return resolved;
}

}  // namespace berth::core
