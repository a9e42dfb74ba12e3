// The reference of the scenario language, printed from the tables that drive its reader.
#pragma once

#include <string>

namespace berth::scenario {

// Markdown: the types, every section with its keys, the words of a request. `docs/scenarios.md`
// ends with it.
std::string reference_text();

// The line of docs/scenarios.md below which everything is reference_text().
inline constexpr const char* kReferenceMarker =
    "<!-- From here on: printed by `berth simulate --scenario-help`. -->";

}  // namespace berth::scenario
