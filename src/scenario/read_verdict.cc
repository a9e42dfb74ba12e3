// Expectations about queues, gangs, domains and evictions.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "scenario/figure_keys.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

using core::DimensionKind;
using Rule = core::Evicted::Rule;

constexpr std::array<std::pair<std::string_view, DimensionKind>, core::kDimensionKinds> kKinds = {
    {{"memory", DimensionKind::memory},
     {"devices", DimensionKind::devices},
     {"compute", DimensionKind::compute}}};

Result<void> read_gang_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(gang_figures(), value, expect);
}

Result<void> read_topology_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(topology_figures(), value, expect);
}

Result<void> read_preemption_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(preemption_figures(), value, expect);
}

Result<void> read_quota_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(quota_figures(), value, expect);
}

Result<void> read_queue_figure(const Value& value, ExpectFigures& expect) {
  return read_figure(queue_figures(), value, expect);
}

// "a100-80g/memory" -> memory.
Result<DimensionKind> kind_of(const Named& dimension, const Value& value) {
  const std::size_t slash = dimension.text.rfind('/');
  const std::string_view kind = slash == std::string::npos
                                    ? std::string_view()
                                    : std::string_view(dimension.text).substr(slash + 1);
  for (const auto& [name, meaning] : kKinds) {
    if (kind == name) return meaning;
  }
  const std::array<std::string_view, core::kDimensionKinds> known = {
      kKinds[0].first, kKinds[1].first, kKinds[2].first};
  return yaml::error_at(value.file(), dimension.place.line, dimension.place.column,
                        fmt::format("'{}': a dimension is CLASS/devices, CLASS/memory or "
                                    "CLASS/compute, as in the queue file; {}",
                                    dimension.text, suggestion(kind, known)));
}

// {team-a: {"*/devices": {used: 1}}}
template <const Section<ExpectFigures>& (*kSection)()>
Result<std::vector<ExpectQuota>> read_quotas(const Value& value) {
  std::vector<ExpectQuota> rows;
  TRY(auto queues, value.entries());
  for (const auto& [queue, dimensions] : queues) {
    TRY(auto entries, dimensions.entries());
    for (const auto& [dimension, figures] : entries) {
      ExpectQuota row{.queue = queue, .dimension = dimension, .figures = {}};
      row.figures.subject = {fmt::format("queue {} {}", queue.text, dimension.text), queue.place};
      TRY(row.figures.unit, kind_of(dimension, value));
      TRY_VOID(read_section(kSection(), figures, row.figures));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, rule] : eviction_rules())
    names.push_back(name);
  return names;
}

Result<Rule> read_rule(const Value& value, std::string_view text) {
  for (const auto& [name, rule] : eviction_rules()) {
    if (name == text) return rule;
  }
  return value.error(
      fmt::format("'{}' is no rule of an eviction; {}", text, suggestion(text, rule_names())));
}

// "fairShare for claim to n0": the short form.
Result<void> read_short_eviction(const Value& value, ExpectEviction& eviction) {
  TRY(const std::string text, value.word());
  std::string_view rest = text;
  const auto word = [&rest] {
    const std::string_view first = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), first.size() + 1));
    return first;
  };
  TRY(eviction.rule, read_rule(value, word()));
  eviction.moves_to.emplace();
  while (!rest.empty()) {
    const std::string_view key = word();
    const std::string_view name = word();
    if (name.empty() || (key != "for" && key != "to")) {
      return value.error("an eviction is RULE, RULE for NAME, or RULE for NAME to NODE");
    }
    (key == "for" ? eviction.beneficiary : *eviction.moves_to) = name;
  }
  return success();
}

constexpr std::array kEvictionKeys = {
    Key<ExpectEviction>{
        {"rule", "name",
         "`guarantee`, `fairShare`, `priority`, `consolidation`, `stale`, `startTimeout`, "
         "`backfill` or `drain`",
         "fairShare", true},
        [](const Value& value, ExpectEviction& eviction) -> Result<void> {
          TRY(const std::string text, value.word());
          TRY(eviction.rule, read_rule(value, text));
          return success();
        }},
    Key<ExpectEviction>{{"for", "name", "who gets its place; left out: nobody", "claim"},
                        [](const Value& value, ExpectEviction& eviction) -> Result<void> {
                          TRY(eviction.beneficiary, value.word());
                          return success();
                        }},
    Key<ExpectEviction>{{"to", "name", "the node to which it moves; left out: anything", "n0"},
                        [](const Value& value, ExpectEviction& eviction) -> Result<void> {
                          TRY(eviction.moves_to, value.word());
                          return success();
                        }},
    Key<ExpectEviction>{{"says", "list of text", "parts of what its owner is told", "[guarantee]"},
                        [](const Value& value, ExpectEviction& eviction) -> Result<void> {
                          TRY(std::vector<Value> items, value.items());
                          for (const Value& item : items) {
                            TRY(std::string text, item.word());
                            eviction.says.push_back(std::move(text));
                          }
                          return success();
                        }},
};

constexpr std::array kDomainsKeys = {
    Key<ExpectDomains>{{"level", "text",
                        "a label of nodes; where a node does not have `kubernetes.io/hostname`, "
                        "its name counts",
                        "rack", true},
                       [](const Value& value, ExpectDomains& domains) -> Result<void> {
                         TRY(domains.level, value.word());
                         return success();
                       }},
    Key<ExpectDomains>{
        {"of", "list of name", "those that must run, and whose domains are looked at",
         "job/worker-0..3", true},
        [](const Value& value, ExpectDomains& domains) -> Result<void> {
          TRY(domains.workloads, value.names());
          return success();
        }},
    Key<ExpectDomains>{{"are", "list of name", "exactly the domains in which they run", "[r1, r2]"},
                       [](const Value& value, ExpectDomains& domains) -> Result<void> {
                         TRY(std::vector<Named> names, value.names());
                         std::set<std::string> sorted;
                         for (Named& name : names)
                           sorted.insert(std::move(name.text));
                         domains.are.emplace(sorted.begin(), sorted.end());
                         return success();
                       }},
    Key<ExpectDomains>{{"count", "number", "how many domains that are; 1: they are together", "1"},
                       [](const Value& value, ExpectDomains& domains) -> Result<void> {
                         TRY(domains.count, value.number(0, 1'000'000));
                         return success();
                       }},
};

constexpr Section<ExpectEviction> kEviction{
    "expect eviction",
    "One that was told to leave. In short: `RULE`, `RULE for NAME`, `RULE for NAME to NODE`, where "
    "what is not said must not be.",
    kEvictionKeys};
constexpr Section<ExpectDomains> kDomains{
    "expect domains", "Where the nodes of some workloads lie in relation to each other.",
    kDomainsKeys};

template <auto kFigures, auto kRead>
const Section<ExpectFigures>& figures_section(std::string_view name, std::string_view summary) {
  static const std::vector<Key<ExpectFigures>> keys = figure_keys(kFigures(), kRead);
  static const Section<ExpectFigures> section{name, summary, keys};
  return section;
}

}  // namespace

Result<std::int64_t> read_amount(const Value& value, core::DimensionKind unit) {
  TRY(const std::string text, value.word());
  if (text == "unlimited" || text == "-1") return core::kUnlimited;
  auto amount = config::parse_amount(text, unit);
  if (!amount.ok()) return value.error(amount.error().message());
  return *amount;
}

const Section<ExpectFigures>& expect_gang_section() {
  return figures_section<gang_figures, read_gang_figure>("expect gang",
                                                         "Members of a gang, in its verdict.");
}

const Section<ExpectFigures>& expect_topology_section() {
  return figures_section<topology_figures, read_topology_figure>(
      "expect topology", "Which domain came nearest, in a verdict.");
}

const Section<ExpectFigures>& expect_preemption_section() {
  return figures_section<preemption_figures, read_preemption_figure>(
      "expect preemption", "What was looked at as a victim and what kept it, in a verdict.");
}

const Section<ExpectFigures>& expect_quota_section() {
  return figures_section<quota_figures, read_quota_figure>(
      "expect quota",
      "A row of a verdict's chain of queues, in one dimension. Amounts are written as in a queue "
      "file.");
}

const Section<ExpectFigures>& expect_queue_section() {
  return figures_section<queue_figures, read_queue_figure>(
      "queue figures", "One queue in one dimension. Amounts are written as in a queue file.");
}

const Section<ExpectEviction>& expect_eviction_section() { return kEviction; }

const Section<ExpectDomains>& expect_domains_section() { return kDomains; }

Result<void> read_gang_counts(const Value& value, ExpectWorkload& expect) {
  TRY_VOID(read_section(expect_gang_section(), value, expect.gang.emplace()));
  return success();
}

Result<void> read_topology_fit(const Value& value, ExpectWorkload& expect) {
  TRY_VOID(read_section(expect_topology_section(), value, expect.topology.emplace()));
  return success();
}

Result<void> read_preemption(const Value& value, ExpectWorkload& expect) {
  TRY_VOID(read_section(expect_preemption_section(), value, expect.preemption.emplace()));
  return success();
}

Result<void> read_quota_rows(const Value& value, ExpectWorkload& expect) {
  TRY(expect.quota, read_quotas<expect_quota_section>(value));
  return success();
}

Result<void> read_queue_pages(const Value& value, Expect& expect) {
  TRY(expect.queues, read_quotas<expect_queue_section>(value));
  return success();
}

Result<void> read_evictions(const Value& value, Expect& expect) {
  expect.evictions.emplace(ExpectEvictions{.place = value.place(), .evictions = {}});
  if (value.node().text == "none") return success();
  TRY(auto entries, value.entries());
  for (const auto& [name, wanted] : entries) {
    ExpectEviction eviction;
    if (wanted.node().is_scalar()) {
      TRY_VOID(read_short_eviction(wanted, eviction));
    } else {
      TRY_VOID(read_section(expect_eviction_section(), wanted, eviction));
    }
    auto names = config::expand_names(name.text);
    if (!names.ok()) return wanted.error(names.error().message());
    for (std::string& uid : *names) {
      eviction.uid = {std::move(uid), name.place};
      expect.evictions->evictions.push_back(eviction);
    }
  }
  return success();
}

Result<void> read_domains(const Value& value, Expect& expect) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    ExpectDomains domains{.place = item.place()};
    TRY_VOID(read_section(expect_domains_section(), item, domains));
    if (!domains.are && !domains.count) return item.error("say `are` or `count`: {count: 1}");
    expect.domains.push_back(std::move(domains));
  }
  return success();
}

}  // namespace berth::scenario
