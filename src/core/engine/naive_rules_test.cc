// Judging: what is allowed, what would fit, and what could never fit.
#include <algorithm>
#include <cctype>
#include <iterator>

#include <fmt/format.h>

#include "core/engine/naive_model_test.h"

namespace berth::core {

namespace {

Error wrong(std::string text) { return {ErrorCode::internal, std::move(text)}; }

bool listed(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

bool names_part_of(const std::vector<std::string>& parts, const std::string& model) {
  const auto lower = [](std::string text) {
    std::ranges::transform(text, text.begin(), [](char c) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    return text;
  };
  return std::ranges::any_of(parts, [&](const std::string& part) {
    return lower(model).find(lower(part)) != std::string::npos;
  });
}

// What a device without grants and without foreign use would offer. An unknown size may be any.
DeviceFace empty_face(const Device& device, std::int64_t overcommit) {
  DeviceFace face;
  face.usable = device.usable().in_bytes();
  face.headroom = face.usable;
  face.limit_room = face.usable * overcommit / 100;
  face.nano_left = static_cast<std::int32_t>(kWholeNano.count());
  face.compute_left = 1000;
  face.idle = face.usable > 0;
  return face;
}

}  // namespace

std::vector<NaiveModel::Item> NaiveModel::items_of(const Request& request) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < request.containers().size(); ++i) {
    const ContainerAsk& container = request.containers()[i];
    if (container.gpu.wants_gpu()) {
      items.push_back({&container.gpu, container.kind, i});
    }
  }
  return items;
}

bool NaiveModel::constraints_allow(const NodeConstraints& constraints, const Node& node) {
  if (!constraints.names.empty() && !listed(constraints.names, node.name)) {
    return false;
  }
  for (const LabelRule& rule : constraints.labels) {
    const auto found = node.labels.find(rule.key);
    const bool in = found != node.labels.end() && listed(rule.values, found->second);
    if (in != (rule.op == LabelRule::Op::in)) {  // the generator uses these two
      return false;
    }
  }
  return std::ranges::all_of(node.taints, [&](const Taint& taint) {
    return taint.effect == "PreferNoSchedule" ||
           std::ranges::any_of(constraints.tolerations, [&](const Toleration& toleration) {
             return toleration.exists && toleration.key == taint.key;
           });
  });
}

bool NaiveModel::may_use(const DeviceAsk& ask, const Node& node, const Device& device) const {
  const DeviceFilter& filter = ask.filter;
  const bool kind = ask.kind == AskKind::mig ? device.mig_profile == ask.mig_profile
                                             : device.mig_profile.empty() && !device.mig_enabled;
  const bool type = (filter.models.empty() || listed(filter.models, device.model)) &&
                    (filter.use_types.empty() || names_part_of(filter.use_types, device.model)) &&
                    !names_part_of(filter.avoid_types, device.model);
  const bool identity = (filter.use_uuids.empty() || listed(filter.use_uuids, device.uuid)) &&
                        !listed(filter.avoid_uuids, device.uuid);
  const bool parts = ask.kind != AskKind::replica || node.gpu_replicas >= 2;
  const bool shareable = device.owned && node.sharing_ready &&
                         (ask.mode == SharingMode::time_slicing || device.sm_sharing);
  return kind && type && identity && parts && (ask.is_exclusive() || shareable);
}

DeviceCharge NaiveModel::charge_of(const std::vector<Item>& items, NodeId node, std::size_t place,
                                   std::int64_t headroom) const {
  const Node& description = fleet_.node(node);
  const std::int64_t usable_mib = description.devices[place].usable_mib();
  DeviceCharge charge;
  charge.device = fleet_.devices_of(node)[place];
  struct Sums {
    std::int64_t mib = 0;
    std::int64_t limit = 0;
    std::int64_t nano = 0;
  };
  const auto sums = [&](auto counts) {
    Sums sum;
    for (const Item& item : items) {
      if (!counts(item)) {
        continue;
      }
      const bool whole = item.ask->is_exclusive();
      const std::int64_t all = Memory::bytes(headroom).floor_mib();
      sum.mib += whole ? all : request_mib_on(*item.ask, usable_mib, description.gpu_replicas);
      sum.limit += whole ? all : limit_mib_on(*item.ask, usable_mib, description.gpu_replicas);
      sum.nano += item.ask->kind == AskKind::fraction ? item.ask->nano : 0;
    }
    return sum;
  };
  std::vector<Sums> phases{sums([](const Item& item) { return item.kind != ContainerKind::init; })};
  charge.running_mib = phases[0].mib;
  charge.running_limit_mib = phases[0].limit;
  charge.running_nano = phases[0].nano;
  for (const Item& init : items) {
    if (init.kind == ContainerKind::init) {
      phases.push_back(sums([&](const Item& item) {
        return item.container == init.container ||
               (item.kind == ContainerKind::sidecar && item.container < init.container);
      }));
    }
  }
  for (const Sums& phase : phases) {
    charge.starting_mib = std::max(charge.starting_mib, phase.mib);
    charge.starting_limit_mib = std::max(charge.starting_limit_mib, phase.limit);
    charge.starting_nano = std::max(charge.starting_nano, phase.nano);
  }
  for (const Item& item : items) {
    charge.exclusive = charge.exclusive || item.ask->is_exclusive();
    charge.mutex = charge.mutex || item.ask->mutex;
    charge.mode = item.ask->mode;
    const std::int64_t mib = request_mib_on(*item.ask, usable_mib, description.gpu_replicas);
    if (item.ask->compute_milli > 0) {
      charge.compute_milli += item.ask->compute_milli;
    } else if (item.ask->mode == SharingMode::sm_sharing && usable_mib > 0) {
      charge.compute_milli += static_cast<int>(
          std::max<std::int64_t>(1, 1000 * std::min(mib, usable_mib) / usable_mib));
    }
  }
  return charge;
}

namespace {

// L1 within one request: a whole device serves one container at a time, phase after phase.
template <typename Item>
bool one_owner(const std::vector<Item>& items) {
  const auto beside = [](const Item& init, const Item& other) {
    return other.kind == ContainerKind::sidecar && other.container < init.container;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Item& a = items[i];
      const Item& b = items[j];
      const bool a_init = a.kind == ContainerKind::init;
      const bool b_init = b.kind == ContainerKind::init;
      const bool together = a_init && b_init ? false
                            : a_init         ? beside(a, b)
                            : b_init         ? beside(b, a)
                                             : true;
      if (together && (a.ask->is_exclusive() || b.ask->is_exclusive())) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

// Whether the device takes these containers of one request together (L1-L8).
bool NaiveModel::admits(const std::vector<Item>& items, NodeId node, std::size_t place,
                        const DeviceFace& face) const {
  const Node& description = fleet_.node(node);
  if (face.blocked != Cause::none) {
    return false;
  }
  const DeviceCharge charge = charge_of(items, node, place, face.headroom);
  for (const Item& item : items) {
    if (!may_use(*item.ask, description, description.devices[place]) ||
        (item.ask->mutex && face.grants > 0) || std::ranges::any_of(items, [&](const Item& other) {
          return !item.ask->is_exclusive() && !other.ask->is_exclusive() &&
                 item.ask->mode != other.ask->mode;
        })) {
      return false;
    }
    const std::int64_t mib = request_mib_on(*item.ask, description.devices[place].usable_mib(),
                                            description.gpu_replicas);
    if (mib < 1) {
      return false;
    }
  }
  if (charge.exclusive) {
    std::vector<Item> shares;
    std::ranges::copy_if(items, std::back_inserter(shares),
                         [](const Item& item) { return !item.ask->is_exclusive(); });
    return one_owner(items) && face.use == DeviceUse::free && face.idle &&
           (shares.empty() || admits(shares, node, place, face));
  }
  // L6: all of a device's compute needs an empty device.
  const bool compute = charge.compute_milli == 0
                           ? face.compute_left > 0
                           : charge.compute_milli <= face.compute_left &&
                                 (charge.compute_milli < 1000 || face.grants == 0);
  return face.use != DeviceUse::whole &&
         (face.use == DeviceUse::free || (face.mode == charge.mode && !face.closed)) && compute &&
         (!config_.device_cap.has_value() || face.grants < *config_.device_cap) &&
         (!queue_cap_.has_value() || face.grants < *queue_cap_) &&
         Memory::mib(charge.starting_mib).in_bytes() <= face.headroom &&
         Memory::mib(charge.starting_limit_mib).in_bytes() <= face.limit_room &&
         charge.starting_nano <= face.nano_left;
}

NaiveModel::Room NaiveModel::room(NodeId node, When when) const {
  Room room{.node = node, .free = books_.node(node, when == When::later), .faces = {}};
  const Node& description = fleet_.node(node);
  if (when == When::empty) {
    room.free = {.cpu = description.cpu.count(),
                 .ram = description.ram.in_bytes(),
                 .slots = description.pod_slots};
  }
  for (std::size_t place = 0; place < description.devices.size(); ++place) {
    room.faces.push_back(
        when == When::empty
            ? empty_face(description.devices[place], config_.limit_overcommit_percent)
            : books_.face(fleet_.devices_of(node)[place], *now_, when == When::later));
  }
  return room;
}

bool NaiveModel::node_admits(const Request& request, const Room& room, When when) const {
  const Node& node = fleet_.node(room.node);
  const bool open = when == When::empty || (node.ready && !node.cordoned);
  return open && constraints_allow(request.nodes(), node) && room.free.slots >= 1 &&
         (request.cpu() == Milli() || request.cpu().count() <= room.free.cpu) &&
         (request.ram() == Memory() || request.ram().in_bytes() <= room.free.ram);
}

bool NaiveModel::search(const std::vector<Item>& items, std::size_t next, const Room& room,
                        Loads& loads) const {
  return next == items.size() || choose(items, next, 0, items[next].ask->count, room, loads);
}

namespace {

// By NVSwitch or by at least one NVLink (queues-gangs-topology.md 8.1).
bool are_joined(const Node& node, std::size_t a, std::size_t b) {
  const int set = node.devices[a].link_set;
  const auto is_pair = [&](const PairScore& link) {
    return link.score >= 100 &&
           std::minmax(link.a, link.b) == std::minmax(static_cast<int>(a), static_cast<int>(b));
  };
  return (set >= 0 && set == node.devices[b].link_set) || std::ranges::any_of(node.links, is_pair);
}

}  // namespace

bool NaiveModel::choose(const std::vector<Item>& items, std::size_t next, std::size_t from,
                        int missing, const Room& room, Loads& loads) const {
  if (missing == 0) {
    return search(items, next + 1, room, loads);
  }
  const std::vector<Device>& devices = fleet_.node(room.node).devices;
  for (std::size_t place = from; place < room.faces.size(); ++place) {
    const auto holds_this = [&](const std::vector<Item>& load) {
      return !load.empty() && load.back().container == items[next].container;
    };
    const auto first = std::ranges::find_if(loads, holds_this);
    const bool numa =
        !items[next].ask->numa_bind || first == loads.end() ||
        devices[static_cast<std::size_t>(first - loads.begin())].numa == devices[place].numa;
    const bool joined =
        items[next].ask->links != LinkRule::required ||
        std::ranges::all_of(loads, [&](const std::vector<Item>& load) {
          const auto other = static_cast<std::size_t>(&load - loads.data());
          return !holds_this(load) || are_joined(fleet_.node(room.node), other, place);
        });
    loads[place].push_back(items[next]);
    if (numa && joined && admits(loads[place], room.node, place, room.faces[place]) &&
        choose(items, next, place + 1, missing - 1, room, loads)) {
      return true;
    }
    loads[place].pop_back();
  }
  return false;
}

std::optional<NodeId> NaiveModel::place_for(const Request& request, When when) const {
  const std::vector<Item> items = items_of(request);
  for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
    const NodeId id(i);
    if (!fleet_.present(id)) {
      continue;
    }
    const Room here = room(id, when);
    Loads loads(here.faces.size());
    if (node_admits(request, here, when) && search(items, 0, here, loads)) {
      return id;
    }
  }
  return std::nullopt;
}

// The grant has what was asked for, on distinct devices, sized by the contract's conversions.
Result<void> NaiveModel::check_sizes(const Grant& grant, const Request& request) const {
  const Node& node = fleet_.node(grant.node);
  for (const Item& item : items_of(request)) {
    const auto found =
        std::ranges::find(grant.containers, item.container,
                          [](const ContainerGrant& c) { return std::size_t{c.container}; });
    if (found == grant.containers.end() ||
        found->shares.size() != static_cast<std::size_t>(item.ask->count)) {
      return wrong(
          fmt::format("container {} did not get its {} devices", item.container, item.ask->count));
    }
    std::vector<DeviceId> devices;
    for (const DeviceShare& share : found->shares) {
      devices.push_back(share.device);
      const std::int64_t usable = fleet_.device(share.device).usable_mib();
      const std::int64_t request_mib = request_mib_on(*item.ask, usable, node.gpu_replicas);
      if (!item.ask->is_exclusive() &&
          (share.request_mib != request_mib ||
           share.limit_mib != limit_mib_on(*item.ask, usable, node.gpu_replicas))) {
        return wrong(fmt::format("container {} got {} / {} MiB", item.container, share.request_mib,
                                 share.limit_mib));
      }
    }
    std::ranges::sort(devices);
    if (std::ranges::adjacent_find(devices) != devices.end()) {
      return wrong(fmt::format("container {} got a device twice", item.container));
    }
  }
  return success();
}

// The place that was chosen may be given: now, or once everything that is being released is gone.
Result<void> NaiveModel::check_decision(const std::string& uid, const Grant& grant,
                                        When when) const {
  const Request& request = known_.find(uid)->second.workload.request();
  const Room here = room(grant.node, when);
  if (!node_admits(request, here, when)) {
    return wrong(fmt::format("{}: node {} may not take it", uid, fleet_.node(grant.node).name));
  }
  const std::vector<Item> items = items_of(request);
  Loads loads(here.faces.size());
  for (const Item& item : items) {
    const auto places =
        std::ranges::find(grant.containers, item.container,
                          [](const ContainerGrant& c) { return std::size_t{c.container}; });
    for (const DeviceShare& share : places->shares) {
      loads[fleet_.place_of(share.device)].push_back(item);
    }
  }
  std::vector<DeviceCharge> charges;
  bool starting = false;
  for (std::size_t place = 0; place < loads.size(); ++place) {
    if (loads[place].empty()) {
      continue;
    }
    if (!admits(loads[place], grant.node, place, here.faces[place])) {
      return wrong(fmt::format("{}: device {} may not take it", uid,
                               fleet_.node(grant.node).devices[place].uuid));
    }
    charges.push_back(charge_of(loads[place], grant.node, place, here.faces[place].headroom));
    const DeviceCharge& c = charges.back();
    starting = starting || c.starting_mib != c.running_mib ||
               c.starting_limit_mib != c.running_limit_mib || c.starting_nano != c.running_nano;
  }
  std::ranges::sort(charges, {}, &DeviceCharge::device);
  std::vector<DeviceCharge> booked = grant.charges;
  for (DeviceCharge& charge : booked) {
    if (charge.exclusive) {  // a kept promise has the size it was promised
      charge = *std::ranges::find(charges, charge.device, &DeviceCharge::device);
    }
  }
  if (booked != charges) {
    return wrong(fmt::format("{}: the charges are not those of its containers", uid));
  }
  if (grant.starting != starting) {
    return wrong(fmt::format("{}: its charge {} when its init containers are done", uid,
                             starting ? "shrinks" : "does not shrink"));
  }
  return success();
}

Result<void> NaiveModel::check_waiting(const std::string& uid, const Known& known,
                                       const Engine& engine) const {
  const WorkloadOptions& options = known.workload.options();
  if (options.wait_timeout.has_value() && *now_ >= known.queued_at + *options.wait_timeout) {
    return wrong(fmt::format("{} waits beyond its time-out", uid));
  }
  if (held_ || engine.cause(uid) == Cause::granting_held) {
    return held_ && engine.cause(uid) == Cause::granting_held
               ? success()
               : Result<void>(wrong(fmt::format("{} waits for {} while granting is {}", uid,
                                                cause_name(engine.cause(uid)),
                                                held_ ? "held" : "not held")));
  }
  // A reservation may be in the way; then only its owner is promised to be served.
  if (!config_.reservations) {
    const auto now = place_for(known.workload.request(), When::now);
    if (now.has_value()) {
      return wrong(fmt::format("{} waits ({}) although it fits on {}", uid,
                               cause_name(engine.cause(uid)), fleet_.node(*now).name));
    }
    const auto later = place_for(known.workload.request(), When::later);
    if (later.has_value()) {
      return wrong(fmt::format("{} waits ({}) without a promise although {} will have room", uid,
                               cause_name(engine.cause(uid)), fleet_.node(*later).name));
    }
  }
  return success();
}

Result<void> NaiveModel::check_known(const std::string& uid, const Known& known,
                                     const Engine& engine) const {
  if (engine.outcome(uid) != known.outcome) {
    return wrong(fmt::format("{}: the last action said {}", uid, outcome_name(known.outcome)));
  }
  const Grant* grant = engine.grant(uid);
  if ((grant != nullptr) != (known.grant != 0)) {
    return wrong(fmt::format("{} {} a grant", uid, grant != nullptr ? "has" : "has not"));
  }
  if (grant != nullptr) {
    const auto live = std::ranges::find(books_.live(), known.id, &NaiveBooks::Live::workload);
    if (live->grant.state != grant->state || live->grant.starting != grant->starting ||
        live->grant.charges != grant->charges) {
      return wrong(fmt::format("{}: its grant's state is {}, it should be {}", uid,
                               static_cast<int>(grant->state),
                               static_cast<int>(live->grant.state)));
    }
    return known.confirm_by.has_value() && *now_ >= *known.confirm_by
               ? Result<void>(wrong(fmt::format("{} was not confirmed in time", uid)))
               : success();
  }
  if (known.outcome == Outcome::never && engine.cause(uid) != Cause::unknown_queue &&
      place_for(known.workload.request(), When::empty).has_value()) {
    return wrong(fmt::format("{} is said to fit never ({}), yet it would on an empty fleet", uid,
                             cause_name(engine.cause(uid))));
  }
  return known.outcome == Outcome::waiting ? check_waiting(uid, known, engine) : success();
}

Result<void> NaiveModel::check_all(const Engine& engine) const {
  TRY_VOID(books_.compare(engine.ledger(), *now_));
  for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
    if (fleet_.present(NodeId(i)) && !(fleet_.node(NodeId(i)) == engine.fleet().node(NodeId(i)))) {
      return wrong(fmt::format("node {} is described differently", fleet_.node(NodeId(i)).name));
    }
  }
  for (const auto& [uid, known] : known_) {
    TRY_VOID(check_known(uid, known, engine));
    TRY(const Verdict verdict, engine.explain(uid, Engine::Detail::in_short));
    if (verdict.outcome != known.outcome || verdict.since > *now_ ||
        (verdict.outcome != Outcome::waiting && verdict.since < known.submitted) ||
        verdict.last_evaluated > *now_ || verdict.summary.empty() || verdict.summary.size() > 200) {
      return wrong(fmt::format("{}: its verdict is not in order: \"{}\"", uid, verdict.summary));
    }
  }
  return success();
}

}  // namespace berth::core
