// What this program was built from. The values are written by cmake/BerthBuildInfo.cmake.
#pragma once

#include <string_view>

namespace berth::cli {

extern const std::string_view kVersion;  // "0.1.0"
extern const std::string_view
    kRevision;  // abbreviated commit, "+" if the tree had changes; or "unknown"
extern const std::string_view kCompiler;  // "GNU 12.2.0"

}  // namespace berth::cli
