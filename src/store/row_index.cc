#include "store/row_index.h"

#include <algorithm>

#include "base/assert.h"

namespace berth::store {

std::string RowIndex::key_of(std::string_view kind, std::string_view id) {
  std::string key;
  key.reserve(kind.size() + id.size() + 8);
  // The length in front keeps ("ab", "c") and ("a", "bc") apart whatever bytes they have.
  key += std::to_string(kind.size());
  key += ' ';
  key += kind;
  key += id;
  return key;
}

void RowIndex::saw(const Row& row) {
  ASSERT(row.seq > last_seq_, row.seq, last_seq_);
  last_seq_ = row.seq;
  total_ += row.sum;
  std::string key = key_of(row.kind, row.id);
  const auto found = live_.find(key);
  if (found != live_.end()) {
    superseded_.push_back({found->second.seq, found->second.sum});
  }
  if (!row.body) {
    superseded_.push_back({row.seq, row.sum});
    if (found != live_.end()) {
      live_.erase(found);
    }
    return;
  }
  const Live now{row.seq, row.place, row.sum};
  if (found != live_.end()) {
    found->second = now;
  } else {
    live_.emplace(std::move(key), now);
  }
}

std::int64_t RowIndex::place_of(const std::string& key) const {
  const auto found = live_.find(key);
  return found == live_.end() ? 0 : found->second.place;
}

std::vector<Superseded> RowIndex::oldest(std::size_t count) const {
  const auto end =
      superseded_.begin() + static_cast<std::ptrdiff_t>(std::min(count, superseded_.size()));
  return {superseded_.begin(), end};
}

void RowIndex::forget(std::span<const Superseded> rows) {
  for (const Superseded& row : rows) {
    ASSERT(!superseded_.empty() && superseded_.front().seq == row.seq, row.seq);
    total_ -= row.sum;
    superseded_.pop_front();
  }
}

}  // namespace berth::store
