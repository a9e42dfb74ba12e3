// Grid: a table for people, made to fit the terminal.
//
//   Grid grid({{.title = "ID"}, {.title = "FREE", .right = true}, {.title = "WHY", .elastic =
//   true}}); grid.add({"l-0001", {"4GiB", Tone::good}, "…"}); console.out << grid.text(look);
//
// Where it is too wide, columns go by their `rank`, the highest first, and the elastic one is cut.
// Where stdout is no terminal everything is shown. Thread-safety: none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/look.h"

namespace berth::cli {

struct Cell {
  std::string text;
  Tone tone = Tone::plain;

  Cell(std::string words, Tone in = Tone::plain) : text(std::move(words)), tone(in) {}  // NOLINT
  Cell(std::string_view words) : text(words) {}                                         // NOLINT
  Cell(const char* words) : text(words) {}                                              // NOLINT
};

class Grid {
 public:
  struct Column {
    std::string title;
    bool right = false;
    int rank = 0;          // 0: always shown; else the higher, the sooner it goes
    bool elastic = false;  // may be cut to what is left, at most one
  };

  explicit Grid(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Requires one cell per column. Text is made printable.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }

  // Title line and rows, each ending with a line break and without blanks at its end.
  std::string text(const Look& look) const;

 private:
  std::vector<std::size_t> widths() const;
  std::vector<bool> shown(std::vector<std::size_t>& widths, std::size_t room) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace berth::cli
