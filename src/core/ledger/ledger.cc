#include "core/ledger/ledger.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include "base/wide.h"

namespace berth::core {

namespace {

constexpr std::int64_t kNano = 1'000'000'000;

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

std::int64_t charge_of(const Holding& holding) {
  return std::max(holding.request, holding.measured);
}

}  // namespace

std::int64_t limit_ceiling(std::int64_t usable, std::int64_t percent) {
  const Int128 ceiling = static_cast<Int128>(usable) * percent / 100;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return ceiling > kMost ? kMost : static_cast<std::int64_t>(ceiling);
}

std::int64_t whole_foreign_ceiling(const LedgerRules& rules, const Device& device) {
  if (rules.whole_foreign_max.has_value()) {
    return rules.whole_foreign_max->in_bytes();
  }
  const std::int64_t total = device.total.value_or(Memory()).in_bytes();
  return std::max(Memory::mib(512).in_bytes(), total / 50);
}

void Ledger::place_faces(NodeId node, std::size_t count) {
  NodeFace& face = nodes_[node.index()].face;
  if (count > face.count) {
    face.first = static_cast<std::uint32_t>(faces_.size());
    faces_.resize(faces_.size() + count);
  }
  face.count = static_cast<std::uint32_t>(count);
}

void Ledger::sync_node(NodeId node, Time now) {
  now_ = now;
  while (nodes_.size() <= node.index()) {
    nodes_.emplace_back();
    changes_.add_node();
    lasting_changes_.add_node();
  }
  books_.resize(fleet_.device_slots());
  place_faces(node, fleet_.devices_of(node).size());
  derive_node(node);
  for (const DeviceId device : fleet_.devices_of(node)) {
    derive_device(device, now);
  }
  mark(node);
}

void Ledger::sync_device(DeviceId device, Time now) {
  now_ = now;
  derive_device(device, now);
  mark(fleet_.node_of(device));
}

void Ledger::derive_node(NodeId id) {
  NodePage& page = nodes_[id.index()];
  const Node& node = fleet_.node(id);
  NodeFace& face = page.face;
  face.present = fleet_.present(id);
  face.cpu_free = node.cpu.count() - page.cpu_booked;
  face.ram_free = node.ram.in_bytes() - page.ram_booked;
  face.slots_free = node.pod_slots - page.slots_booked;
  face.unbooked = page.slots_booked == 0;
  face.blocked = !face.present || !node.ready ? Cause::node_not_ready
                 : node.cordoned              ? Cause::node_cordoned
                                              : Cause::none;
}

Cause Ledger::blocked_cause(const Device& device, const DeviceBook& book, Time now) const {
  if (!device.total.has_value() || device.usable_mib() == 0) {
    return Cause::no_usable_memory;
  }
  if (device.mig_enabled) {
    return Cause::resource_kind_mismatch;
  }
  if (device.health != DeviceHealth::ok) {
    return Cause::device_unhealthy;
  }
  if (device.cordoned) {
    return Cause::device_cordoned;
  }
  if (book.observed && !book.used_known) {
    return Cause::no_usable_memory;
  }
  if (book.must_observe) {
    return Cause::stale_observation;
  }
  if (rules_.max_sample_age.has_value() &&
      (!book.observed || now - book.sampled_at > *rules_.max_sample_age)) {
    return Cause::stale_observation;
  }
  return Cause::none;
}

template <typename Gone>
DeviceFace Ledger::face_of(DeviceId id, const Gone& gone) const {
  const Device& device = fleet_.device(id);
  const DeviceBook& book = books_[id.index()];
  std::int64_t charged = book.charged;
  std::int64_t limits = book.limits;
  std::int64_t nano = book.nano;
  std::int64_t compute = book.compute;
  std::int64_t grants = 0;
  bool peer = false;
  DeviceFace face;
  for (const Holding& holding : book.holdings) {
    if (gone(holding)) {
      charged -= charge_of(holding);
      limits -= holding.limit;
      nano -= holding.nano;
      compute -= holding.compute;
      continue;
    }
    ++grants;
    peer = peer || (holding.foreign && holding.exclusive);
    // An adopted share may stand beside a whole grant; the device is still not to be shared.
    if (face.use != DeviceUse::whole) {
      face.use = holding.exclusive ? DeviceUse::whole : DeviceUse::shared;
    }
    face.closed = face.closed || (grants > 1 && holding.mode != face.mode) ||
                  (holding.promised && holding.mutex);
    face.mode = grants == 1 ? holding.mode : face.mode;  // the first one set it (L5)
  }
  const std::int64_t usable = book.usable;
  face.usable = usable;
  face.blocked = blocked_cause(device, book, now_);
  if (face.blocked == Cause::none && peer) {
    face.blocked = Cause::device_held_by_peer;
  }
  // Foreign use is below nothing where it is supposed that memory of grants comes free.
  face.headroom = std::max<std::int64_t>(0, std::min(usable, usable - book.foreign - charged));
  face.limit_room =
      std::max<std::int64_t>(0, limit_ceiling(usable, rules_.limit_overcommit_percent) - limits);
  face.nano_left = static_cast<std::int32_t>(std::max<std::int64_t>(0, kNano - nano));
  face.compute_left = static_cast<std::int16_t>(std::max<std::int64_t>(0, 1000 - compute));
  face.grants = static_cast<std::int16_t>(std::min<std::int64_t>(grants, 32767));
  face.idle = face.blocked == Cause::none && grants == 0 &&
              book.foreign <= whole_foreign_ceiling(rules_, device) && face.headroom > 0;
  if (face.blocked != Cause::none || face.use == DeviceUse::whole) {
    face.free_milli = 0;
  } else if (face.idle) {
    face.free_milli = 1000;
  } else {
    face.free_milli = static_cast<std::int16_t>(static_cast<Int128>(1000) * face.headroom /
                                                std::max<std::int64_t>(usable, 1));
  }
  return face;
}

void Ledger::derive_device(DeviceId id, Time now) {
  now_ = now;
  const Device& device = fleet_.device(id);
  DeviceBook& book = books_[id.index()];
  book.known = device.total.has_value();
  book.usable = device.usable().in_bytes();
  update_foreign(book);
  update_use(id);
}

void Ledger::update_use(DeviceId id) {
  const NodeFace& node = nodes_[fleet_.node_of(id).index()].face;
  DeviceFace& face = faces_[node.first + fleet_.place_of(id)];
  face = face_of(id, [](const Holding&) { return false; });
}

void Ledger::update_foreign(DeviceBook& book) const {
  if (!book.observed || !book.used_known) {
    book.foreign = 0;
    return;
  }
  if (book.attributed) {
    std::int64_t explained = 0;
    for (const Holding& holding : book.holdings) {
      explained = saturating_add(explained, holding.measured);
    }
    // Certain now; also the floor for device totals, should attribution fail later.
    book.foreign = book.floor = std::max<std::int64_t>(0, book.used - explained);
    return;
  }
  // A promise does not run yet: it explains nothing.
  std::int64_t claims = 0;
  bool any = false;
  for (const Holding& holding : book.holdings) {
    claims += holding.promised ? 0 : holding.request;
    any = any || !holding.promised;
  }
  if (!any) {
    book.floor = book.used;
  }
  book.floor = std::min(book.floor, book.used);
  book.foreign = book.floor + std::max<std::int64_t>(0, book.used - book.floor - claims);
}

void Ledger::resum(DeviceBook& book) const {
  book.requests = book.charged = book.limits = book.nano = book.compute = book.releasing = 0;
  for (const Holding& holding : book.holdings) {
    book.requests += holding.request;
    book.charged += charge_of(holding);
    book.limits += holding.limit;
    book.nano += holding.nano;
    book.compute += holding.compute;
    book.releasing += holding.releasing ? charge_of(holding) : 0;
  }
}

void Ledger::forget_samples(DeviceId id) {
  DeviceBook& book = books_[id.index()];
  samples_.erase({book.sampled_at, id});
  book.must_observe = book.must_observe || book.observed;
  book.observed = book.attributed = book.used_known = false;
  book.used = book.floor = book.foreign = 0;
  book.sampled_at = Time();
  for (Holding& holding : book.holdings) {
    holding.measured = 0;
  }
  resum(book);
}

SampleEffect Ledger::observe(DeviceId id, const Sample& sample, Time now) {
  now_ = now;
  DeviceBook& book = books_[id.index()];
  SampleEffect effect;
  effect.foreign_before = book.foreign;
  samples_.erase({book.sampled_at, id});
  book.observed = true;
  book.must_observe = false;
  book.sampled_at = sample.sampled_at;
  if (rules_.max_sample_age.has_value()) {
    samples_.insert({book.sampled_at, id});
  }
  book.used_known = sample.used.has_value();
  book.used = sample.used.value_or(0);
  book.attributed = sample.attributed;
  for (Holding& holding : book.holdings) {
    const bool was_over = holding.measured > holding.request;
    holding.measured = 0;
    for (const Sample::Use& use : sample.uses) {
      if (sample.attributed && !holding.promised && use.workload == holding.workload) {
        holding.measured = saturating_add(holding.measured, use.bytes);
      }
    }
    if (holding.measured > holding.request && !was_over) {
      effect.overuse.push_back({holding.workload, holding.measured - holding.request});
    }
  }
  resum(book);
  update_foreign(book);
  effect.foreign_after = book.foreign;
  update_use(id);
  mark(fleet_.node_of(id));
  return effect;
}

std::optional<Time> Ledger::age_samples(Time now) {
  now_ = now;
  if (!rules_.max_sample_age.has_value()) {
    return std::nullopt;
  }
  while (!samples_.empty() && samples_.begin()->first + *rules_.max_sample_age < now) {
    const DeviceId device = samples_.begin()->second;
    samples_.erase(samples_.begin());
    if (fleet_.present(device)) {
      update_use(device);
      mark(fleet_.node_of(device));
    }
  }
  if (samples_.empty()) {
    return std::nullopt;
  }
  return samples_.begin()->first + *rules_.max_sample_age + Duration(1);
}

Holding* Ledger::find(DeviceId device, WorkloadId workload) {
  for (Holding& holding : books_[device.index()].holdings) {
    if (holding.workload == workload) {
      return &holding;
    }
  }
  return nullptr;
}

void Ledger::book(WorkloadId workload, const Grant& grant) {
  NodePage& page = nodes_[grant.node.index()];
  ASSERT(page.face.present, grant.node.value());
  page.cpu_booked += grant.cpu.count();
  page.ram_booked += grant.ram.in_bytes();
  ++page.slots_booked;
  derive_node(grant.node);
  for (const DeviceCharge& charge : grant.charges) {
    DeviceBook& book = books_[charge.device.index()];
    ASSERT(fleet_.node_of(charge.device) == grant.node, charge.device.value());
    Holding holding;
    holding.workload = workload;
    holding.mode = charge.mode;
    holding.mutex = charge.mutex;
    holding.request =
        Memory::mib(grant.starting ? charge.starting_mib : charge.running_mib).in_bytes();
    holding.limit =
        Memory::mib(grant.starting ? charge.starting_limit_mib : charge.running_limit_mib)
            .in_bytes();
    holding.nano = grant.starting ? charge.starting_nano : charge.running_nano;
    holding.compute = charge.compute_milli;
    holding.exclusive = charge.exclusive;
    holding.adopted = grant.adopted;
    holding.foreign = grant.foreign;
    holding.promised = grant.state == GrantState::promised;
    holding.releasing = grant.state == GrantState::releasing;
    book.holdings.push_back(holding);
    resum(book);
    update_foreign(book);
    update_use(charge.device);
  }
  if (grant.state == GrantState::releasing) {
    page.cpu_releasing += grant.cpu.count();
    page.ram_releasing += grant.ram.in_bytes();
    ++page.releasing_grants;
  }
  mark(grant.node);
}

void Ledger::unbook(WorkloadId workload, const Grant& grant) {
  if (grant.state == GrantState::releasing) {
    set_releasing(workload, grant, false);
  }
  NodePage& page = nodes_[grant.node.index()];
  page.cpu_booked -= grant.cpu.count();
  page.ram_booked -= grant.ram.in_bytes();
  --page.slots_booked;
  ASSERT(page.cpu_booked >= 0 && page.ram_booked >= 0 && page.slots_booked >= 0, page.cpu_booked,
         page.ram_booked, page.slots_booked);
  derive_node(grant.node);
  for (const DeviceCharge& charge : grant.charges) {
    DeviceBook& book = books_[charge.device.index()];
    const auto gone = std::ranges::find(book.holdings, workload, &Holding::workload);
    ASSERT(gone != book.holdings.end(), workload.value(), charge.device.value());
    book.holdings.erase(gone);
    resum(book);
    update_foreign(book);
    if (fleet_.present(charge.device)) {
      update_use(charge.device);
    }
  }
  mark(grant.node);
}

void Ledger::shrink(WorkloadId workload, const Grant& grant) {
  ASSERT(grant.starting);
  for (const DeviceCharge& charge : grant.charges) {
    Holding* holding = find(charge.device, workload);
    ASSERT(holding != nullptr, workload.value(), charge.device.value());
    holding->request = Memory::mib(charge.running_mib).in_bytes();
    holding->limit = Memory::mib(charge.running_limit_mib).in_bytes();
    holding->nano = charge.running_nano;
    DeviceBook& book = books_[charge.device.index()];
    resum(book);
    update_foreign(book);
    update_use(charge.device);
  }
  mark(grant.node);
}

void Ledger::set_releasing(WorkloadId workload, const Grant& grant, bool releasing) {
  NodePage& page = nodes_[grant.node.index()];
  const std::int64_t sign = releasing ? 1 : -1;
  page.cpu_releasing += sign * grant.cpu.count();
  page.ram_releasing += sign * grant.ram.in_bytes();
  page.releasing_grants += sign;
  for (const DeviceCharge& charge : grant.charges) {
    Holding* holding = find(charge.device, workload);
    ASSERT(holding != nullptr, workload.value(), charge.device.value());
    holding->releasing = releasing;
    resum(books_[charge.device.index()]);
  }
  mark(grant.node);
}

void Ledger::keep_promise(WorkloadId workload, const Grant& grant) {
  for (const DeviceCharge& charge : grant.charges) {
    Holding* holding = find(charge.device, workload);
    ASSERT(holding != nullptr, workload.value(), charge.device.value());
    holding->promised = false;
    update_foreign(books_[charge.device.index()]);
    update_use(charge.device);
  }
  mark(grant.node);
}

DeviceFace Ledger::face_without(DeviceId id, const HoldingRule& gone) const {
  return face_of(id, gone);
}

DeviceFace Ledger::future_face(DeviceId id) const {
  return face_of(id, [](const Holding& holding) { return holding.releasing; });
}

NodeFuture Ledger::future(NodeId id) const {
  const NodePage& page = nodes_[id.index()];
  return {.cpu = page.face.cpu_free + page.cpu_releasing,
          .ram = page.face.ram_free + page.ram_releasing,
          .slots = page.face.slots_free + page.releasing_grants};
}

Transaction::~Transaction() {
  for (const Entry& entry : booked_ | std::views::reverse) {
    ledger_.unbook(entry.workload, *entry.grant);
  }
}

void Transaction::book(WorkloadId workload, const Grant& grant) {
  ledger_.book(workload, grant);
  booked_.push_back({workload, &grant});
}

}  // namespace berth::core
