#include "base/suggest.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace berth {

std::size_t edit_distance(std::string_view left, std::string_view right) {
  // Rows of the usual table; a swap of neighbours looks back two rows (optimal string alignment).
  std::vector<std::size_t> before_previous(right.size() + 1);
  std::vector<std::size_t> previous(right.size() + 1);
  std::vector<std::size_t> current(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j)
    previous[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool same = left[i - 1] == right[j - 1];
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0U : 1U)});
      const bool swapped =
          i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[right.size()];
}

std::string nearest(std::string_view typed, std::span<const std::string> known) {
  // Whoever typed far more than the longest word meant none of them, and how long the answer takes
  // is not for a daemon's client to choose.
  constexpr std::size_t kMostBeyond = 64;
  std::size_t longest = 0;
  for (const std::string& word : known)
    longest = std::max(longest, word.size());
  typed = typed.substr(0, longest + kMostBeyond);
  // People who abbreviate type the beginning of a word: that is one step away, however long the
  // rest is.
  const auto distance = [typed](const std::string& word) {
    return typed.size() >= 2 && word.starts_with(typed) ? std::size_t{1}
                                                        : edit_distance(typed, word);
  };
  std::string best;
  std::pair best_score{std::numeric_limits<std::size_t>::max(), true};
  for (const std::string& word : known) {
    const std::pair score{distance(word), !word.starts_with(typed)};
    if (score < best_score) {
      best_score = score;
      best = word;
    }
  }
  return best;
}

}  // namespace berth
