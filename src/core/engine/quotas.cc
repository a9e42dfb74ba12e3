#include "core/engine/quotas.h"

#include <algorithm>
#include <set>

#include "base/wide.h"

namespace berth::core {

namespace {

constexpr std::int64_t kNano = 1'000'000'000;
constexpr std::int64_t kWhole = kWholeMilli.count();  // of a device, and of its compute

}  // namespace

void merge(Charge& into, const Charge& charge) {
  for (const ChargePart& part : charge.parts) {
    const auto same = std::ranges::find_if(into.parts, [&](const ChargePart& other) {
      return other.device_class == part.device_class && other.usable_mib == part.usable_mib;
    });
    if (same == into.parts.end()) {
      into.parts.push_back(part);
      continue;
    }
    same->mib += part.mib;
    same->compute_milli += part.compute_milli;
    same->whole += part.whole;
    same->nano += part.nano;
    same->shares_mib += part.shares_mib;
  }
}

std::vector<QueueId> QuotaView::refusing() const {
  std::vector<QueueId> queues;
  const auto add = [&](const QuotaRefusal& one) {
    if (one.refused() && std::ranges::find(queues, one.queue) == queues.end()) {
      queues.push_back(one.queue);
    }
  };
  add(refusal);
  std::ranges::for_each(kinds, add);
  return queues;
}

// MIG instances of one profile are a class of their own.
std::string Quotas::model_of(const Device& device) const {
  return device.is_mig() ? "mig-" + device.mig_profile : device.model;
}

// Those that the synced nodes have.
std::vector<std::string> Quotas::classes() const {
  std::set<std::string> found;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (present_[kind] > 0) {
      found.insert(tree.class_name(kinds_[kind].device_class));
    }
  }
  found.erase("");
  return {found.begin(), found.end()};
}

std::vector<QueueProblem> Quotas::configure(const QueueConfig& config,
                                            std::vector<QueueProblem> others) {
  if (!counting_) {
    counting_ = true;
    for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
      sync_node(NodeId(i));
    }
    seen_ = ledger_.changes().end();
  }
  ++version_;
  ++capacity_version_;
  others_ = std::move(others);
  config_ = config;
  as_default_ = config.queues == default_queues().queues;
  classes_ = classes();
  return tree.configure(config_, classes_, others_);
}

std::optional<std::vector<QueueProblem>> Quotas::fleet_changed() {
  ++fleet_version_;
  kind_of_device_.clear();
  sync();
  if (!counting_ || classes() == classes_) {
    return std::nullopt;
  }
  return configure(QueueConfig(config_), std::move(others_));
}

std::size_t Quotas::kind_of(DeviceId id) {
  if (kind_of_device_.size() <= id.index()) {
    kind_of_device_.resize(id.index() + 1, kUnknownKind);
  }
  std::size_t& known = kind_of_device_[id.index()];
  if (known != kUnknownKind) {
    return known;
  }
  const Device& device = fleet_.device(id);
  const QuotaKind kind{.device_class = tree.class_of(model_of(device)),
                       .usable_mib = device.usable_mib(),
                       .gpu_replicas = fleet_.node(fleet_.node_of(id)).gpu_replicas};
  known = static_cast<std::size_t>(std::ranges::find(kinds_, kind) - kinds_.begin());
  if (known == kinds_.size()) {
    kinds_.push_back(kind);
    present_.push_back(0);
  }
  return known;
}

void Quotas::publish(DeviceClassId device_class) {
  const Contribution& sum = capacity_[device_class.index()];
  tree.set_capacity(device_class, DimensionKind::memory, sum.mib);
  tree.set_capacity(device_class, DimensionKind::devices, sum.milli);
  tree.set_capacity(device_class, DimensionKind::compute, sum.compute);
}

namespace {

// What other allocators have of a device.
struct Peers {
  std::int64_t count = 0;
  std::int64_t mib = 0;
  std::int64_t milli = 0;  // of the device, at most all of it
  std::int64_t compute = 0;
  bool whole = false;
};

Peers peers_on(const DeviceBook& book, std::int64_t usable_mib) {
  Peers peers;
  for (const Holding& holding : book.holdings) {
    if (!holding.foreign) {
      continue;
    }
    ++peers.count;
    peers.mib += Memory::bytes(holding.request).ceil_mib();
    peers.compute += holding.compute;
    peers.whole = peers.whole || holding.exclusive;
  }
  if (usable_mib > 0) {
    peers.mib = std::min(peers.mib, usable_mib);
    peers.milli = (kWhole * peers.mib + usable_mib - 1) / usable_mib;
  }
  return peers;
}

}  // namespace

// Ready devices count with what they hold less foreign use. The others count with what is granted
// on them: their work counts in its queue, and must not eat what others may have elsewhere. What
// other allocators hold is nobody's to divide.
void Quotas::find_contributions(NodeId node, std::vector<Contribution>& parts) {
  parts.clear();
  if (!fleet_.present(node)) {
    return;
  }
  const bool node_ready = ledger_.node(node).blocked == Cause::none;
  for (const DeviceId id : fleet_.devices_of(node)) {
    const std::size_t kind = kind_of(id);
    const DeviceFace& face = ledger_.faces(node)[fleet_.place_of(id)];
    const DeviceBook& book = ledger_.book(id);
    const std::int64_t usable = kinds_[kind].usable_mib;
    Contribution part{.kind = kind};
    const Peers peers = peers_on(book, usable);
    if (!fleet_.device(id).mig_enabled && usable > 0) {
      if (node_ready && face.blocked == Cause::none) {
        part.mib =
            std::max<std::int64_t>(0, usable - Memory::bytes(book.foreign).ceil_mib() - peers.mib);
        part.milli = kWhole - peers.milli;
        part.compute = std::max<std::int64_t>(0, kWhole - peers.compute);
      } else if (!peers.whole && std::ssize(book.holdings) > peers.count) {
        part.mib = std::clamp<std::int64_t>(Memory::bytes(book.requests).floor_mib() - peers.mib, 0,
                                            usable);
        part.milli = kWhole * part.mib / usable;
        part.compute = std::clamp<std::int64_t>(book.compute - peers.compute, 0, kWhole);
        if (face.use == DeviceUse::whole) {
          part.milli = part.compute = kWhole;
        }
      }
    }
    parts.push_back(part);
  }
}

void Quotas::sync_node(NodeId node) {
  if (contributions_.size() <= node.index()) {
    contributions_.resize(fleet_.node_slots());
  }
  std::vector<Contribution>& fresh = fresh_contributions_;
  find_contributions(node, fresh);
  std::vector<Contribution>& old = contributions_[node.index()];
  if (fresh == old) {
    return;
  }
  std::set<DeviceClassId> touched{kEveryClass};
  const auto add = [&](const Contribution& part, std::int64_t sign) {
    present_[part.kind] += sign;
    for (const DeviceClassId at : {kinds_[part.kind].device_class, kEveryClass}) {
      if (capacity_.size() <= at.index()) {
        capacity_.resize(at.index() + 1);
      }
      capacity_[at.index()].mib += sign * part.mib;
      capacity_[at.index()].milli += sign * part.milli;
      capacity_[at.index()].compute += sign * part.compute;
      touched.insert(at);
    }
  };
  for (const Contribution& part : old) {
    add(part, -1);
  }
  for (const Contribution& part : fresh) {
    add(part, 1);
  }
  const bool same_kinds =
      std::ranges::equal(old, fresh, {}, &Contribution::kind, &Contribution::kind);
  fleet_version_ += same_kinds ? 0 : 1;
  std::swap(old, fresh);
  for (const DeviceClassId at : touched) {
    publish(at);
  }
  ++version_;
  ++capacity_version_;
}

void Quotas::sync() {
  if (!counting_) {
    return;
  }
  const ChangeLog& log = ledger_.changes();
  if (seen_ < log.begin()) {
    for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
      sync_node(NodeId(i));
    }
  } else {
    for (std::uint64_t at = seen_; at < log.end(); ++at) {
      if (log.is_latest(at)) {
        sync_node(log.at(at));
      }
    }
  }
  seen_ = log.end();
}

Charge Quotas::charge_of(const Grant& grant) {
  Charge charge;
  for (const DeviceCharge& device : grant.charges) {
    const std::size_t kind = kind_of(device.device);
    const std::int64_t mib = grant.starting ? device.starting_mib : device.running_mib;
    const std::int64_t nano = grant.starting ? device.starting_nano : device.running_nano;
    ChargePart part{.device_class = kinds_[kind].device_class, .mib = mib};
    if (device.exclusive) {
      part.whole = 1;
      part.compute_milli = kWhole;
    } else {
      const std::int64_t usable = std::max<std::int64_t>(1, kinds_[kind].usable_mib);
      const auto by_fraction = static_cast<std::int64_t>(Int128{usable} * nano / kNano);
      part.nano = nano;
      part.shares_mib = nano == 0 ? mib : std::max<std::int64_t>(0, mib - by_fraction - 1);
      part.usable_mib = usable;
      part.compute_milli = device.compute_milli;
    }
    merge(charge, {.parts = {part}});
  }
  return charge;
}

Charge Quotas::charge_on(const Shape& shape, const QuotaKind& kind) const {
  ChargePart run{.device_class = kind.device_class};  // everything that runs together
  ChargePart most{.device_class = kind.device_class};
  const auto larger = [](const ChargePart& a, const ChargePart& b) {
    return std::tuple(a.whole, a.nano, a.shares_mib, a.mib) >
           std::tuple(b.whole, b.nano, b.shares_mib, b.mib);
  };
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const ContainerAsk& container = shape.request.containers()[shape.gpu_containers[i]];
    const DeviceAsk& ask = container.gpu;
    ChargePart one;
    if (ask.is_exclusive()) {
      one.whole = ask.count;
      one.mib = ask.count * kind.usable_mib;
      one.compute_milli = ask.count * kWhole;
    } else {
      const DeviceNeed need = need_on(ask, kind.usable_mib, kind.gpu_replicas, 0);
      one.mib = ask.count * request_mib_on(ask, kind.usable_mib, kind.gpu_replicas);
      one.nano = ask.kind == AskKind::fraction ? ask.count * ask.nano : 0;
      one.shares_mib = ask.kind == AskKind::fraction ? 0 : one.mib;
      one.compute_milli = ask.count * std::int64_t{need.compute};
    }
    ChargePart sum = run;
    sum.mib += one.mib;
    sum.nano += one.nano;
    sum.shares_mib += one.shares_mib;
    sum.whole += one.whole;
    sum.compute_milli += one.compute_milli;
    if (container.kind != ContainerKind::init) {
      run = sum;
    }
    most = larger(sum, most) ? sum : most;
  }
  Charge charge;
  if (shape.wants_gpu()) {
    most.usable_mib = most.shares_mib > 0 ? std::max<std::int64_t>(1, kind.usable_mib) : 0;
    charge.parts.push_back(most);
  }
  return charge;
}

void Quotas::forget(ShapeId shape) {
  if (shape.index() < usable_.size()) {
    usable_[shape.index()].clear();
  }
  ++version_;
}

bool Quotas::can_use(const Shape& shape, std::size_t kind) {
  if (usable_version_ != fleet_version_) {
    usable_.clear();
    usable_version_ = fleet_version_;
  }
  if (usable_.size() <= shape.id.index()) {
    usable_.resize(shape.id.index() + 1);
  }
  std::vector<std::optional<bool>>& known = usable_[shape.id.index()];
  known.resize(kinds_.size());
  if (!known[kind].has_value()) {
    bool can = false;
    for (std::size_t i = 0; i < types_.size() && !can; ++i) {
      const NodeType& type = types_.type(NodeTypeId(i));
      if (type.present == 0) {
        continue;
      }
      for (const Device& device : type.example.devices) {
        const bool same = tree.class_of(model_of(device)) == kinds_[kind].device_class &&
                          device.usable_mib() == kinds_[kind].usable_mib &&
                          type.example.gpu_replicas == kinds_[kind].gpu_replicas;
        for (std::size_t ask = 0; same && ask < shape.gpu_containers.size(); ++ask) {
          can = can || static_refusal(shape.ask(ask), type.example, device) == Cause::none;
        }
      }
    }
    known[kind] = can;
  }
  return *known[kind];
}

Charge Quotas::wish(const Shape& shape) {
  std::optional<std::size_t> largest;
  bool one_class = true;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (present_[kind] == 0 || !can_use(shape, kind)) {
      continue;
    }
    one_class = one_class && (!largest.has_value() ||
                              kinds_[*largest].device_class == kinds_[kind].device_class);
    if (!largest.has_value() || kinds_[kind].usable_mib > kinds_[*largest].usable_mib) {
      largest = kind;
    }
  }
  if (!largest.has_value()) {
    return {};
  }
  Charge charge = charge_on(shape, kinds_[*largest]);
  for (ChargePart& part : charge.parts) {
    part.device_class = one_class ? part.device_class : kEveryClass;
  }
  return charge;
}

Charge Quotas::least(const Shape& shape) {
  Charge charge = wish(shape);
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (present_[kind] > 0 && can_use(shape, kind)) {
      const Charge here = charge_on(shape, kinds_[kind]);
      for (std::size_t i = 0; i < here.parts.size() && i < charge.parts.size(); ++i) {
        charge.parts[i].mib = std::min(charge.parts[i].mib, here.parts[i].mib);
        charge.parts[i].compute_milli =
            std::min(charge.parts[i].compute_milli, here.parts[i].compute_milli);
      }
    }
  }
  return charge;
}

void Quotas::add(QueueId leaf, const Charge& charge, BookingState state, bool preemptible) {
  tree.add(leaf, charge, state, preemptible);
  ++version_;
}

void Quotas::remove(QueueId leaf, const Charge& charge, BookingState state, bool preemptible) {
  tree.remove(leaf, charge, state, preemptible);
  ++version_;
}

const QuotaView& Quotas::view(const Shape& shape, QueueId leaf, bool preemptible,
                              Counting counting) {
  if (memo_.version == version_ && memo_.shape == shape.id && memo_.leaf == leaf &&
      memo_.preemptible == preemptible && memo_.counting == counting) {
    return memo_.view;
  }
  memo_ = {.shape = shape.id,
           .leaf = leaf,
           .preemptible = preemptible,
           .counting = counting,
           .version = version_,
           .view = {}};
  QuotaView& view = memo_.view;
  if (!shape.wants_gpu()) {
    view.refusal = tree.may_start(leaf, Charge(), preemptible, counting);
    view.open = !view.refusal.refused();
    view.shut = view.refusal.refused();
    return view;
  }
  view.kinds.resize(kinds_.size());
  bool any = false;
  bool asked = false;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (present_[kind] == 0 || !can_use(shape, kind)) {
      continue;
    }
    asked = true;
    view.kinds[kind] = tree.may_start(leaf, charge_on(shape, kinds_[kind]), preemptible, counting);
    if (view.kinds[kind].refused()) {
      view.open = false;
      view.refusal = view.refusal.refused() ? view.refusal : view.kinds[kind];
    } else {
      any = true;
    }
  }
  view.shut = asked && !any;
  return view;
}

QuotaRefusal Quotas::refusal_on(const QuotaView& view, const Shape& shape, NodeId node) const {
  if (view.open || !shape.wants_gpu() || node.index() >= contributions_.size()) {
    return view.open ? QuotaRefusal() : view.refusal;
  }
  QuotaRefusal first;
  for (const Contribution& device : contributions_[node.index()]) {
    if (device.kind >= view.kinds.size() || !view.kinds[device.kind].refused()) {
      return {};
    }
    first = first.refused() ? first : view.kinds[device.kind];
  }
  return first;
}

std::uint64_t Quotas::places(const QuotaView& view, const Shape& shape, NodeId node) const {
  if (view.open || view.shut || !shape.wants_gpu()) {
    return view.shut ? 0 : ~std::uint64_t{0};
  }
  std::uint64_t allowed = 0;
  const std::vector<Contribution>& devices = contributions_[node.index()];
  for (std::size_t place = 0; place < devices.size(); ++place) {
    const std::size_t kind = devices[place].kind;
    const bool open = kind >= view.kinds.size() || !view.kinds[kind].refused();
    allowed |= std::uint64_t{open} << place;
  }
  return allowed;
}

}  // namespace berth::core
