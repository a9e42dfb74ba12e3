// Label selectors and node selector terms, asked. Source: kubernetes-api.md 13, rows 3 and 12.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/request.h"
#include "kube/objects/objects.h"

namespace berth::kube {

// One requirement. Of NotIn an absent key passes; of Gt and Lt both sides must be whole numbers.
bool passes(const core::LabelRule& rule, const Labels& labels);
// A label selector. One without rules matches everything, unless it says that it matches nothing.
bool matches(const Selector& selector, const Labels& labels);
// A term of a node selector: its labels and its fields. A term without either matches no node.
bool matches_node(const Selector& term, const Labels& labels, const std::string& name);
// Required node affinity: any of the terms; none at all = no rule.
bool matches_any(const std::vector<Selector>& terms, const Labels& labels, const std::string& name);

}  // namespace berth::kube
