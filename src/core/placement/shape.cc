#include "core/placement/shape.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/placement/mig_shares.h"

namespace berth::core {

namespace {

std::string type_text(const Node& node) {
  std::string text;
  text.reserve(64 + 48 * node.devices.size());
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{},{},{},{},{},{},{}", node.cpu.count(), node.ram.in_bytes(), node.pod_slots,
                 node.gpu_replicas, node.sharing_ready ? 1 : 0, shares_on_instances(node) ? 1 : 0,
                 node.sizes_by_name ? 1 : 0);
  for (const Device& device : node.devices) {
    fmt::format_to(out, ";{}:{},{},{},{},{}:{},{},{},{},{}", device.model.size(), device.model,
                   device.total.has_value() ? device.total->in_bytes() : -1,
                   device.reserve.in_bytes(), device.numa, device.mig_profile.size(),
                   device.mig_profile, device.mig_enabled ? 1 : 0, device.owned ? 1 : 0,
                   device.sm_sharing ? 1 : 0, device.link_set);
  }
  for (const PairScore& link : node.links) {
    fmt::format_to(out, ";{},{},{}", link.a, link.b, link.score);
  }
  return text;
}

// Shapes without references that are kept, with what was learned about them.
constexpr std::size_t kIdleShapes = 1024;

}  // namespace

void NodeTypes::sync(const Fleet& fleet, NodeId node) {
  if (of_node_.size() <= node.index()) {
    of_node_.resize(node.index() + 1);
  }
  NodeTypeId& current = of_node_[node.index()];
  if (!current.is_none()) {
    --types_[current.index()].present;
    current = NodeTypeId::none();
  }
  if (!fleet.present(node)) {
    return;
  }
  const Node& description = fleet.node(node);
  const auto [at, fresh] = by_text_.try_emplace(type_text(description), NodeTypeId(types_.size()));
  if (fresh) {
    NodeType type;
    type.example = description;
    for (const Device& device : description.devices) {
      type.numa.push_back(device.numa);
    }
    types_.push_back(std::move(type));
  }
  current = at->second;
  ++types_[current.index()].present;
}

namespace {

void describe(Shape& shape) {
  const std::vector<ContainerAsk>& containers = shape.request.containers();
  for (std::uint32_t i = 0; i < containers.size(); ++i) {
    const DeviceAsk& gpu = containers[i].gpu;
    if (!gpu.wants_gpu()) {
      continue;
    }
    shape.gpu_containers.push_back(i);
    const bool linked = gpu.links != LinkRule::none && gpu.count > 1;
    shape.linked = shape.linked || linked;
    shape.simple =
        shape.simple && containers[i].kind == ContainerKind::app && !gpu.numa_bind && !linked;
    shape.by_uuid =
        shape.by_uuid || !gpu.filter.use_uuids.empty() || !gpu.filter.avoid_uuids.empty();
  }
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const DeviceAsk& ask = shape.ask(i);
    shape.hinted = shape.hinted || ask.node_order != OrderHint::policy ||
                   ask.device_order != OrderHint::policy;
  }
  shape.simple = shape.simple && shape.gpu_containers.size() <= 1;
  shape.cpu = shape.request.cpu().count();
  shape.ram = shape.request.ram().in_bytes();
  shape.constrained = !shape.request.nodes().empty();
}

}  // namespace

ShapeId Shapes::find(const Request& request, const ShapeTerms& terms, std::uint64_t hash) const {
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Shape& known = *shapes_[at->second.index()];
    if (known.terms == terms && known.request == request) {
      return at->second;
    }
  }
  return ShapeId::none();
}

ShapeId Shapes::acquire(const Request& request, const ShapeTerms& terms) {
  const std::uint64_t hash = request.hash();
  if (const ShapeId known = find(request, terms, hash); !known.is_none()) {
    Shape& shape = *shapes_[known.index()];
    if (shape.references++ == 0) {
      std::erase(idle_, shape.id);
    }
    return shape.id;
  }
  ShapeId id;
  if (free_.empty()) {
    id = ShapeId(shapes_.size());
    shapes_.emplace_back();
    fits_.emplace_back();
    by_uuid_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  auto shape = std::make_unique<Shape>();
  shape->id = id;
  shape->request = request;
  shape->terms = terms;
  shape->hash = hash;
  shape->references = 1;
  describe(*shape);
  fits_[id.index()].clear();
  shapes_[id.index()] = std::move(shape);
  by_hash_.emplace(hash, id);
  return id;
}

std::vector<ShapeId> Shapes::release(ShapeId id) {
  Shape& shape = *shapes_[id.index()];
  ASSERT(shape.references > 0, id.value());
  if (--shape.references > 0) {
    return {};
  }
  idle_.push_back(id);
  if (idle_.size() <= kIdleShapes) {
    return {};
  }
  const ShapeId oldest = idle_.front();
  idle_.erase(idle_.begin());
  const auto [first, last] = by_hash_.equal_range(shapes_[oldest.index()]->hash);
  by_hash_.erase(std::find_if(first, last, [&](const auto& at) { return at.second == oldest; }));
  shapes_[oldest.index()] = nullptr;
  free_.push_back(oldest);
  return {oldest};
}

namespace {

std::vector<AskFit> ask_fits(const Shape& shape, const Node& node) {
  std::vector<AskFit> fits;
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const DeviceAsk& ask = shape.ask(i);
    AskFit ask_fit;
    for (std::size_t place = 0; place < node.devices.size(); ++place) {
      const Device& device = node.devices[place];
      ask_fit.needs.push_back(
          need_on(ask, device.usable_mib(), node.gpu_replicas, shape.terms.device_cap));
      Cause refusal = static_refusal(ask, node, device);
      if (refusal == Cause::none && ask.is_share() && device.usable_mib() > 0 &&
          ask_fit.needs.back().request == 0) {
        refusal = Cause::share_below_minimum;  // L8: less than 1 MiB of this device
      }
      if (refusal == Cause::none) {
        ask_fit.eligible |= std::uint64_t{1} << place;
      } else {
        ask_fit.cause = more_advanced(ask_fit.cause, refusal);
      }
    }
    fits.push_back(std::move(ask_fit));
  }
  return fits;
}

// The node with what its operator can mend at any time: a backend that is not ready comes up, a
// device gets its owner. Shares wait for that (interfaces.md 7); it proves no "never".
Node mended(const Node& node) {
  Node better = node;
  better.sharing_ready = true;
  for (Device& device : better.devices) {
    device.owned = true;
  }
  return better;
}

}  // namespace

StaticFit Shapes::compute(const Shape& shape, const Node& node) const {
  StaticFit fit;
  fit.known = true;
  fit.asks = ask_fits(shape, node);
  if (shape.linked) {
    fit.links = std::make_shared<const LinkGraph>(node);
  }
  fit.never = never_on(shape, node, fit, limit_percent_);
  if (fit.never != Cause::none) {
    if (const Node better = mended(node); better != node) {
      StaticFit hoped;
      hoped.asks = ask_fits(shape, better);
      hoped.links = fit.links;
      fit.never = never_on(shape, better, hoped, limit_percent_);
    }
  }
  fit.could_ever = fit.never == Cause::none;
  return fit;
}

const StaticFit& Shapes::fit_of_type(ShapeId id, const NodeTypes& types, NodeTypeId type) {
  std::vector<StaticFit>& fits = fits_[id.index()];
  if (fits.size() <= type.index()) {
    fits.resize(std::max(types.size(), type.index() + 1));
  }
  StaticFit& fit = fits[type.index()];
  if (!fit.known) {
    fit = compute(*shapes_[id.index()], types.type(type).example);
  }
  return fit;
}

const StaticFit& Shapes::fit(ShapeId id, const NodeTypes& types, const Fleet& fleet, NodeId node) {
  const Shape& shape = *shapes_[id.index()];
  if (shape.by_uuid) {
    return by_uuid_[id.index()] = compute(shape, fleet.node(node));
  }
  return fit_of_type(id, types, types.of(node));
}

}  // namespace berth::core
