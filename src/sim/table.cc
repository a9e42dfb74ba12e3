#include "sim/table.h"

#include <algorithm>

#include "base/assert.h"
#include "base/printable.h"

namespace berth::sim {

namespace {

// Characters, not bytes.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  ASSERT(row.size() == columns_.size(), row.size(), columns_.size());
  for (std::string& cell : row) {
    cell = printable(cell);  // names come from files
  }
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_)
    titles.push_back(column.title);
  std::vector<const std::vector<std::string>*> lines = {&titles};
  for (const std::vector<std::string>& row : rows_)
    lines.push_back(&row);

  std::vector<std::size_t> widest(columns_.size());
  for (const std::vector<std::string>* line : lines) {
    for (std::size_t i = 0; i < widest.size(); ++i) {
      widest[i] = std::max(widest[i], width((*line)[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>* line : lines) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string padding(widest[i] - width((*line)[i]), ' ');
      const bool right = columns_[i].align == Align::right;
      text += (i == 0 ? "" : "  ") + (right ? padding + (*line)[i] : (*line)[i] + padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace berth::sim
