#include "core/placement/container_search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "core/placement/link_sets.h"
#include "core/placement/pick_places.h"

namespace berth::core {

namespace {

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    // kNoCost means "none" to the index.
    return b < 0 ? std::numeric_limits<std::int64_t>::min() / 2 : kNoCost / 2;
  }
  return sum;
}

constexpr std::int64_t kSearchBudget = 20'000;  // device visits per task and node

// What devices that are not joined add to the cost of an ask that prefers joined ones: more than
// policies tell nodes apart by, so that a node with a link set comes first.
constexpr std::int64_t kNotJoined = kNoCost / 2 - 1;

// Loads of one device by the task's own containers, as far as placed.
struct PhaseSums {
  std::int64_t apps = 0;
  std::int64_t peak = 0;  // of apps + sidecars and of every init phase
};

// One container of the task as the search sees it.
struct Item {
  std::size_t ask = 0;  // index into Shape::gpu_containers
  ContainerKind kind = ContainerKind::app;
  std::uint32_t container = 0;
};

// Whether two containers of one task run at the same time. An init container runs alone but for the
// sidecars started before it.
bool run_together(const Item& a, const Item& b) {
  if (a.kind != ContainerKind::init && b.kind != ContainerKind::init) {
    return true;
  }
  const Item& init = a.kind == ContainerKind::init ? a : b;
  const Item& other = a.kind == ContainerKind::init ? b : a;
  return other.kind == ContainerKind::sidecar && other.container < init.container;
}

// The largest sum over the phases of a task on one device of what `amount(item)` gives.
template <typename Amount>
std::int64_t phase_peak(const std::vector<Item>& items, const Amount& amount) {
  std::int64_t together = 0;
  for (const Item& item : items) {
    together += item.kind == ContainerKind::init ? 0 : amount(item);
  }
  std::int64_t peak = together;
  for (const Item& init : items) {
    if (init.kind != ContainerKind::init) {
      continue;
    }
    std::int64_t phase = amount(init);
    for (const Item& earlier : items) {
      const bool runs_beside =
          earlier.kind == ContainerKind::sidecar && earlier.container < init.container;
      phase += runs_beside ? amount(earlier) : 0;
    }
    peak = std::max(peak, phase);
  }
  return peak;
}

class TaskSearcher {
 public:
  TaskSearcher(const Policy* policy, const TaskInput& input)
      : policy_(policy), input_(input), held_(input.on.devices.size()) {
    for (std::size_t i = 0; i < input.shape.gpu_containers.size(); ++i) {
      const std::uint32_t container = input.shape.gpu_containers[i];
      order_.push_back({.ask = i,
                        .kind = input.shape.request.containers()[container].kind,
                        .container = container});
    }
    std::ranges::stable_sort(order_,
                             [&](const Item& a, const Item& b) { return rank(a) < rank(b); });
    result_.containers.resize(order_.size());
  }

  TaskSearch run() {
    if (!place(0)) {
      result_.containers.clear();
      if (result_.cause == Cause::none) {
        result_.cause = Cause::insufficient_devices;
      }
      if (steps_ >= kSearchBudget) {
        result_.cause = Cause::search_budget;
      }
      return std::move(result_);
    }
    result_.cause = Cause::none;
    return std::move(result_);
  }

 private:
  // Exclusive asks first, then apps and sidecars by size, inits last: they go where the others are.
  std::int64_t rank(const Item& item) const {
    const DeviceAsk& ask = input_.shape.ask(item.ask);
    if (item.kind == ContainerKind::init) {
      return 2;
    }
    return ask.is_exclusive() ? -1'000'000 - ask.count : -size_of(item);
  }
  std::int64_t size_of(const Item& item) const {
    std::int64_t most = 0;
    for (const DeviceNeed& need : input_.fit.asks[item.ask].needs) {
      most = std::max<std::int64_t>(most, need.milli);
    }
    return most;
  }

  const DeviceNeed& need(const Item& item, std::size_t place) const {
    return input_.fit.asks[item.ask].needs[place];
  }

  // What the device would have to hold of these shares. Requires at least one.
  DeviceNeed combined(const std::vector<Item>& items, std::size_t place) const {
    DeviceNeed sum = need(items.back(), place);
    sum.request = phase_peak(items, [&](const Item& i) { return need(i, place).request; });
    sum.limit = phase_peak(items, [&](const Item& i) { return need(i, place).limit; });
    sum.nano = static_cast<std::int32_t>(std::min<std::int64_t>(
        phase_peak(items, [&](const Item& i) { return need(i, place).nano; }), 2'000'000'000));
    std::int64_t compute = 0;
    for (const Item& i : items) {
      compute += need(i, place).compute;
    }
    sum.compute = static_cast<std::int16_t>(std::min<std::int64_t>(compute, 30'000));
    return sum;
  }

  Cause refusal(const Item& item, std::size_t place) const {
    const AskFit& fit = input_.fit.asks[item.ask];
    if ((fit.eligible >> place & 1U) == 0) {
      return fit.cause;
    }
    if ((input_.allowed >> place & 1U) == 0) {
      return Cause::reserved_for_other;
    }
    // L1 wants one owner per whole device, and the owner is the task: its init container may use
    // the device that a later phase of it has for itself alone, and the other way round. What runs
    // at the same time never shares a whole device.
    Cause cause = Cause::none;
    std::vector<Item> shares;
    const auto sort_in = [&](const Item& one) {
      if (need(one, place).exclusive) {
        cause = more_advanced(cause, device_refusal(need(one, place), input_.on.devices[place]));
      } else {
        shares.push_back(one);
      }
    };
    for (const Item& other : held_[place]) {
      const DeviceNeed& theirs = need(other, place);
      const bool whole = theirs.exclusive || need(item, place).exclusive;
      if (whole && run_together(item, other)) {
        return Cause::device_exclusive;
      }
      if (!whole && theirs.mode != need(item, place).mode) {
        return Cause::compute_mode_conflict;
      }
      sort_in(other);
    }
    sort_in(item);
    return cause != Cause::none || shares.empty()
               ? cause
               : device_refusal(combined(shares, place), input_.on.devices[place]);
  }

  // Device places for the item, best first: those the task uses already for init containers, then
  // by the policy's cost.
  std::vector<std::size_t> ranked_places(const Item& item) {
    struct Ranked {
      bool fresh;
      std::int64_t within;
      std::int64_t cost;
      std::size_t place;
    };
    std::vector<Ranked> ranked;
    for (std::size_t place = 0; place < held_.size(); ++place) {
      ++steps_;
      const Cause cause = refusal(item, place);
      if (cause != Cause::none) {
        result_.cause = more_advanced(result_.cause, cause);
        continue;
      }
      const bool fresh = item.kind != ContainerKind::init || held_[place].empty();
      const Candidate candidate = candidate_of(item, place);
      ranked.push_back({fresh, candidate.within, candidate.base, place});
    }
    std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
      return std::tie(a.fresh, a.within, a.cost, a.place) <
             std::tie(b.fresh, b.within, b.cost, b.place);
    });
    std::vector<std::size_t> places;
    for (const Ranked& entry : ranked) {
      places.push_back(entry.place);
    }
    return places;
  }

  Candidate candidate_of(const Item& item, std::size_t place) const {
    if (policy_ == nullptr) {
      Candidate any;
      any.base = 0;
      return any;
    }
    std::vector<DeviceFace> faces(input_.on.devices.begin(), input_.on.devices.end());
    for (std::size_t i = 0; i < faces.size(); ++i) {
      for (const Item& other : held_[i]) {
        load(faces[i], need(other, i));
      }
    }
    NodeInput on{.id = input_.on.id,
                 .node = input_.on.node,
                 .face = input_.on.face,
                 .devices = faces,
                 .ids = input_.on.ids,
                 .ledger = input_.on.ledger,
                 .uuid_ranks = input_.on.uuid_ranks};
    DeviceAsk one = input_.shape.ask(item.ask);
    one.count = 1;
    const NodeValue value = policy_->value_of(on);
    const PlaceInput input{.on = on,
                           .value = value,
                           .shape = input_.shape,
                           .ask = &one,
                           .fit = &input_.fit.asks[item.ask],
                           .fits = std::uint64_t{1} << place,
                           .cpu = input_.shape.cpu,
                           .ram = input_.shape.ram};
    return policy_->evaluate(input).at[0];
  }

  static void load(DeviceFace& face, const DeviceNeed& need) {
    face.headroom = std::max<std::int64_t>(0, face.headroom - need.request);
    face.free_milli = static_cast<std::int16_t>(
        std::max(0, face.free_milli - std::min<int>(need.milli, face.free_milli)));
    face.use = need.exclusive ? DeviceUse::whole : DeviceUse::shared;
    face.mode = need.mode;
    face.idle = false;
    ++face.grants;
  }

  bool place(std::size_t index) {
    if (index == order_.size()) {
      return true;
    }
    const Item& item = order_[index];
    const DeviceAsk& ask = input_.shape.ask(item.ask);
    if (ask.links != LinkRule::none && ask.count > 1) {
      return place_linked(index);
    }
    return choose(index, ranked_places(item), 0, ask.count);
  }

  // The sets of places that the link rule allows, best first, until the rest fits too.
  bool place_linked(std::size_t index) {
    const Item item = order_[index];
    const DeviceAsk& ask = input_.shape.ask(item.ask);
    const LinkGraph& graph = *input_.fit.links;
    std::uint64_t fits = 0;
    std::vector<int> numa;
    for (std::size_t place = 0; place < held_.size(); ++place) {
      ++steps_;
      const Cause cause = refusal(item, place);
      fits |= cause == Cause::none ? std::uint64_t{1} << place : 0;
      result_.cause = more_advanced(result_.cause, cause);
    }
    if (std::popcount(fits) < ask.count) {
      if (order_.size() == 1 && input_.fit.asks[item.ask].eligible != 0) {
        result_.cause = Cause::insufficient_devices;  // as places_for() says it
      }
      return false;
    }
    for (const Device& device : input_.on.node.devices) {
      numa.push_back(device.numa);
    }
    const LinkChoices choices = link_choices(
        graph, {.fits = fits,
                .count = ask.count,
                .required = ask.links == LinkRule::required,
                .numa = ask.numa_bind ? std::span<const int>(numa) : std::span<const int>(),
                .faces = input_.on.devices,
                .needs = input_.fit.asks[item.ask].needs,
                .one_suffices = order_.size() == 1});
    if (choices.sets.empty()) {
      result_.cause = more_advanced(
          result_.cause, ask.links == LinkRule::required ? Cause::no_link_set : Cause::numa_unfit);
    }
    for (const std::uint64_t set : choices.sets) {
      if (take_set(index, set, graph)) {
        return true;
      }
    }
    steps_ = choices.complete ? steps_ : kSearchBudget;
    return false;
  }

  bool take_set(std::size_t index, std::uint64_t set, const LinkGraph& graph) {
    const Item item = order_[index];
    ContainerPlaces& chosen = result_.containers[item.ask];
    chosen.container = item.container;
    const TaskSearch before = score_so_far();
    for_each_place(set, [&](std::size_t place) { take(index, place, chosen); });
    chosen.linked = graph.is_joined(set);
    if (!chosen.linked) {
      result_.base = saturating_add(result_.base, kNotJoined);
    }
    if (++steps_ < kSearchBudget && this->place(index + 1)) {
      return true;
    }
    for_each_place(set, [&](std::size_t place) { held_[place].pop_back(); });
    chosen.places.count = 0;
    chosen.linked = true;
    put_back(before);
    return false;
  }

  // Cost of what is placed so far.
  TaskSearch score_so_far() const {
    return {.cause = Cause::none,
            .containers = {},
            .base = result_.base,
            .lost = result_.lost,
            .opens_idle = result_.opens_idle};
  }
  void put_back(const TaskSearch& before) {
    result_.base = before.base;
    result_.lost = before.lost;
    result_.opens_idle = before.opens_idle;
  }

  void take(std::size_t index, std::size_t place, ContainerPlaces& chosen) {
    const Candidate candidate = candidate_of(order_[index], place);
    if (policy_ == nullptr || policy_->adds_up() || (index == 0 && chosen.places.count == 0)) {
      result_.base = saturating_add(result_.base, candidate.base);
    }
    result_.lost |= candidate.lost;
    result_.opens_idle = result_.opens_idle || input_.on.devices[place].idle;
    chosen.places.add(place);
    held_[place].push_back(order_[index]);
  }

  // Takes `missing` more places for the item, from ranked[from…] on.
  bool choose(std::size_t index, const std::vector<std::size_t>& ranked, std::size_t from,
              int missing) {
    if (missing == 0) {
      return place(index + 1);
    }
    const Item item = order_[index];
    ContainerPlaces& chosen = result_.containers[item.ask];
    chosen.container = item.container;
    for (std::size_t i = from; i < ranked.size(); ++i) {
      if (++steps_ >= kSearchBudget) {
        return false;
      }
      if (!numa_agrees(item, ranked[i], chosen)) {
        result_.cause = more_advanced(result_.cause, Cause::numa_unfit);
        continue;
      }
      const TaskSearch before = score_so_far();
      take(index, ranked[i], chosen);
      if (choose(index, ranked, i + 1, missing - 1)) {
        return true;
      }
      held_[ranked[i]].pop_back();
      --chosen.places.count;
      put_back(before);
    }
    return false;
  }

  bool numa_agrees(const Item& item, std::size_t place, const ContainerPlaces& chosen) const {
    if (!input_.shape.ask(item.ask).numa_bind || chosen.places.count == 0) {
      return true;
    }
    const std::vector<Device>& devices = input_.on.node.devices;
    return devices[chosen.places.at[0]].numa == devices[place].numa;
  }

  const Policy* policy_;
  const TaskInput& input_;
  std::vector<Item> order_;
  std::vector<std::vector<Item>> held_;  // by device place
  TaskSearch result_;
  std::int64_t steps_ = 0;
};

}  // namespace

TaskSearch search_task(const Policy* policy, const TaskInput& input) {
  return TaskSearcher(policy, input).run();
}

std::vector<DeviceCharge> charges_for(const Shape& shape, const StaticFit& fit,
                                      std::span<const DeviceFace> devices,
                                      std::span<const DeviceId> ids,
                                      const std::vector<ContainerPlaces>& containers) {
  std::vector<std::vector<Item>> items(devices.size());
  for (std::size_t i = 0; i < containers.size(); ++i) {
    for (int n = 0; n < containers[i].places.count; ++n) {
      items[containers[i].places.at[static_cast<std::size_t>(n)]].push_back(
          {.ask = i,
           .kind = shape.request.containers()[containers[i].container].kind,
           .container = containers[i].container});
    }
  }
  std::vector<DeviceCharge> charges;
  for (std::size_t place = 0; place < items.size(); ++place) {
    const std::vector<Item>& here = items[place];
    if (here.empty()) {
      continue;
    }
    const auto need = [&](const Item& item) -> const DeviceNeed& {
      return fit.asks[item.ask].needs[place];
    };
    const auto sum = [&](auto&& amount) {
      return std::accumulate(here.begin(), here.end(), std::int64_t{0},
                             [&](std::int64_t total, const Item& item) {
                               return total + (item.kind == ContainerKind::init ? 0 : amount(item));
                             });
    };
    const auto request = [&](const Item& i) {
      return Memory::bytes(need(i).exclusive ? devices[place].headroom : need(i).request)
          .floor_mib();
    };
    const auto limit = [&](const Item& i) {
      return need(i).exclusive ? request(i) : Memory::bytes(need(i).limit).floor_mib();
    };
    const auto nano = [&](const Item& i) { return static_cast<std::int64_t>(need(i).nano); };
    DeviceCharge charge;
    charge.device = ids[place];
    charge.starting_mib = phase_peak(here, request);
    charge.running_mib = sum(request);
    charge.starting_limit_mib = phase_peak(here, limit);
    charge.running_limit_mib = sum(limit);
    charge.starting_nano = phase_peak(here, nano);
    charge.running_nano = sum(nano);
    for (const Item& item : here) {
      charge.compute_milli += need(item).compute;
      charge.exclusive = charge.exclusive || need(item).exclusive;
      charge.mutex = charge.mutex || need(item).mutex;
      charge.mode = need(item).mode;
    }
    charges.push_back(charge);
  }
  std::ranges::sort(charges, {}, [](const DeviceCharge& c) { return c.device; });
  return charges;
}

}  // namespace berth::core
