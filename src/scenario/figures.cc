#include "scenario/figures.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "config/amount.h"
#include "scenario/report.h"

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

using core::Verdict;
using GangRow = Figure<Verdict::GangCounts>;
using TopologyRow = Figure<Verdict::TopologyFit>;
using PreemptionRow = Figure<Verdict::Preemption>;
using QuotaRow = Figure<Verdict::QuotaRow>;
using QueueRow = Figure<core::QuotaFigures>;

constexpr std::array kGangFigures = {
    GangRow{"min", FigureKind::count, "members that must run", "4",
            [](const Verdict::GangCounts& gang) { return gang.min; }, nullptr},
    GangRow{"exist", FigureKind::count, "members that there are", "4",
            [](const Verdict::GangCounts& gang) { return gang.exist; }, nullptr},
    GangRow{"placeable", FigureKind::count, "members for which there is room together", "3",
            [](const Verdict::GangCounts& gang) { return gang.placeable; }, nullptr},
};

constexpr std::array kTopologyFigures = {
    TopologyRow{"level", FigureKind::word, "the level that was asked for", "rack", nullptr,
                [](const Verdict::TopologyFit& fit) { return fit.level; }},
    TopologyRow{"best", FigureKind::word, "its domain with the most room", "r2", nullptr,
                [](const Verdict::TopologyFit& fit) { return fit.best_domain; }},
    TopologyRow{"fits", FigureKind::count, "members for which there is room in it", "3",
                [](const Verdict::TopologyFit& fit) { return fit.fits; }, nullptr},
    TopologyRow{"need", FigureKind::count, "members that belong together", "4",
                [](const Verdict::TopologyFit& fit) { return fit.need; }, nullptr},
};

constexpr std::array kPreemptionFigures = {
    PreemptionRow{"considered", FigureKind::count, "running work that could have left", "5",
                  [](const Verdict::Preemption& page) { return page.considered; }, nullptr},
    PreemptionRow{"priority", FigureKind::count, "of it, kept by its priority", "3",
                  [](const Verdict::Preemption& page) { return page.priority; }, nullptr},
    PreemptionRow{"minRuntime", FigureKind::count, "by its minimum run time", "1",
                  [](const Verdict::Preemption& page) { return page.min_runtime; }, nullptr},
    PreemptionRow{"pdb", FigureKind::count, "by a disruption budget", "0",
                  [](const Verdict::Preemption& page) { return page.pdb; }, nullptr},
    PreemptionRow{"nonPreemptible", FigureKind::count, "because it is not preemptible", "1",
                  [](const Verdict::Preemption& page) { return page.non_preemptible; }, nullptr},
    PreemptionRow{"fairShare", FigureKind::count, "by the shares of the queues", "0",
                  [](const Verdict::Preemption& page) { return page.fair_share; }, nullptr},
    PreemptionRow{"evictionCap", FigureKind::count, "by a cap on evictions", "0",
                  [](const Verdict::Preemption& page) { return page.eviction_cap; }, nullptr},
};

constexpr std::array kQuotaFigures = {
    QuotaRow{"deserved", FigureKind::amount, "what the queue deserves", "2",
             [](const Verdict::QuotaRow& row) { return row.deserved; }, nullptr},
    QuotaRow{"limit", FigureKind::amount, "its ceiling, or `unlimited`", "4",
             [](const Verdict::QuotaRow& row) { return row.limit; }, nullptr},
    QuotaRow{"used", FigureKind::amount, "what is counted against it", "1.5",
             [](const Verdict::QuotaRow& row) { return row.used; }, nullptr},
    QuotaRow{"need", FigureKind::amount, "what the task takes of it", "1",
             [](const Verdict::QuotaRow& row) { return row.need; }, nullptr},
    QuotaRow{"short", FigureKind::amount, "by how much that is too much", "0.5",
             [](const Verdict::QuotaRow& row) { return row.short_of; }, nullptr},
};

constexpr std::array kQueueFigures = {
    QueueRow{"deserved", FigureKind::amount, "what the queue deserves, or `unlimited`", "2",
             [](const core::QuotaFigures& page) { return page.deserved; }, nullptr},
    QueueRow{"limit", FigureKind::amount, "its ceiling, or `unlimited`", "4",
             [](const core::QuotaFigures& page) { return page.limit; }, nullptr},
    QueueRow{"reserved", FigureKind::amount, "what is kept for it while idle", "0",
             [](const core::QuotaFigures& page) { return page.reserved; }, nullptr},
    QueueRow{"alloc", FigureKind::amount, "what its work holds, promises included", "1.5",
             [](const core::QuotaFigures& page) { return page.alloc; }, nullptr},
    QueueRow{"releasing", FigureKind::amount, "of that, what is about to end", "0",
             [](const core::QuotaFigures& page) { return page.releasing; }, nullptr},
    QueueRow{"nonPreemptible", FigureKind::amount, "of alloc, what is never taken back", "1",
             [](const core::QuotaFigures& page) { return page.non_preemptible; }, nullptr},
    QueueRow{"demand", FigureKind::amount, "what its work holds or waits for", "3",
             [](const core::QuotaFigures& page) { return page.demand; }, nullptr},
    QueueRow{"kept", FigureKind::amount, "what it gets back whenever it asks", "2",
             [](const core::QuotaFigures& page) { return page.effective_deserved; }, nullptr},
    QueueRow{"share", FigureKind::amount, "what it is entitled to at the present demand", "2.5",
             [](const core::QuotaFigures& page) { return page.fair; }, nullptr},
    QueueRow{"pastUse", FigureKind::count, "decayed use in millionths of the capacity", "0",
             [](const core::QuotaFigures& page) { return page.decayed_use; }, nullptr},
};

}  // namespace

std::span<const Figure<DevicePage>> device_figures() { return kDeviceFigures; }

std::span<const Figure<core::NodeFace>> node_figures() { return kNodeFigures; }

std::span<const Figure<Verdict::GangCounts>> gang_figures() { return kGangFigures; }

std::span<const Figure<Verdict::TopologyFit>> topology_figures() { return kTopologyFigures; }

std::span<const Figure<Verdict::Preemption>> preemption_figures() { return kPreemptionFigures; }

std::span<const Figure<Verdict::QuotaRow>> quota_figures() { return kQuotaFigures; }

std::span<const Figure<core::QuotaFigures>> queue_figures() { return kQueueFigures; }

std::string_view figure_type(FigureKind kind) {
  switch (kind) {
    case FigureKind::memory: return "memory";
    case FigureKind::count: return "number";
    case FigureKind::amount: return "amount";
    case FigureKind::word: break;
  }
  return "name";
}

std::span<const std::pair<std::string_view, core::Evicted::Rule>> eviction_rules() {
  using Rule = core::Evicted::Rule;
  static constexpr std::array<std::pair<std::string_view, Rule>, 8> kRules = {
      {{"guarantee", Rule::guarantee},
       {"fairShare", Rule::fair_share},
       {"priority", Rule::priority},
       {"consolidation", Rule::consolidation},
       {"stale", Rule::stale},
       {"startTimeout", Rule::start_timeout},
       {"backfill", Rule::backfill},
       {"drain", Rule::drain}}};
  return kRules;
}

core::DimensionKind unit_of(std::string_view dimension) {
  using Kind = core::DimensionKind;
  for (const Kind kind : {Kind::memory, Kind::devices, Kind::compute}) {
    const std::string_view name = core::dimension_kind_name(kind);
    if (dimension.ends_with(name)) return kind;
  }
  return Kind::devices;
}

std::string figure_text(FigureKind kind, std::int64_t number, core::DimensionKind unit) {
  switch (kind) {
    case FigureKind::memory: return memory_text(Memory::bytes(number));
    case FigureKind::amount:
      // Books may go below zero when a quota shrinks under running work.
      return number < core::kUnlimited ? fmt::format("{}", number)
                                       : config::amount_text(number, unit);
    case FigureKind::count:
    case FigureKind::word: break;
  }
  return fmt::format("{}", number);
}

}  // namespace berth::scenario
