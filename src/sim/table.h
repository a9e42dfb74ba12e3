// Table: columns of text for a terminal, two spaces apart, as wide as their widest cell.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace berth::sim {

class Table {
 public:
  enum class Align : std::uint8_t { left, right };

  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Requires one cell per column.
  void add(std::vector<std::string> row);
  // Title line and rows, each ending with a line break and without blanks at its end.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace berth::sim
