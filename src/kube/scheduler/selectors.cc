#include "kube/scheduler/selectors.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace berth::kube {

namespace {

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

bool listed(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

bool compare(const core::LabelRule& rule, const std::string& value) {
  const auto have = whole(value);
  const auto want = rule.values.size() == 1 ? whole(rule.values.front()) : std::nullopt;
  if (!have.has_value() || !want.has_value()) {
    return false;
  }
  return rule.op == core::LabelRule::Op::greater ? *have > *want : *have < *want;
}

}  // namespace

bool passes(const core::LabelRule& rule, const Labels& labels) {
  const auto found = labels.find(rule.key);
  const bool exists = found != labels.end();
  switch (rule.op) {
    case core::LabelRule::Op::in: return exists && listed(rule.values, found->second);
    case core::LabelRule::Op::not_in: return !exists || !listed(rule.values, found->second);
    case core::LabelRule::Op::exists: return exists;
    case core::LabelRule::Op::does_not_exist: return !exists;
    case core::LabelRule::Op::greater:
    case core::LabelRule::Op::less: return exists && compare(rule, found->second);
  }
  return false;
}

bool matches(const Selector& selector, const Labels& labels) {
  return !selector.matches_nothing && std::ranges::all_of(selector.rules, [&](const auto& rule) {
    return passes(rule, labels);
  });
}

bool matches_node(const Selector& term, const Labels& labels, const std::string& name) {
  if (term.rules.empty() && term.fields.empty()) {
    return false;
  }
  const Labels fields{{"metadata.name", name}};
  return matches(term, labels) &&
         std::ranges::all_of(term.fields, [&](const auto& rule) { return passes(rule, fields); });
}

bool matches_any(const std::vector<Selector>& terms, const Labels& labels,
                 const std::string& name) {
  return terms.empty() || std::ranges::any_of(terms, [&](const Selector& term) {
           return matches_node(term, labels, name);
         });
}

}  // namespace berth::kube
