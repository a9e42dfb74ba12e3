// The forms that the journal's file has had, and how each becomes the next.
//
// A file says its form in SQLite's user_version and that it is ours in application_id. The table
// below holds every form with the exact text of its schema; nothing else may be in the file.
// To change the form: append a line with the new schema, write the step of the line above it, and
// keep a test that makes a file of the old form.
// Thread-safety: constants.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace SQLite {  // NOLINT(readability-identifier-naming): its own name
class Database;
}

namespace berth::store {

struct Format {
  std::string_view schema;                // as sqlite_schema shows it
  void (*to_next)(SQLite::Database& db);  // within a transaction; null in the newest; may throw
};

// Indexed by version. The last one is what this program writes.
std::span<const Format> formats();

inline std::int32_t newest_format() { return static_cast<std::int32_t>(formats().size()) - 1; }

// "BRTH", big-endian, at byte 68 of the file.
inline constexpr std::int32_t kApplicationId = 0x42525448;

// The row that stands first in every journal, so that an empty table is a damaged one.
inline constexpr std::string_view kFoundingKind;
inline constexpr std::string_view kFoundingId = "journal";
inline constexpr std::string_view kFoundingBody = "berth serve: one row per change; see src/store";

// Makes the newest form in an empty file. May throw what SQLiteCpp throws.
void found_journal(SQLite::Database& db);

}  // namespace berth::store
