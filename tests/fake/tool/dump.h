// The oracle: what the state file says, as JSON or for people.
#pragma once

#include <string>

#include "fake/state/books.h"

namespace berth::fake::tool {

std::string dump_json(Books& books);
std::string dump_table(Books& books);

}  // namespace berth::fake::tool
