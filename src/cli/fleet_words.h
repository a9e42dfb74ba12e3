// `--fleet`: a fleet in one word or from a file, for the verbs that plan on one.
// Thread-safety: reads files; no state.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"

namespace berth::cli {

// SPEC, or a YAML file with a section `fleet:`. Errors: what is wrong with it, and what to give.
Result<std::vector<core::Node>> fleet_from(const std::string& text);

}  // namespace berth::cli
