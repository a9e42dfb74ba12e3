#include "cli/grid.h"

#include <algorithm>

#include "base/assert.h"
#include "base/printable.h"

namespace berth::cli {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastElastic = 20;

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string blanks(width - std::min(width, text_width(text)), ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

void Grid::add(std::vector<Cell> row) {
  ASSERT(row.size() == columns_.size(), row.size(), columns_.size());
  for (Cell& cell : row) {
    cell.text = printable(cell.text);
  }
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Grid::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = text_width(columns_[i].title);
    for (const std::vector<Cell>& row : rows_) {
      width = std::max(width, text_width(row[i].text));
    }
    widths.push_back(width);
  }
  return widths;
}

// Which columns fit into `room` characters; the elastic one's width becomes what is left.
std::vector<bool> Grid::shown(std::vector<std::size_t>& widths, std::size_t room) const {
  std::vector<bool> shown(columns_.size(), true);
  const auto elastic = std::ranges::find(columns_, true, &Column::elastic) - columns_.begin();
  const auto at = static_cast<std::size_t>(elastic);
  while (true) {
    std::size_t rest = 0;
    int worst = 0;
    std::size_t goes = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!shown[i]) {
        continue;
      }
      rest += (i == at ? 0 : widths[i] + kGap);
      if (columns_[i].rank > worst) {
        worst = columns_[i].rank;
        goes = i;
      }
    }
    const bool stretches = at < columns_.size() && shown[at];
    const std::size_t least = stretches ? std::min(widths[at], kLeastElastic) : 0;
    const std::size_t needed = stretches ? rest + least : rest - std::min(rest, kGap);
    if (needed <= room || goes == columns_.size()) {
      if (stretches) {
        widths[at] = std::min(widths[at], std::max(least, room - std::min(room, rest)));
      }
      return shown;
    }
    shown[goes] = false;
  }
}

std::string Grid::text(const Look& look) const {
  std::vector<std::size_t> wide = widths();
  std::vector<bool> show(columns_.size(), true);
  if (look.columns > 0) {
    show = shown(wide, look.columns);
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    std::string blanks;  // kept back, so that no line ends in them
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!show[i]) {
        continue;
      }
      const auto& [words, tone] = cell_of(i);
      const std::string cell =
          padded(cut_to(words, wide[i], look.utf8), wide[i], columns_[i].right);
      const std::size_t end = cell.find_last_not_of(' ') + 1;
      if (end > 0) {
        const std::size_t begin = cell.find_first_not_of(' ');
        text += blanks + cell.substr(0, begin) + toned(cell.substr(begin, end - begin), tone, look);
        blanks.clear();
      }
      blanks += cell.substr(end) + std::string(kGap, ' ');
    }
    out += text + "\n";
  };
  line([&](std::size_t i) { return std::pair(columns_[i].title, Tone::strong); });
  for (const std::vector<Cell>& row : rows_) {
    line([&](std::size_t i) { return std::pair(row[i].text, row[i].tone); });
  }
  return out;
}

}  // namespace berth::cli
