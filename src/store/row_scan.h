// Reads every row of the journal and checks all that can be checked about it.
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "store/row.h"

namespace SQLite {  // NOLINT(readability-identifier-naming): its own name
class Database;
}

namespace berth::store {

// Gives `saw` every row in the order of its seq. Returns what is wrong with the rows, in words, or
// nothing; `saw` may then have been given some of them. May throw what SQLiteCpp throws.
std::optional<std::string> scan_rows(SQLite::Database& db,
                                     const std::function<void(const Row&)>& saw);

}  // namespace berth::store
