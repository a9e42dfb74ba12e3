// Label selectors and terms of node selectors.
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kube/objects/fields.h"

namespace berth::kube {

using core::LabelRule;
using json::Element;

namespace {

constexpr std::array<std::pair<std::string_view, LabelRule::Op>, 6> kOperators{{
    {"In", LabelRule::Op::in},
    {"NotIn", LabelRule::Op::not_in},
    {"Exists", LabelRule::Op::exists},
    {"DoesNotExist", LabelRule::Op::does_not_exist},
    {"Gt", LabelRule::Op::greater},
    {"Lt", LabelRule::Op::less},
}};

std::optional<LabelRule::Op> operator_named(std::string_view name) {
  for (const auto& [text, op] : kOperators) {
    if (text == name) {
      return op;
    }
  }
  return std::nullopt;
}

void read_expressions(Element list, std::string_view path, Selector& selector,
                      std::vector<LabelRule>& into, Fields& fields) {
  for (const Element from : fields.list(list, path).items()) {
    const std::string op = fields.text(from["operator"], path);
    const auto known = operator_named(op);
    if (!known) {
      selector.unknown = fmt::format("operator {}", op);
      continue;
    }
    into.push_back({.key = fields.text(from["key"], path),
                    .op = *known,
                    .values = fields.texts(from["values"], path)});
  }
}

}  // namespace

Selector read_label_selector(Element from, std::string_view path, bool absent_matches_nothing,
                             Fields& fields) {
  Selector selector;
  if (!from.exists()) {
    selector.matches_nothing = absent_matches_nothing;
    return selector;
  }
  from = fields.object(from, path);
  for (auto& [key, value] : fields.labels(from["matchLabels"], path)) {
    selector.rules.push_back({.key = key, .op = LabelRule::Op::in, .values = {value}});
  }
  read_expressions(from["matchExpressions"], path, selector, selector.rules, fields);
  return selector;
}

std::vector<Selector> read_node_terms(Element list, std::string_view path, Fields& fields) {
  std::vector<Selector> terms;
  for (const Element from : fields.list(list, path).items()) {
    Selector term;
    read_expressions(from["matchExpressions"], path, term, term.rules, fields);
    read_expressions(from["matchFields"], path, term, term.fields, fields);
    for (const LabelRule& rule : term.fields) {
      if (rule.key != "metadata.name") {
        term.unknown = fmt::format("field {}", rule.key);
      }
    }
    // Kubernetes: a term without a requirement matches no node.
    term.matches_nothing = term.rules.empty() && term.fields.empty() && term.unknown.empty();
    terms.push_back(std::move(term));
  }
  return terms;
}

}  // namespace berth::kube
