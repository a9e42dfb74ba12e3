// `--fleet` and `--simulate`: a fleet in one word or from a file, for the verbs that plan on one.
// Thread-safety: reads files; no state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"

namespace berth::cli {

// SPEC, or a YAML file with a section `fleet:`. `option` is where it was given. Errors: what is
// wrong with it, and what to give.
Result<std::vector<core::Node>> fleet_from(const std::string& text,
                                           std::string_view option = "--fleet");

}  // namespace berth::cli
