// What a text must be before a YAML parser sees it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "yaml/tree.h"

namespace berth::yaml {

// Checks size, line lengths, NUL and other control bytes and UTF-8; removes a byte order mark and
// blank lines at the end and turns CRLF into LF, which moves no column. Errors carry the exact
// place.
Result<std::string> check_text(std::string_view text, std::string_view file_name,
                               const Limits& limits);

}  // namespace berth::yaml
