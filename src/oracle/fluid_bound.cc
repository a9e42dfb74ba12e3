#include "oracle/fluid_bound.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "oracle/lp_solver.h"

namespace berth::oracle {
namespace {

constexpr int kMilliPerDevice = 1000;
constexpr double kMilliPerCore = 1000.0;
constexpr double kMibPerGib = 1024.0;
constexpr double kOffer = 1.3;  // choose-any may pick from 130 % of the mix
constexpr double kPricingTolerance = 1e-7;
constexpr int kMaxRounds = 20'000;
// Sums of quantity x count stay far inside 64 bits and inside what a double holds exactly.
constexpr std::int64_t kMaxQuantity = 1'000'000'000'000;
constexpr int kMaxGpusPerNode = 1024;

enum class Mode { no_reject, choose_any };

struct NodeType {
  std::string model;
  int gpus;
  std::int64_t cpu_milli;
  std::int64_t memory_mib;
  auto operator<=>(const NodeType&) const = default;
};

struct PodClass {
  std::int64_t cpu_milli;
  std::int64_t memory_mib;
  int gpu_milli;
  int num_gpu;
  std::vector<std::string> models;  // sorted, unique
  auto operator<=>(const PodClass&) const = default;

  bool is_fraction() const { return num_gpu == 1 && gpu_milli < kMilliPerDevice; }

  double gpus() const { return static_cast<double>(num_gpu) * gpu_milli / kMilliPerDevice; }

  double cores() const { return static_cast<double>(cpu_milli) / kMilliPerCore; }

  double gib() const { return static_cast<double>(memory_mib) / kMibPerGib; }

  // Whether the program lets this type serve the class: devices count per node, CPU and memory are
  // pooled.
  bool may_use(const NodeType& node) const {
    return num_gpu <= node.gpus &&
           (models.empty() || std::ranges::binary_search(models, node.model));
  }

  // One pod alone on an empty node.
  bool fits(const NodeType& node) const {
    return may_use(node) && cpu_milli <= node.cpu_milli && memory_mib <= node.memory_mib;
  }
};

// The input in canonical form: distinct node types and classes in order, with their totals.
struct Mix {
  std::vector<std::pair<NodeType, double>> nodes;
  std::vector<std::pair<PodClass, double>> classes;
  std::vector<std::size_t> unplaceable;
  double capacity_gpus = 0;
  double asked_gpus = 0;
};

std::optional<std::string> problem_of(const BoundNodeType& node) {
  if (node.gpus < 0 || node.gpus > kMaxGpusPerNode) {
    return "gpus is " + std::to_string(node.gpus) + ", must be 0 to " +
           std::to_string(kMaxGpusPerNode);
  }
  if (node.cpu_milli < 0 || node.cpu_milli > kMaxQuantity) {
    return "cpu_milli is " + std::to_string(node.cpu_milli) + ", must be 0 to 10^12";
  }
  if (node.memory_mib < 0 || node.memory_mib > kMaxQuantity) {
    return "memory_mib is " + std::to_string(node.memory_mib) + ", must be 0 to 10^12";
  }
  if (node.count < 0) return "count is " + std::to_string(node.count) + ", must not be negative";
  return std::nullopt;
}

std::optional<std::string> problem_of(const BoundClass& pod) {
  if (pod.cpu_milli < 0 || pod.cpu_milli > kMaxQuantity) {
    return "cpu_milli is " + std::to_string(pod.cpu_milli) + ", must be 0 to 10^12";
  }
  if (pod.memory_mib < 0 || pod.memory_mib > kMaxQuantity) {
    return "memory_mib is " + std::to_string(pod.memory_mib) + ", must be 0 to 10^12";
  }
  if (pod.count < 0 || pod.count > kMaxQuantity) {
    return "count is " + std::to_string(pod.count) + ", must be 0 to 10^12";
  }
  const std::string shape = "num_gpu is " + std::to_string(pod.num_gpu) + " and gpu_milli " +
                            std::to_string(pod.gpu_milli);
  if (pod.num_gpu < 0) return shape + ", num_gpu must not be negative";
  if (pod.num_gpu == 0 && pod.gpu_milli != 0)
    return shape + ", without a device gpu_milli must be 0";
  if (pod.num_gpu == 1 && (pod.gpu_milli < 1 || pod.gpu_milli > kMilliPerDevice)) {
    return shape + ", on one device gpu_milli must be 1 to 1000";
  }
  if (pod.num_gpu > 1 && pod.gpu_milli != kMilliPerDevice) {
    return shape + ", on several devices gpu_milli must be 1000";
  }
  return std::nullopt;
}

std::vector<std::string> sorted_unique(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

Result<Mix> canonical(const BoundInput& input) {
  std::map<NodeType, double> nodes;
  for (std::size_t i = 0; i < input.nodes.size(); ++i) {
    const BoundNodeType& node = input.nodes[i];
    if (auto problem = problem_of(node)) {
      return invalid_argument("fluid bound: node type " + std::to_string(i) + ": " + *problem);
    }
    if (node.count == 0) continue;
    nodes[{node.model, node.gpus, node.cpu_milli, node.memory_mib}] += node.count;
  }

  Mix mix;
  std::map<PodClass, double> classes;
  for (std::size_t i = 0; i < input.classes.size(); ++i) {
    const BoundClass& pod = input.classes[i];
    if (auto problem = problem_of(pod)) {
      return invalid_argument("fluid bound: class " + std::to_string(i) + ": " + *problem);
    }
    if (pod.count == 0) continue;
    PodClass key{pod.cpu_milli, pod.memory_mib, pod.gpu_milli, pod.num_gpu,
                 sorted_unique(pod.models)};
    if (std::ranges::none_of(nodes, [&](const auto& node) { return key.fits(node.first); })) {
      mix.unplaceable.push_back(i);
    }
    classes[std::move(key)] += static_cast<double>(pod.count);
  }

  mix.nodes.assign(nodes.begin(), nodes.end());
  mix.classes.assign(classes.begin(), classes.end());
  for (const auto& [node, count] : mix.nodes)
    mix.capacity_gpus += node.gpus * count;
  for (const auto& [pod, count] : mix.classes)
    mix.asked_gpus += pod.gpus() * count;
  if (mix.capacity_gpus <= 0) return invalid_argument("fluid bound: the nodes have no GPU");
  if (mix.asked_gpus <= 0) return invalid_argument("fluid bound: no pod asks for a GPU");
  return mix;
}

// A fraction of class k that may be laid on a device.
struct Piece {
  std::size_t k = 0;
  double value = 0;  // pieces without a positive value are not used
};

struct Filling {
  double value = 0;
  std::map<std::size_t, int> pieces;  // by class
};

// Unbounded knapsack: the most valuable filling of a device, given the best piece of each size in
// cells. `best_of_size` has one entry per size from 0 to the size of the device.
Filling best_filling(const std::vector<Piece>& best_of_size) {
  const std::size_t cells = best_of_size.size() - 1;
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size <= cells; ++size) {
    if (best_of_size[size].value > 0) sizes.push_back(size);
  }
  std::vector<double> value(cells + 1, 0.0);  // of the best filling of so many cells
  std::vector<std::size_t> last_size(cells + 1,
                                     0);  // its last piece; 0 = its last cell stays empty
  for (std::size_t used = 1; used <= cells; ++used) {
    value[used] = value[used - 1];
    for (const std::size_t size : sizes) {
      if (size > used) break;
      const double with_piece = value[used - size] + best_of_size[size].value;
      if (with_piece > value[used]) {
        value[used] = with_piece;
        last_size[used] = size;
      }
    }
  }
  Filling filling{.value = value[cells], .pieces = {}};
  for (std::size_t used = cells; used > 0; used -= std::max<std::size_t>(last_size[used], 1)) {
    if (last_size[used] > 0) ++filling.pieces[best_of_size[last_size[used]].k];
  }
  return filling;
}

// The restricted master program and its pricing.
//
// Rows: devices, cores and GiB of every node type, then one per class:
//   no_reject   (what the scale asks of the class) - (what is served) <= 0, with one more column,
//   the scale itself,
//               counted in GPUs so that prices have the same size in both modes
//   choose_any  (what is served) <= 130 % of the class
class Master {
 public:
  Master(const Mix& mix, Mode mode)
      : mix_(mix), mode_(mode), lp_(row_limits(mix, mode)), seen_(mix.nodes.size()) {
    for (const auto& [pod, count] : mix.classes)
      cell_milli_ = std::gcd(cell_milli_, pod.gpu_milli);
    cells_ = static_cast<std::size_t>(kMilliPerDevice / cell_milli_);
    if (mode == Mode::no_reject) add_scale_column();
    for (std::size_t type = 0; type < mix.nodes.size(); ++type)
      add_starting_columns(type);
  }

  Result<void> solve() { return lp_.maximise(); }

  double served_gpus() const { return lp_.objective(); }

  int column_count() const { return lp_.column_count(); }

  // Adds for every node type the device filling that the current prices like best, if it pays. True
  // if any was added.
  bool add_best_patterns() {
    bool added = false;
    for (std::size_t type = 0; type < mix_.nodes.size(); ++type) {
      if (mix_.nodes[type].first.gpus > 0) added |= add_best_pattern(type);
    }
    return added;
  }

 private:
  // Pieces per class on one device, ascending by class.
  using Pattern = std::vector<std::pair<std::size_t, int>>;

  static constexpr std::size_t kRowsPerType = 3;

  std::size_t device_row(std::size_t type) const { return type * kRowsPerType; }

  std::size_t core_row(std::size_t type) const { return device_row(type) + 1; }

  std::size_t gib_row(std::size_t type) const { return device_row(type) + 2; }

  std::size_t class_row(std::size_t k) const { return mix_.nodes.size() * kRowsPerType + k; }

  double served_sign() const { return mode_ == Mode::no_reject ? -1.0 : 1.0; }

  const PodClass& pod(std::size_t k) const { return mix_.classes[k].first; }

  double worth(std::size_t k) const { return mode_ == Mode::no_reject ? 0.0 : pod(k).gpus(); }

  static std::vector<double> row_limits(const Mix& mix, Mode mode) {
    std::vector<double> limits;
    for (const auto& [node, count] : mix.nodes) {
      limits.push_back(node.gpus * count);
      limits.push_back(static_cast<double>(node.cpu_milli) / kMilliPerCore * count);
      limits.push_back(static_cast<double>(node.memory_mib) / kMibPerGib * count);
    }
    const double to_full = mix.capacity_gpus / mix.asked_gpus;
    for (const auto& [pod, count] : mix.classes) {
      limits.push_back(mode == Mode::no_reject ? 0.0 : kOffer * to_full * count);
    }
    return limits;
  }

  // One unit serves one GPU's worth of the whole mix.
  void add_scale_column() {
    std::vector<LpEntry> entries;
    for (std::size_t k = 0; k < mix_.classes.size(); ++k) {
      entries.push_back({class_row(k), mix_.classes[k].second / mix_.asked_gpus});
    }
    lp_.add_column(1.0, entries);
  }

  void add_starting_columns(std::size_t type) {
    for (std::size_t k = 0; k < mix_.classes.size(); ++k) {
      if (!pod(k).may_use(mix_.nodes[type].first)) continue;
      if (pod(k).is_fraction()) {
        add_pattern(type, {{k, kMilliPerDevice / pod(k).gpu_milli}});
      } else if (mode_ == Mode::no_reject || pod(k).num_gpu > 0) {  // CPU-only pods fill no GPU
        add_column(type, pod(k).num_gpu, {{k, 1}});
      }
    }
  }

  bool add_pattern(std::size_t type, Pattern pattern) {
    if (!seen_[type].insert(pattern).second) return false;
    add_column(type, 1, pattern);
    return true;
  }

  void add_column(std::size_t type, int devices, const Pattern& pods) {
    double gpus = 0;
    double cores = 0;
    double gib = 0;
    std::vector<LpEntry> entries;
    for (const auto& [k, pieces] : pods) {
      gpus += pieces * worth(k);
      cores += pieces * pod(k).cores();
      gib += pieces * pod(k).gib();
      entries.push_back({class_row(k), served_sign() * pieces});
    }
    if (devices > 0) entries.push_back({device_row(type), static_cast<double>(devices)});
    if (cores > 0) entries.push_back({core_row(type), cores});
    if (gib > 0) entries.push_back({gib_row(type), gib});
    lp_.add_column(gpus, entries);
  }

  // What one piece of class k on a node of this type is worth beyond the CPU and memory it takes.
  double piece_value(std::size_t type, std::size_t k) const {
    const std::span<const double> price = lp_.row_prices();
    return worth(k) - served_sign() * price[class_row(k)] - price[core_row(type)] * pod(k).cores() -
           price[gib_row(type)] * pod(k).gib();
  }

  bool add_best_pattern(std::size_t type) {
    std::vector<Piece> best_of_size(cells_ + 1);
    for (std::size_t k = 0; k < mix_.classes.size(); ++k) {
      if (!pod(k).is_fraction() || !pod(k).may_use(mix_.nodes[type].first)) continue;
      Piece& best = best_of_size[static_cast<std::size_t>(pod(k).gpu_milli / cell_milli_)];
      const double value = piece_value(type, k);
      if (value > best.value) best = {k, value};
    }
    const Filling filling = best_filling(best_of_size);
    if (filling.value <= lp_.row_prices()[device_row(type)] + kPricingTolerance) return false;
    return add_pattern(type, Pattern(filling.pieces.begin(), filling.pieces.end()));
  }

  const Mix& mix_;
  Mode mode_;
  LpSolver lp_;
  std::vector<std::set<Pattern>> seen_;
  // A device in equal cells, as coarse as all fractions allow: 100 cells of 10 milli on the openb
  // traces.
  int cell_milli_ = kMilliPerDevice;
  std::size_t cells_ = 1;
};

Result<FluidBound> bound(const BoundInput& input, Mode mode, const BoundProgressFn& progress) {
  TRY(const Mix mix, canonical(input));
  Master master(mix, mode);
  FluidBound result{.capacity_gpus = mix.capacity_gpus,
                    .unplaceable = mix.unplaceable,
                    .stats = {.node_types = static_cast<int>(mix.nodes.size()),
                              .classes = static_cast<int>(mix.classes.size())}};
  bool improved = true;
  while (improved) {
    if (++result.stats.rounds > kMaxRounds) {
      return Error(ErrorCode::internal,
                   "fluid bound: no optimum after " + std::to_string(kMaxRounds) + " rounds");
    }
    TRY_VOID(master.solve());
    result.stats.columns = master.column_count();
    result.served_gpus = std::max(master.served_gpus(), 0.0);
    result.percent = std::min(100.0 * result.served_gpus / result.capacity_gpus, 100.0);
    if (progress) progress({result.stats.rounds, result.stats.columns, result.percent});
    improved = master.add_best_patterns();
  }
  return result;
}

}  // namespace

Result<FluidBound> no_reject_bound(const BoundInput& input, const BoundProgressFn& progress) {
  return bound(input, Mode::no_reject, progress);
}

Result<FluidBound> choose_any_bound(const BoundInput& input, const BoundProgressFn& progress) {
  return bound(input, Mode::choose_any, progress);
}

}  // namespace berth::oracle
