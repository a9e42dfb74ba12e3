// A section whose keys are figures: made from their table (figures.h). Inside the room only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "config/amount.h"
#include "scenario/figures.h"
#include "scenario/sections.h"

namespace berth::scenario {

template <typename Page>
Result<void> read_figure(std::span<const Figure<Page>> figures, const Value& value,
                         ExpectFigures& expect) {
  for (const Figure<Page>& figure : figures) {
    if (figure.name != value.field()) continue;
    ExpectFigures::Figure wanted;
    wanted.name = figure.name;
    wanted.place = value.place();
    TRY(wanted.wanted, value.word());
    wanted.is_word = figure.kind == FigureKind::word;
    if (wanted.is_word) {
      wanted.word = wanted.wanted;
    } else if (figure.kind == FigureKind::memory) {
      TRY(const Memory memory, value.memory());
      wanted.number = memory.in_bytes();
    } else if (figure.kind == FigureKind::amount) {
      TRY(wanted.number, read_amount(value, expect.unit));
    } else {
      TRY(wanted.number, value.number(-1'000'000'000'000, 1'000'000'000'000));
    }
    expect.figures.push_back(std::move(wanted));
  }
  return success();
}

template <typename Page>
std::vector<Key<ExpectFigures>> figure_keys(std::span<const Figure<Page>> figures,
                                            Result<void> (*read)(const Value&, ExpectFigures&)) {
  std::vector<Key<ExpectFigures>> keys;
  for (const Figure<Page>& figure : figures) {
    keys.push_back({{figure.name, figure_type(figure.kind), figure.summary, figure.example}, read});
  }
  return keys;
}

}  // namespace berth::scenario
