// What `berth simulate` prints of a comparison: a table for people, a document for programs.
//
// The document's form is stable (interfaces page, 2): version, runs, summary, bound.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sim/comparison.h"
#include "sim/document.h"
#include "sim/generators.h"

namespace berth::sim {

Document comparison_document(const Comparison& comparison);

enum class TableDetail : std::uint8_t { summary, every_run };
std::string comparison_table(const Comparison& comparison, TableDetail detail);

// The same for generated load: version, trace, fleet, runs.
Document load_document(const Scene& scene, const std::vector<LoadResult>& results);
std::string load_table(const Scene& scene, const std::vector<LoadResult>& results);

// "1,213": groups of three digits for people.
std::string with_commas(std::int64_t number);

}  // namespace berth::sim
