#include "core/placement/vgd.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/wide.h"
#include "core/placement/wide_arithmetic.h"

namespace berth::core {

namespace {

// Constants of placement.md 5.6 in p.
constexpr std::int64_t kTiePerLeftoverMilli = 20'000'000;   // 0.02 / 1000
constexpr std::int64_t kTiePerSpareMilliWhole = 2'500'000;  // 0.02 / 8000
constexpr std::int64_t kTiePerSpareMilliShare = 250'000;    // 0.002 / 8000
constexpr std::int64_t kGrain = 1000;                       // 1e-9
constexpr std::int64_t kTypeWeight = 2;
constexpr std::size_t kMaxClassesWithBit = 64;

bool accepts(const std::vector<std::string>& models, const std::string& model) {
  return models.empty() || std::ranges::binary_search(models, model);
}

std::int64_t memory_mib(std::int64_t bytes) { return Memory::bytes(bytes).floor_mib(); }

template <typename F>
void for_each_bit(std::uint64_t mask, F&& visit) {
  while (mask != 0) {
    visit(static_cast<std::size_t>(std::countr_zero(mask)));
    mask &= mask - 1;
  }
}

}  // namespace

ValueGradientPolicy::ValueGradientPolicy(const ClassCounts& history)
    : values_(history), pressures_(history), asked_milli_(history.gpu_milli()) {
  grain_ = kGrain;
  packs_ = true;
  const std::vector<WorkClass> classes = history.classes();
  add_gangs(classes);
  add_picky(classes);
}

void ValueGradientPolicy::add_gangs(const std::vector<WorkClass>& classes) {
  for (const WorkClass& work : classes) {
    if (work.num_gpu < 2) {
      continue;
    }
    Gang gang{.devices = work.num_gpu,
              .cpu = work.cpu_milli,
              .memory_mib = work.memory_mib,
              .models = work.models,
              .pods = work.count};
    const auto same = std::ranges::find_if(gangs_, [&](const Gang& known) {
      return known.devices == gang.devices && known.cpu == gang.cpu &&
             known.memory_mib == gang.memory_mib && known.models == gang.models;
    });
    if (same != gangs_.end()) {
      same->pods += gang.pods;
    } else {
      gangs_.push_back(std::move(gang));
    }
  }
  // A mask has 64 bits: of more classes those that ask for the most devices are kept.
  if (gangs_.size() > kMaxClassesWithBit) {
    std::ranges::stable_sort(gangs_, [](const Gang& a, const Gang& b) {
      return a.devices * a.pods > b.devices * b.pods;
    });
    gangs_.resize(kMaxClassesWithBit);
  }
  for (const Gang& gang : gangs_) {
    most_gang_cpu_ = std::max(most_gang_cpu_, gang.cpu);
    most_gang_memory_ = std::max(most_gang_memory_, gang.memory_mib);
  }
}

void ValueGradientPolicy::add_picky(const std::vector<WorkClass>& classes) {
  for (const WorkClass& work : classes) {
    // Lists are kept as written: one that repeats a model is a set of its own, as in the reference.
    const std::vector<std::string>& models = work.models;
    if (models.empty() || work.is_cpu_only()) {
      continue;
    }
    const auto same = std::ranges::find(picky_, models, &Picky::models);
    if (same != picky_.end()) {
      same->asked_milli += work.gpu_milli_of_all();
    } else {
      picky_.push_back({.models = models, .asked_milli = work.gpu_milli_of_all()});
    }
  }
  if (picky_.size() > kMaxClassesWithBit) {
    std::ranges::stable_sort(
        picky_, [](const Picky& a, const Picky& b) { return a.asked_milli > b.asked_milli; });
    picky_.resize(kMaxClassesWithBit);
  }
}

std::uint16_t ValueGradientPolicy::domain_of(const Node& node) const {
  static const std::string kNoModel;
  const std::string& model = node.devices.empty() ? kNoModel : node.devices.front().model;
  for (std::size_t i = 0; i < domains_.size(); ++i) {
    if (domains_[i].model == model) {
      return static_cast<std::uint16_t>(i);
    }
  }
  Domain domain;
  domain.model = model;
  domain.usable_mib = node.devices.empty() ? 0 : node.devices.front().usable_mib();
  for (std::size_t i = 0; i < picky_.size(); ++i) {
    domain.picky |= std::uint64_t{accepts(picky_[i].models, model)} << i;
  }
  for (std::size_t i = 0; i < gangs_.size(); ++i) {
    domain.gangs |= std::uint64_t{accepts(gangs_[i].models, model)} << i;
  }
  domains_.push_back(std::move(domain));
  return static_cast<std::uint16_t>(domains_.size() - 1);
}

std::uint64_t ValueGradientPolicy::still_hosts(std::uint64_t hosts, const State& state) const {
  std::uint64_t able = hosts;
  for_each_bit(hosts, [&](std::size_t j) {
    const Gang& gang = gangs_[j];
    if (state.idle < gang.devices || state.cpu < gang.cpu || state.memory_mib < gang.memory_mib) {
      able &= ~(std::uint64_t{1} << j);
    }
  });
  return able;
}

NodeValue ValueGradientPolicy::value_of(const NodeInput& node) const {
  NodeValue value;
  value.domain = domain_of(node.node);
  if (node.face.blocked != Cause::none) {
    return value;
  }
  for (const DeviceFace& device : node.devices) {
    value.value += values_.at(device.free_milli);
    value.spare += device.free_milli;
    value.idle += device.idle ? 1 : 0;
  }
  const State state{
      .cpu = node.face.cpu_free, .memory_mib = memory_mib(node.face.ram_free), .idle = value.idle};
  value.pressure = pressures_.pressure(
      {.value = value.value, .cpu_milli = state.cpu, .memory_mib = state.memory_mib});
  value.hosts = still_hosts(domains_[value.domain].gangs, state);
  return value;
}

void ValueGradientPolicy::replace(const NodeValue& before, const NodeValue& after) {
  free_milli_ += after.spare - before.spare;
  domains_[before.domain].free_milli -= before.spare;
  domains_[after.domain].free_milli += after.spare;
  for_each_bit(before.hosts & ~after.hosts, [&](std::size_t j) { --gangs_[j].able_nodes; });
  for_each_bit(after.hosts & ~before.hosts, [&](std::size_t j) { ++gangs_[j].able_nodes; });
}

Candidate ValueGradientPolicy::finish(const PlaceInput& input, std::int64_t loss, std::int64_t tie,
                                      std::int64_t idle_after) const {
  const State after{.cpu = input.on.face.cpu_free - input.cpu,
                    .memory_mib = memory_mib(input.on.face.ram_free - input.ram),
                    .idle = idle_after};
  const std::int64_t left = std::max<std::int64_t>(input.value.value - loss, 0);
  const std::int64_t pressure =
      pressures_.pressure({.value = left, .cpu_milli = after.cpu, .memory_mib = after.memory_mib});
  Candidate candidate;
  candidate.base = pressure - input.value.pressure + tie;
  candidate.lost = input.value.hosts & ~still_hosts(input.value.hosts, after);
  return candidate;
}

Candidate ValueGradientPolicy::whole_candidate(const PlaceInput& input) const {
  const std::int64_t k = input.ask->count;
  Candidate candidate =
      finish(input, k * kOneInP, kTiePerSpareMilliWhole * input.value.spare, input.value.idle - k);
  candidate.opens_idle = true;
  return candidate;
}

int ValueGradientPolicy::best_used_place(const PlaceInput& input) const {
  int best = -1;
  std::int64_t best_cost = kNoCost;
  for_each_bit(input.fits, [&](std::size_t place) {
    const DeviceFace& device = input.on.devices[place];
    if (device.idle) {
      return;
    }
    const int after = std::max(0, device.free_milli - input.fit->needs[place].milli);
    const std::int64_t cost =
        values_.at(device.free_milli) - values_.at(after) + kTiePerLeftoverMilli * after;
    if (cost < best_cost) {
      best_cost = cost;
      best = static_cast<int>(place);
    }
  });
  return best;
}

// Asks for a share of several devices: the ones that lose least, idle ones included.
Places ValueGradientPolicy::cheapest_places(const PlaceInput& input) const {
  struct Ranked {
    std::int64_t cost;
    std::size_t place;
  };

  std::vector<Ranked> ranked;
  for_each_bit(input.fits, [&](std::size_t place) {
    const DeviceFace& device = input.on.devices[place];
    const int after = std::max(0, device.free_milli - input.fit->needs[place].milli);
    ranked.push_back(
        {values_.at(device.free_milli) - values_.at(after) + kTiePerLeftoverMilli * after, place});
  });
  std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.place < b.place;
  });
  Places places;
  for (std::size_t i = 0; i < static_cast<std::size_t>(input.ask->count); ++i) {
    places.add(ranked[i].place);
  }
  std::sort(places.at.begin(), places.at.begin() + places.count);
  return places;
}

Candidates ValueGradientPolicy::evaluate(const PlaceInput& input) const {
  Candidates candidates;
  if (input.ask == nullptr) {
    candidates.add(finish(input, 0, 0, input.value.idle));
    return candidates;
  }
  if (input.ask->is_exclusive()) {
    candidates.add(whole_candidate(input));
    return candidates;
  }
  const auto share = [&](std::int64_t loss, std::int64_t left_over, std::int64_t opened) {
    Candidate candidate =
        finish(input, loss,
               loss + kTiePerLeftoverMilli * left_over + kTiePerSpareMilliShare * input.value.spare,
               input.value.idle - opened);
    candidate.opens_idle = opened > 0;
    return candidate;
  };
  const auto effect = [&](std::size_t place, std::int64_t& loss, std::int64_t& left_over) {
    const DeviceFace& device = input.on.devices[place];
    const int after = std::max(0, device.free_milli - input.fit->needs[place].milli);
    loss += values_.at(device.free_milli) - values_.at(after);
    left_over += after;
  };
  if (input.ask->count > 1) {
    const Places places = cheapest_places(input);
    std::int64_t loss = 0;
    std::int64_t left_over = 0;
    std::int64_t opened = 0;
    for (int i = 0; i < places.count; ++i) {
      const std::size_t place = places.at[static_cast<std::size_t>(i)];
      effect(place, loss, left_over);
      opened += input.on.devices[place].idle ? 1 : 0;
    }
    candidates.add(share(loss, left_over, opened));
    return candidates;
  }
  if (const int used = best_used_place(input); used >= 0) {
    std::int64_t loss = 0;
    std::int64_t left_over = 0;
    effect(static_cast<std::size_t>(used), loss, left_over);
    candidates.add(share(loss, left_over, 0));
  }
  std::uint64_t idle = 0;
  for_each_bit(input.fits, [&](std::size_t place) {
    idle |= std::uint64_t{input.on.devices[place].idle} << place;
  });
  if (idle != 0) {
    std::int64_t loss = 0;
    std::int64_t left_over = 0;
    effect(static_cast<std::size_t>(std::countr_zero(idle)), loss, left_over);
    const Candidate opened = share(loss, left_over, 1);
    // It loses no fewer hosts than the used device does, so dearer means never chosen.
    if (candidates.count == 0 || opened.base < candidates.at[0].base) {
      candidates.add(opened);
    }
  }
  return candidates;
}

// w_j of 5.3: what taking one host of the class away costs now.
std::int64_t ValueGradientPolicy::charge_for(const Gang& gang) const {
  const Int128 wanted = static_cast<Int128>(kOneInP) * gang.pods * free_milli_;
  const Int128 able =
      static_cast<Int128>(asked_milli_) * std::max<std::int64_t>(gang.able_nodes, 1);
  const Int128 share = able == 0 ? kOneInP : wanted / able;
  return gang.devices * static_cast<std::int64_t>(std::min<Int128>(share, kOneInP));
}

std::vector<std::int64_t> ValueGradientPolicy::picky_squares() const {
  std::vector<std::int64_t> squares(picky_.size(), 0);
  for (std::size_t i = 0; i < picky_.size(); ++i) {
    std::int64_t free = 0;
    for (const Domain& domain : domains_) {
      free += (domain.picky >> i & 1U) != 0 ? domain.free_milli : 0;
    }
    const Int128 divisor = static_cast<Int128>(asked_milli_) * free;
    if (divisor <= 0) {
      continue;
    }
    const Int128 ratio =
        static_cast<Int128>(kOneInP) * picky_[i].asked_milli * free_milli_ / divisor;
    const auto z = static_cast<std::int64_t>(std::min<Int128>(ratio, kOneInP));
    squares[i] = static_cast<std::int64_t>(static_cast<Int128>(z) * z / kOneInP);
  }
  return squares;
}

std::int64_t ValueGradientPolicy::type_charge(const Shape& shape, const Domain& domain,
                                              std::span<const std::int64_t> squares) const {
  const DeviceAsk& ask = shape.ask(0);
  std::vector<std::string> own = ask.filter.models;
  std::ranges::sort(own);
  std::int64_t sum = 0;
  for_each_bit(domain.picky, [&](std::size_t i) {
    const bool mine = !own.empty() && std::ranges::includes(picky_[i].models, own);
    sum += mine ? 0 : squares[i];
  });
  const std::int64_t milli = need_on(ask, domain.usable_mib, 1, 0).milli;
  return kTypeWeight * ask.count * milli * sum / 1000;
}

void ValueGradientPolicy::offsets(const Shape& shape, std::span<const GroupKey> groups,
                                  std::span<std::int64_t> out) const {
  const bool charged = shape.wants_gpu() && !picky_.empty();
  const std::vector<std::int64_t> squares = charged ? picky_squares() : std::vector<std::int64_t>();
  std::array<std::int64_t, kMaxClassesWithBit> charges;
  std::uint64_t charged_classes = 0;
  std::int64_t type = 0;
  std::uint16_t type_domain = 0;
  bool type_known = false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (charged && (!type_known || type_domain != groups[i].domain)) {
      type = type_charge(shape, domains_[groups[i].domain], squares);
      type_domain = groups[i].domain;
      type_known = true;
    }
    out[i] = type;
    for_each_bit(groups[i].lost & ~charged_classes,
                 [&](std::size_t j) { charges[j] = charge_for(gangs_[j]); });
    charged_classes |= groups[i].lost;
    for_each_bit(groups[i].lost, [&](std::size_t j) { out[i] += charges[j]; });
  }
}

Places ValueGradientPolicy::choose(const PlaceInput& input, int which) const {
  Places places;
  if (input.ask == nullptr) {
    return places;
  }
  if (!input.ask->is_exclusive() && input.ask->count > 1) {
    return cheapest_places(input);
  }
  const Candidates candidates = evaluate(input);
  if (!candidates.at[static_cast<std::size_t>(which)].opens_idle) {
    places.add(static_cast<std::size_t>(best_used_place(input)));
    return places;
  }
  for_each_bit(input.fits, [&](std::size_t place) {
    if (places.count < input.ask->count && input.on.devices[place].idle) {
      places.add(place);
    }
  });
  return places;
}

}  // namespace berth::core
