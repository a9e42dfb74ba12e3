// Figures that were expected, compared with a page of figures. Inside the room only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "scenario/figures.h"
#include "scenario/report.h"
#include "scenario/script.h"

namespace berth::scenario {

template <typename Page>
void check_page(const ExpectFigures& expect, std::span<const Figure<Page>> figures,
                const Page& page, std::vector<Check>& checks) {
  const std::size_t before = checks.size();
  std::string detail;
  for (const Figure<Page>& figure : figures) {
    const std::string found = figure_value(figure, page, expect.unit);
    const std::string name(figure.name);
    detail += (detail.empty() ? "" : ", ") + name + ": " + found;
    for (const ExpectFigures::Figure& wanted : expect.figures) {
      if (wanted.name != figure.name) continue;
      checks.push_back(
          {.place = wanted.place,
           .met = wanted.is_word ? wanted.word == found : wanted.number == figure.number(page),
           .subject = expect.subject.text,
           .wanted = wanted.name + " " + wanted.wanted,
           .found = name + " " + found,
           .detail = ""});
    }
  }
  for (std::size_t i = before; i < checks.size(); ++i) {
    if (checks[i].met) continue;
    checks[i].detail = detail;
    return;
  }
}

}  // namespace berth::scenario
