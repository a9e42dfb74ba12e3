#include "cli/queues_view.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/printable.h"
#include "config/amount.h"
#include "sim/table.h"

namespace berth::cli {

namespace {

using config::amount_text;
using config::DimensionPlan;
using config::PlannedQueue;
using config::QueuePlan;
using sim::Document;

std::string_view stop_word(core::QueueStop stop) {
  switch (stop) {
    case core::QueueStop::none: return "none";
    case core::QueueStop::hold: return "hold";
    case core::QueueStop::hold_and_drain: return "holdAndDrain";
  }
  return {};
}

std::string_view unit_of(core::DimensionKind kind) {
  switch (kind) {
    case core::DimensionKind::memory: return "MiB";
    case core::DimensionKind::devices: return "milliDevices";
    case core::DimensionKind::compute: return "milliCompute";
  }
  return {};
}

std::string with_remark(const PlannedQueue& queue) {
  std::string name(2 * static_cast<std::size_t>(queue.depth), ' ');
  name += printable(queue.name);
  if (!queue.held.empty()) return name + " (on hold)";
  if (queue.stop != core::QueueStop::none) {
    return name + " (stop: " + std::string(stop_word(queue.stop)) + ")";
  }
  return name;
}

// What quotas and capacity are to each other, in words.
std::string balance(const DimensionPlan& dimension, std::int64_t capacity) {
  const auto text = [&](std::int64_t amount) { return amount_text(amount, dimension.kind); };
  if (dimension.deserved > capacity) {
    return "over-committed by " + text(dimension.deserved - capacity) +
           ", what is deserved is scaled";
  }
  return text(capacity - dimension.deserved) + " left to share";
}

std::string dimension_table(const QueuePlan& plan, std::size_t at) {
  const DimensionPlan& dimension = plan.dimensions[at];
  const auto text = [&](std::int64_t amount) { return amount_text(amount, dimension.kind); };
  std::string out = printable(dimension.name) + ": capacity " + text(dimension.capacity) +
                    ", deserved " + text(dimension.deserved) + ": " +
                    balance(dimension, dimension.capacity) + "\n  with half of it gone: capacity " +
                    text(dimension.half_capacity) + ": " +
                    balance(dimension, dimension.half_capacity) + "\n\n";
  using Align = sim::Table::Align;
  sim::Table table({{"QUEUE", Align::left},
                    {"DESERVED", Align::right},
                    {"LIMIT", Align::right},
                    {"RESERVED", Align::right},
                    {"WEIGHT", Align::right},
                    {"KEPT", Align::right},
                    {"SHARE", Align::right},
                    {"HALF: KEPT", Align::right},
                    {"HALF: SHARE", Align::right}});
  for (const PlannedQueue& queue : plan.queues) {
    const config::PlannedDimension& planned = queue.dimensions[at];
    table.add({with_remark(queue), text(planned.wanted.deserved), text(planned.wanted.limit),
               text(planned.wanted.reserved), std::to_string(planned.wanted.weight),
               text(planned.whole.deserved), text(planned.whole.share), text(planned.half.deserved),
               text(planned.half.share)});
  }
  return out + table.text();
}

std::string lost_text(const QueuePlan& plan) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < plan.lost.size() && i < kShown; ++i)
    text += (text.empty() ? "" : ", ") + printable(plan.lost[i]);
  if (plan.lost.size() > kShown)
    text += ", and " + std::to_string(plan.lost.size() - kShown) + " more";
  return text.empty() ? "nothing, there is one device" : text;
}

Document entitled(const config::Entitled& figures) {
  return Document::object()
      .add("effectiveDeserved", figures.deserved)
      .add("entitlement", figures.share);
}

Document queue_document(const QueuePlan& plan, const PlannedQueue& queue) {
  Document dimensions = Document::array();
  for (std::size_t i = 0; i < plan.dimensions.size(); ++i) {
    const config::PlannedDimension& planned = queue.dimensions[i];
    dimensions.push(Document::object()
                        .add("name", plan.dimensions[i].name)
                        .add("deserved", planned.wanted.deserved)
                        .add("limit", planned.wanted.limit)
                        .add("reserved", planned.wanted.reserved)
                        .add("weight", planned.wanted.weight)
                        .add("childrenDeserved", planned.children_deserved)
                        .add("whole", entitled(planned.whole))
                        .add("half", entitled(planned.half)));
  }
  return Document::object()
      .add("name", queue.name)
      .add("parent", queue.parent)
      .add("path", queue.path)
      .add("depth", queue.depth)
      .add("leaf", queue.leaf)
      .add("held", queue.held)
      .add("stop", stop_word(queue.stop))
      .add("dims", std::move(dimensions));
}

}  // namespace

std::string queues_table(const QueuePlan& plan) {
  std::string out = "Fleet: " + std::to_string(plan.nodes) +
                    (plan.nodes == 1 ? " node, " : " nodes, ") + std::to_string(plan.devices) +
                    (plan.devices == 1 ? " device" : " devices") +
                    ". The half that is gone below: " + lost_text(plan) + "\n";
  if (plan.dimensions.empty()) {
    out += "\nNo queue names a dimension: nothing is guaranteed and nothing is limited.\n";
  }
  for (std::size_t i = 0; i < plan.dimensions.size(); ++i)
    out += "\n" + dimension_table(plan, i);
  if (!plan.dimensions.empty()) {
    out +=
        "\nKEPT: what a queue gets back whenever it asks for it. SHARE: what it is entitled to "
        "when every\nleaf asks for everything. Both are of the parent's SHARE.\n";
  }
  return out;
}

Document queues_document(const QueuePlan& plan, const config::QueueFile& file) {
  Document lost = Document::array();
  for (const std::string& name : plan.lost)
    lost.push(name);
  Document dimensions = Document::array();
  for (const DimensionPlan& dimension : plan.dimensions) {
    dimensions.push(Document::object()
                        .add("name", dimension.name)
                        .add("unit", unit_of(dimension.kind))
                        .add("capacity", dimension.capacity)
                        .add("deserved", dimension.deserved)
                        .add("overCommitted",
                             std::max<std::int64_t>(0, dimension.deserved - dimension.capacity))
                        .add("halfCapacity", dimension.half_capacity));
  }
  Document queues = Document::array();
  for (const PlannedQueue& queue : plan.queues)
    queues.push(queue_document(plan, queue));
  Document complaints = Document::array();
  for (const config::QueueComplaint& complaint : file.complaints)
    complaints.push(complaint.text);
  const bool kai = file.config.priority_rule == core::PriorityRule::kai;
  return Document::object()
      .add("fleet", Document::object()
                        .add("nodes", plan.nodes)
                        .add("devices", plan.devices)
                        .add("lostInHalf", std::move(lost)))
      .add("priorityRule", kai ? "kai" : "explicit")
      .add("dimensions", std::move(dimensions))
      .add("queues", std::move(queues))
      .add("onHold", std::move(complaints));
}

}  // namespace berth::cli
