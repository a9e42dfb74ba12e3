// Ledger::check: every derived figure recomputed from the holdings.
#include <fmt/core.h>

#include "core/ledger/ledger.h"

namespace berth::core {

namespace {

Error differs(std::string_view what, std::string_view where, std::int64_t kept,
              std::int64_t recomputed) {
  return {ErrorCode::internal, fmt::format("{} of {}: the books say {}, recomputed it is {}", what,
                                           where, kept, recomputed)};
}

}  // namespace

Result<void> Ledger::check_device(DeviceId id) const {
  const DeviceBook& kept = books_[id.index()];
  const std::string& uuid = fleet_.uuid(id);
  DeviceBook fresh = kept;
  resum(fresh);
  update_foreign(fresh);

  const struct {
    std::string_view what;
    std::int64_t kept;
    std::int64_t fresh;
  } figures[] = {
      {"requests", kept.requests, fresh.requests}, {"charged", kept.charged, fresh.charged},
      {"limits", kept.limits, fresh.limits},       {"nano", kept.nano, fresh.nano},
      {"compute", kept.compute, fresh.compute},    {"releasing", kept.releasing, fresh.releasing},
      {"foreign", kept.foreign, fresh.foreign},
  };

  for (const auto& figure : figures) {
    if (figure.kept != figure.fresh) {
      return differs(figure.what, uuid, figure.kept, figure.fresh);
    }
  }
  if (!fleet_.present(id)) {
    if (!kept.holdings.empty()) {
      return differs("grants on absent device", uuid,
                     static_cast<std::int64_t>(kept.holdings.size()), 0);
    }
    return success();
  }
  const NodeFace& node = nodes_[fleet_.node_of(id).index()].face;
  const DeviceFace& face = faces_[node.first + fleet_.place_of(id)];
  const DeviceFace again = face_without(id, [](const Holding&) { return false; });
  if (face.headroom != again.headroom) {
    return differs("headroom", uuid, face.headroom, again.headroom);
  }
  if (face.free_milli != again.free_milli || face.idle != again.idle || face.use != again.use ||
      face.mode != again.mode || face.closed != again.closed || face.blocked != again.blocked ||
      face.grants != again.grants || face.limit_room != again.limit_room ||
      face.nano_left != again.nano_left || face.compute_left != again.compute_left ||
      face.usable != again.usable) {
    return differs("face", uuid, face.free_milli, again.free_milli);
  }
  std::int64_t decided = 0;
  bool exclusive = false;
  for (const Holding& holding : kept.holdings) {
    if (holding.adopted || holding.releasing) {
      continue;  // found as it was; or on its way out, with a promise beside it (L3)
    }
    ++decided;
    exclusive = exclusive || holding.exclusive;
  }
  if (exclusive && decided > 1) {
    return differs("holders beside an exclusive grant", uuid, decided, 1);
  }
  return success();
}

Result<void> Ledger::check_nodes() const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodePage& page = nodes_[i];
    const Node& node = fleet_.node(NodeId(i));
    if (page.face.cpu_free != node.cpu.count() - page.cpu_booked) {
      return differs("free cpu", node.name, page.face.cpu_free, node.cpu.count() - page.cpu_booked);
    }
    if (page.face.ram_free != node.ram.in_bytes() - page.ram_booked) {
      return differs("free ram", node.name, page.face.ram_free,
                     node.ram.in_bytes() - page.ram_booked);
    }
    if (page.face.slots_free != node.pod_slots - page.slots_booked) {
      return differs("free slots", node.name, page.face.slots_free,
                     node.pod_slots - page.slots_booked);
    }
    if (page.face.present != fleet_.present(NodeId(i))) {
      return differs("presence", node.name, page.face.present ? 1 : 0, page.face.present ? 0 : 1);
    }
  }
  return success();
}

Result<void> Ledger::check() const {
  for (std::size_t i = 0; i < books_.size(); ++i) {
    TRY_VOID(check_device(DeviceId(i)));
  }
  return check_nodes();
}

}  // namespace berth::core
