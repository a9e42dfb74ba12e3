#include "scenario/figures.h"

#include <algorithm>
#include <array>

#include "core/model/verdict.h"

namespace berth::scenario {

namespace {

using core::DeviceUse;
using core::NodeFace;
using core::SharingMode;

std::string use_name(DeviceUse use) {
  switch (use) {
    case DeviceUse::free: return "free";
    case DeviceUse::whole: return "whole";
    case DeviceUse::shared: return "shared";
  }
  return "?";
}

std::string blocked_name(core::Cause cause) {
  return cause == core::Cause::none ? "none" : std::string(core::cause_name(cause));
}

using DeviceRow = Figure<DevicePage>;
using NodeRow = Figure<NodeFace>;

constexpr std::array kDeviceFigures = {
    DeviceRow{"usable", FigureKind::memory, "total less what is kept back", "80GiB",
              [](const DevicePage& page) { return page.book->usable; }, nullptr},
    DeviceRow{"headroom", FigureKind::memory, "what may still be promised", "76GiB",
              [](const DevicePage& page) { return page.face->headroom; }, nullptr},
    DeviceRow{"committed", FigureKind::memory,
              "foreign use, and for each grant the larger of its request and its measured use",
              "4GiB", [](const DevicePage& page) { return page.book->committed(); }, nullptr},
    DeviceRow{"requests", FigureKind::memory, "sum of what was asked for, promises included",
              "4GiB", [](const DevicePage& page) { return page.book->requests; }, nullptr},
    DeviceRow{"limits", FigureKind::memory, "sum of the burst limits", "8GiB",
              [](const DevicePage& page) { return page.book->limits; }, nullptr},
    DeviceRow{"foreign", FigureKind::memory, "use that no grant explains", "0MiB",
              [](const DevicePage& page) { return page.book->foreign; }, nullptr},
    DeviceRow{"used", FigureKind::memory, "in use at the last observation", "3GiB",
              [](const DevicePage& page) { return page.book->used; }, nullptr},
    DeviceRow{"releasing", FigureKind::memory, "part of the committed that is about to end", "0MiB",
              [](const DevicePage& page) { return page.book->releasing; }, nullptr},
    DeviceRow{"grants", FigureKind::count, "workloads that hold a part of it, promises included",
              "2",
              [](const DevicePage& page) {
                return static_cast<std::int64_t>(page.book->holdings.size());
              },
              nullptr},
    DeviceRow{"promised", FigureKind::count, "of these, promises", "1",
              [](const DevicePage& page) {
                return static_cast<std::int64_t>(std::ranges::count_if(
                    page.book->holdings, [](const auto& holding) { return holding.promised; }));
              },
              nullptr},
    DeviceRow{"compute", FigureKind::count, "sum of the compute shares, in thousandths", "500",
              [](const DevicePage& page) { return page.book->compute; }, nullptr},
    DeviceRow{"use", FigureKind::word, "`free`, `shared` or `whole`", "shared", nullptr,
              [](const DevicePage& page) { return use_name(page.face->use); }},
    DeviceRow{"mode", FigureKind::word, "`time-slicing` or `sm-sharing`, while shared",
              "sm-sharing", nullptr,
              [](const DevicePage& page) {
                return std::string(page.face->mode == SharingMode::sm_sharing ? "sm-sharing"
                                                                              : "time-slicing");
              }},
    DeviceRow{"blocked", FigureKind::word, "why nothing new comes here at all: a cause, or `none`",
              "DeviceCordoned", nullptr,
              [](const DevicePage& page) { return blocked_name(page.face->blocked); }},
};

constexpr std::array kNodeFigures = {
    NodeRow{"cpu_free", FigureKind::count,
            "CPU that may still be promised, in thousandths of a core", "60000",
            [](const NodeFace& face) { return face.cpu_free; }, nullptr},
    NodeRow{"ram_free", FigureKind::memory, "host memory that may still be promised", "250GiB",
            [](const NodeFace& face) { return face.ram_free; }, nullptr},
    NodeRow{"pods_free", FigureKind::count, "workloads that it can still carry", "109",
            [](const NodeFace& face) { return face.slots_free; }, nullptr},
    NodeRow{"blocked", FigureKind::word, "why nothing new comes here at all: a cause, or `none`",
            "NodeNotReady", nullptr,
            [](const NodeFace& face) { return blocked_name(face.blocked); }},
};

}  // namespace

std::span<const Figure<DevicePage>> device_figures() { return kDeviceFigures; }

std::span<const Figure<core::NodeFace>> node_figures() { return kNodeFigures; }

}  // namespace berth::scenario
