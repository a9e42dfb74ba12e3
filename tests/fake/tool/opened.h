// The state file that a verb works on.
#pragma once

#include "base/result.h"
#include "fake/state/books.h"
#include "fake/tool/words.h"

namespace berth::fake::tool {

Result<Books*> opened(const Words& words);

}  // namespace berth::fake::tool
