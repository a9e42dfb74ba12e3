#include "store/row_scan.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <fmt/format.h>

namespace berth::store {

namespace {

// Of all time. Far from where numbers end, so that there is always a next one.
constexpr std::int64_t kMostRows = std::int64_t{1} << 62U;

class Scan {
 public:
  // The next row, if its columns have the right types. The texts live until the next step.
  static std::optional<Row> row_of(SQLite::Statement& rows) {
    const SQLite::Column kind = rows.getColumn(2);
    const SQLite::Column id = rows.getColumn(3);
    const SQLite::Column body = rows.getColumn(4);
    if (!rows.getColumn(1).isInteger() || !kind.isText() || !id.isText() ||
        !(body.isBlob() || body.isNull()) || !rows.getColumn(5).isInteger()) {
      return std::nullopt;
    }
    Row row{.seq = rows.getColumn(0).getInt64(), .place = rows.getColumn(1).getInt64()};
    row.kind = {kind.getText(), static_cast<std::size_t>(kind.getBytes())};
    row.id = {id.getText(), static_cast<std::size_t>(id.getBytes())};
    if (!body.isNull()) {
      const auto* bytes = static_cast<const char*>(body.getBlob());
      row.body = {bytes, static_cast<std::size_t>(body.getBytes())};
    }
    row.sum = static_cast<std::uint64_t>(rows.getColumn(5).getInt64());
    return row;
  }

  std::optional<std::string> take(const Row& row, const SQLite::Column& total) {
    if (row.sum != sum_of(row)) {
      return fmt::format("the check sum of row {} is wrong", row.seq);
    }
    // The founding row alone has no kind, and it is the first.
    if (row.seq <= last_ || row.seq > kMostRows || row.place < 1 || row.place > row.seq ||
        (count_ == 0) != row.kind.empty()) {
      return fmt::format("row {} is out of place", row.seq);
    }
    ++count_;
    last_ = row.seq;
    sum_ += row.sum;
    complete_ = total.isInteger() && static_cast<std::uint64_t>(total.getInt64()) == sum_;
    return std::nullopt;
  }

  std::optional<std::string> finish() const {
    if (count_ == 0) {
      return "it has no rows";
    }
    if (!complete_) {
      return fmt::format("the sum over its {} rows is wrong: some are missing or of another age",
                         count_);
    }
    return std::nullopt;
  }

 private:
  std::int64_t count_ = 0;
  std::int64_t last_ = 0;
  std::uint64_t sum_ = 0;
  bool complete_ = false;  // the row taken last tells the right total
};

}  // namespace

std::optional<std::string> scan_rows(SQLite::Database& db,
                                     const std::function<void(const Row&)>& saw) {
  SQLite::Statement rows(db,
                         "SELECT seq, place, kind, id, body, sum, total FROM journal ORDER BY seq");
  Scan scan;
  while (rows.executeStep()) {
    const std::optional<Row> row = Scan::row_of(rows);
    if (!row) {
      return fmt::format("row {} is not of the journal's form", rows.getColumn(0).getInt64());
    }
    if (std::optional<std::string> fault = scan.take(*row, rows.getColumn(6))) {
      return fault;
    }
    saw(*row);
  }
  return scan.finish();
}

}  // namespace berth::store
