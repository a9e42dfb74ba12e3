#include "store/format.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>

#include "store/row.h"
#include "store/row_index.h"

namespace berth::store {

namespace {

// No sums and no places.
constexpr std::string_view kSchema0 =
    "CREATE TABLE journal (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, "
    "body BLOB)";

// `total`: in the last row of a commit, the sum of the sums of all rows there were thereafter.
constexpr std::string_view kSchema1 =
    "CREATE TABLE journal (seq INTEGER PRIMARY KEY, place INTEGER NOT NULL, kind TEXT NOT NULL, "
    "id TEXT NOT NULL, body BLOB, sum INTEGER NOT NULL, total INTEGER) STRICT";

std::string_view text_of(const SQLite::Column& column) {
  const char* text = column.getText();
  return {text, static_cast<std::size_t>(column.getBytes())};
}

// Writes rows of form 1 one after the other, numbering and placing them anew.
class Writer1 {
 public:
  explicit Writer1(SQLite::Database& db)
      : db_(db),
        insert_(db, "INSERT INTO journal(seq, place, kind, id, body, sum) VALUES(?,?,?,?,?,?)") {}

  void add(std::string_view kind, std::string_view id, std::optional<std::string_view> body) {
    Row row{.seq = index_.last_seq() + 1, .kind = kind, .id = id, .body = body};
    const std::int64_t place = index_.place_of(RowIndex::key_of(kind, id));
    row.place = place == 0 ? row.seq : place;
    row.sum = sum_of(row);
    insert_.bind(1, row.seq);
    insert_.bind(2, row.place);
    insert_.bind(3, std::string(kind));
    insert_.bind(4, std::string(id));
    if (body) {
      insert_.bind(5, body->data(), static_cast<int>(body->size()));
    } else {
      insert_.bind(5);
    }
    insert_.bind(6, static_cast<std::int64_t>(row.sum));
    insert_.exec();
    insert_.reset();
    index_.saw(row);
  }

  void finish() {
    SQLite::Statement total(db_, "UPDATE journal SET total = ? WHERE seq = ?");
    total.bind(1, static_cast<std::int64_t>(index_.total()));
    total.bind(2, index_.last_seq());
    total.exec();
  }

 private:
  SQLite::Database& db_;
  SQLite::Statement insert_;
  RowIndex index_;
};

void from_0_to_1(SQLite::Database& db) {
  db.exec("ALTER TABLE journal RENAME TO journal_0");
  db.exec(std::string(kSchema1));
  Writer1 writer(db);
  writer.add(kFoundingKind, kFoundingId, kFoundingBody);
  {
    SQLite::Statement rows(db, "SELECT kind, id, body FROM journal_0 ORDER BY seq");
    while (rows.executeStep()) {
      std::optional<std::string_view> body;
      if (!rows.getColumn(2).isNull()) {
        body = text_of(rows.getColumn(2));
      }
      writer.add(text_of(rows.getColumn(0)), text_of(rows.getColumn(1)), body);
    }
  }
  writer.finish();
  db.exec("DROP TABLE journal_0");
}

constexpr std::array kFormats = {
    Format{kSchema0, from_0_to_1},
    Format{kSchema1, nullptr},
};

}  // namespace

std::span<const Format> formats() { return kFormats; }

void found_journal(SQLite::Database& db) {
  db.exec(std::string(kFormats.back().schema));
  Writer1 writer(db);
  writer.add(kFoundingKind, kFoundingId, kFoundingBody);
  writer.finish();
}

}  // namespace berth::store
