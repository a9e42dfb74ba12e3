// The figures of a device's or a node's page of the ledger that a scenario can expect, by name. One
// table: reading, comparing and the reference use the same rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/engine/actions.h"
#include "core/ledger/books.h"
#include "core/model/verdict.h"
#include "core/queue/queue_config.h"
#include "core/queue/queue_tree.h"

namespace berth::scenario {

enum class FigureKind : std::uint8_t { memory, count, amount, word };

struct DevicePage {
  const core::DeviceBook* book;
  const core::DeviceFace* face;
};

template <typename Page>
struct Figure {
  std::string_view name;
  FigureKind kind;
  std::string_view summary;
  std::string_view example;
  // Bytes, pieces, thousandths, or the unit of the dimension that the page is about; of a word
  // null.
  std::int64_t (*number)(const Page& page);
  std::string (*word)(const Page& page);  // kind word only
};

std::span<const Figure<DevicePage>> device_figures();
std::span<const Figure<core::NodeFace>> node_figures();
// Parts of a verdict.
std::span<const Figure<core::Verdict::GangCounts>> gang_figures();
std::span<const Figure<core::Verdict::TopologyFit>> topology_figures();
std::span<const Figure<core::Verdict::Preemption>> preemption_figures();
std::span<const Figure<core::Verdict::QuotaRow>> quota_figures();
// Of the quota tree.
std::span<const Figure<core::QuotaFigures>> queue_figures();

std::string_view figure_type(FigureKind kind);  // "memory", "number", "amount", "name"
// The rules by which work is evicted, by the names that verdicts and events give them.
std::span<const std::pair<std::string_view, core::Evicted::Rule>> eviction_rules();
// As the language writes it: "16GiB", "3", "0.5". `unit`: of an amount.
std::string figure_text(FigureKind kind, std::int64_t number, core::DimensionKind unit);
// Of a dimension, by its name: "H100/memory".
core::DimensionKind unit_of(std::string_view dimension);

// What the page says of the figure, as the language writes it.
template <typename Page>
std::string figure_value(const Figure<Page>& figure, const Page& page, core::DimensionKind unit) {
  return figure.kind == FigureKind::word ? figure.word(page)
                                         : figure_text(figure.kind, figure.number(page), unit);
}

}  // namespace berth::scenario
