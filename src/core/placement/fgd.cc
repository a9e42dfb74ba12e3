#include "core/placement/fgd.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/placement/pick_places.h"

namespace berth::core {

namespace {

constexpr int kWhole = 1000;

std::int64_t pods_of(const std::vector<WorkClass>& classes) {
  return std::accumulate(classes.begin(), classes.end(), std::int64_t{0},
                         [](std::int64_t sum, const WorkClass& work) { return sum + work.count; });
}

}  // namespace

FragmentationPolicy::FragmentationPolicy(const ClassCounts& history)
    : typical_(typical_classes(history)), pods_(pods_of(typical_)), score_(pods_) {
  std::erase_if(typical_, [](const WorkClass& work) { return work.is_cpu_only(); });
  add_columns(typical_);
  suffix_.resize(columns_.size() + 1);
}

void FragmentationPolicy::add_columns(const std::vector<WorkClass>& typical) {
  for (const WorkClass& work : typical) {
    columns_.push_back({.size = work.gpu_milli, .count = work.num_gpu});
  }
  std::ranges::sort(columns_, [](const Column& a, const Column& b) {
    return std::tie(a.size, a.count) < std::tie(b.size, b.count);
  });
  const auto repeated = std::ranges::unique(columns_);
  columns_.erase(repeated.begin(), repeated.end());
  std::size_t column = 0;
  for (int milli = 0; milli <= kWhole; ++milli) {
    while (column < columns_.size() && columns_[column].size <= milli) {
      ++column;
    }
    served_[static_cast<std::size_t>(milli)] = static_cast<std::uint16_t>(column);
  }
}

std::uint16_t FragmentationPolicy::domain_of(const Node& node) const {
  static const std::string kNoModel;
  const std::string& model = node.devices.empty() ? kNoModel : node.devices.front().model;
  const auto known = std::ranges::find(domains_, model, &Domain::model);
  if (known == domains_.end()) {
    domains_.push_back({.model = model, .cpu = {}, .weights = {}});
    fill(domains_.back());
    return static_cast<std::uint16_t>(domains_.size() - 1);
  }
  return static_cast<std::uint16_t>(known - domains_.begin());
}

void FragmentationPolicy::fill(Domain& domain) const {
  std::vector<const WorkClass*> accepted;
  for (const WorkClass& work : typical_) {
    if (work.models.empty() || std::ranges::binary_search(work.models, domain.model)) {
      accepted.push_back(&work);
    }
  }
  std::ranges::sort(accepted, {}, [](const WorkClass* work) { return work->cpu_milli; });
  domain.weights.assign(columns_.size(), 0);
  for (const WorkClass* work : accepted) {
    if (domain.cpu.empty() || domain.cpu.back() != work->cpu_milli) {
      domain.cpu.push_back(work->cpu_milli);
      const std::vector<std::int64_t> last(
          domain.weights.end() - static_cast<std::ptrdiff_t>(columns_.size()),
          domain.weights.end());
      domain.weights.insert(domain.weights.end(), last.begin(), last.end());
    }
    const Column column{.size = work->gpu_milli, .count = work->num_gpu};
    const auto at =
        static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
    domain.weights[domain.cpu.size() * columns_.size() + at] += work->count;
  }
}

const std::int64_t* FragmentationPolicy::weights_at(std::uint16_t domain, std::int64_t cpu) const {
  const Domain& known = domains_[domain];
  const auto step =
      static_cast<std::size_t>(std::ranges::upper_bound(known.cpu, cpu) - known.cpu.begin());
  return known.weights.data() + step * columns_.size();
}

// N times what of the leftovers is usable, summed over the classes: a class that finds its number
// of devices of its size can use every such device. Leaves in suffix_ what it takes to tell the
// effect of a change of one device: when it falls from g to h, columns up to size h keep it (g - h
// milli smaller), those above h and up to g lose it, the others never had it.
std::int64_t FragmentationPolicy::usable(const std::int64_t* weights, const Leftovers& left) const {
  std::array<std::int16_t, 64> sorted = left.milli;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(left.count));
  std::size_t above = left.count;  // devices sorted[above…] fit the column
  int fitting = 0;
  std::int64_t milli = 0;
  std::int64_t sum = 0;
  Suffix suffix;
  suffix_[columns_.size()] = suffix;
  for (std::size_t c = columns_.size(); c-- > 0;) {
    const Column column = columns_[c];
    while (above > 0 && sorted[above - 1] >= column.size) {
      --above;
      ++fitting;
      milli += sorted[above];
    }
    const std::int64_t kept = fitting >= column.count ? weights[c] : 0;
    const std::int64_t dropped = fitting > column.count ? weights[c] : 0;
    sum += kept * milli;
    suffix.kept += kept;
    suffix.dropped += dropped;
    suffix.change += (dropped - kept) * milli;
    suffix_[c] = suffix;
  }
  return sum;
}

FragmentationPolicy::Leftovers FragmentationPolicy::leftovers_of(
    std::span<const DeviceFace> devices) {
  Leftovers left;
  for (const DeviceFace& device : devices) {
    left.milli[left.count++] = device.free_milli;
  }
  return left;
}

NodeValue FragmentationPolicy::value_of(const NodeInput& node) const {
  NodeValue value;
  value.domain = domain_of(node.node);
  if (node.face.blocked != Cause::none) {
    return value;
  }
  value.value = usable(weights_at(value.domain, node.face.cpu_free), leftovers_of(node.devices));
  return value;
}

// The lowest-numbered devices: which of the idle ones makes no difference to any class.
FragmentationPolicy::Chosen FragmentationPolicy::whole_devices(const PlaceInput& input,
                                                               const std::int64_t* weights) const {
  Chosen chosen{.places = lowest_places(input), .drop = 0};
  Leftovers left = leftovers_of(input.on.devices);
  std::int64_t taken = 0;
  for (int i = 0; i < chosen.places.count; ++i) {
    std::int16_t& milli = left.milli[chosen.places.at[static_cast<std::size_t>(i)]];
    taken += milli;
    milli = 0;
  }
  chosen.drop = pods_ * taken + usable(weights, left) - input.value.value;
  return chosen;
}

// Device by device the best score, the first device on ties.
FragmentationPolicy::Chosen FragmentationPolicy::parts(const PlaceInput& input,
                                                       const std::int64_t* weights) const {
  Chosen chosen;
  Leftovers left = leftovers_of(input.on.devices);
  std::uint64_t fits = input.fits;
  std::int64_t taken = 0;
  for (int i = 0; i < input.ask->count; ++i) {
    const std::int64_t usable_now = usable(weights, left);
    std::array<std::int64_t, 64> drops;
    std::int64_t most = INT64_MIN;
    for_each_place(fits, [&](std::size_t place) {
      const int before = left.milli[place];
      const int after = std::max(0, before - input.fit->needs[place].milli);
      const Suffix& from = suffix_[served_[static_cast<std::size_t>(after)]];
      const Suffix& to = suffix_[served_[static_cast<std::size_t>(before)]];
      const std::int64_t shrunk = (before - after) * (suffix_.front().kept - from.kept);
      const std::int64_t lost = before * (from.dropped - to.dropped) - (from.change - to.change);
      drops[place] = pods_ * (before - after) - shrunk - lost;
      most = std::max(most, drops[place]);
    });
    const std::int64_t fixed = pods_ * taken + usable_now - input.value.value;
    const std::int64_t enough = score_.least(score_.of(fixed + most));
    std::size_t first = 64;
    for_each_place(fits, [&](std::size_t place) {
      first = first == 64 && fixed + drops[place] >= enough ? place : first;
    });
    chosen.places.add(first);
    chosen.drop = fixed + drops[first];
    const int after = std::max(0, left.milli[first] - input.fit->needs[first].milli);
    taken += left.milli[first] - after;
    left.milli[first] = static_cast<std::int16_t>(after);
    fits &= ~(std::uint64_t{1} << first);
  }
  return chosen;
}

FragmentationPolicy::Chosen FragmentationPolicy::choose_devices(const PlaceInput& input) const {
  const std::int64_t* weights = weights_at(input.value.domain, input.on.face.cpu_free - input.cpu);
  return input.ask->is_exclusive() ? whole_devices(input, weights) : parts(input, weights);
}

Candidates FragmentationPolicy::evaluate(const PlaceInput& input) const {
  Candidates candidates;
  Candidate candidate;
  Chosen chosen;
  if (input.ask == nullptr) {
    chosen.drop = usable(weights_at(input.value.domain, input.on.face.cpu_free - input.cpu),
                         leftovers_of(input.on.devices)) -
                  input.value.value;
  } else {
    chosen = choose_devices(input);
    candidate.opens_idle = opens_idle(input, chosen.places);
  }
  candidate.base = -score_.of(chosen.drop);
  candidates.add(candidate);
  return candidates;
}

Places FragmentationPolicy::choose(const PlaceInput& input, int) const {
  if (input.ask == nullptr) {
    return {};
  }
  Places places = choose_devices(input).places;
  std::sort(places.at.begin(), places.at.begin() + places.count);
  return places;
}

}  // namespace berth::core
