// The state file that a verb works on.
#pragma once

#include <memory>

#include "base/result.h"
#include "fake/state/books.h"
#include "fake/tool/words.h"

namespace berth::fake::tool {

Result<std::unique_ptr<Books>> opened(const Words& words);

// The place of a device in the state file, by its index ("0"), UUID or the beginning of one. Errors
// name what there is.
Result<int> device_named(const Books& books, const std::string& text);

}  // namespace berth::fake::tool
