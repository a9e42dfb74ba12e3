// Which rows of the journal count, and which are only in the way.
//
// The journal only ever grows at its end. The latest row of a record counts; an earlier one is
// superseded, and so is a row that says "erased", once it is there. Superseded rows are kept in the
// order in which they became so; deleting them in that order is safe at any point: an erasure is
// always behind the rows that it erases, hence no old row can come back.
//
// Invariant: total() is the sum, modulo 2^64, of the check sums of all rows in the file. Rows that
// are missing, doubled or of different ages betray themselves by it.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/row.h"

namespace berth::store {

struct Superseded {
  std::int64_t seq = 0;
  std::uint64_t sum = 0;
};

class RowIndex {
 public:
  // The key of a record, as one text.
  static std::string key_of(std::string_view kind, std::string_view id);

  // Takes in a row that is in the file. Requires: rows come in the order of their seq.
  void saw(const Row& row);

  // The place of a record that is there; 0 if it is not.
  std::int64_t place_of(const std::string& key) const;

  // The first `count` superseded rows, oldest first (fewer if there are fewer).
  std::vector<Superseded> oldest(std::size_t count) const;

  // The same rows were deleted from the file. Requires: they are the oldest.
  void forget(std::span<const Superseded> rows);

  std::int64_t last_seq() const { return last_seq_; }

  std::uint64_t total() const { return total_; }

  std::int64_t live_rows() const { return static_cast<std::int64_t>(live_.size()); }

  std::int64_t superseded_rows() const { return static_cast<std::int64_t>(superseded_.size()); }

 private:
  struct Live {
    std::int64_t seq = 0;
    std::int64_t place = 0;
    std::uint64_t sum = 0;
  };

  std::unordered_map<std::string, Live> live_;
  std::deque<Superseded> superseded_;
  std::int64_t last_seq_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace berth::store
