// The figures of a device's or a node's page of the ledger that a scenario can expect, by name. One
// table: reading, comparing and the reference use the same rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/ledger/books.h"

namespace berth::scenario {

enum class FigureKind : std::uint8_t { memory, count, word };

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
  std::int64_t (*number)(const Page& page);  // bytes, thousandths or pieces; kind word: null
  std::string (*word)(const Page& page);     // kind word only
};

std::span<const Figure<DevicePage>> device_figures();
std::span<const Figure<core::NodeFace>> node_figures();

}  // namespace berth::scenario
