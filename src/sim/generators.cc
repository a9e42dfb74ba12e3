#include "sim/generators.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/mt19937.h"
#include "sim/arrivals.h"
#include "sim/fixed_random.h"
#include "sim/words.h"

namespace berth::sim {

namespace {

constexpr std::int64_t kMicrosPerMilli = 1000;
constexpr std::int64_t kMicrosPerSecond = 1'000'000;
constexpr std::int64_t kProgressDecisions = 1000;

using ShapeKey = std::tuple<std::string, int, std::int64_t, std::int64_t>;

// How many of `total` each count gets, by largest remainders; equal remainders: the first.
std::vector<std::int64_t> apportion(const std::vector<std::int64_t>& counts, std::int64_t total) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts)
    sum += count;
  std::vector<std::int64_t> shares;
  std::vector<std::pair<std::int64_t, std::size_t>> rests;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    shares.push_back(counts[i] * total / sum);
    rests.emplace_back(-(counts[i] * total % sum), i);
    given += shares.back();
  }
  std::ranges::sort(rests);
  for (std::size_t i = 0; given < total; ++i, ++given)
    ++shares[rests[i].second];
  return shares;
}

TraceNode resized(TraceNode node, std::int64_t devices) {
  if (devices == 0 || node.devices == 0) return node;
  node.cpu_milli = node.cpu_milli * devices / node.devices;
  node.memory_mib = node.memory_mib * devices / node.devices;
  node.devices = static_cast<int>(devices);
  return node;
}

}  // namespace

std::vector<TraceNode> scale_fleet(const std::vector<TraceNode>& mix, const FleetScale& scale) {
  std::map<ShapeKey, std::int64_t> shapes;
  for (const TraceNode& node : mix) {
    ++shapes[{node.model, node.devices, node.cpu_milli, node.memory_mib}];
  }
  std::vector<std::int64_t> counts;
  for (const auto& [shape, count] : shapes)
    counts.push_back(count);
  const std::int64_t total = scale.nodes == 0 ? static_cast<std::int64_t>(mix.size()) : scale.nodes;
  const std::vector<std::int64_t> shares = apportion(counts, total);
  std::vector<TraceNode> fleet;
  std::size_t i = 0;
  for (const auto& [shape, count] : shapes) {
    const auto& [model, devices, cpu, memory] = shape;
    for (std::int64_t k = 0; k < shares[i]; ++k) {
      fleet.push_back(resized({.name = fmt::format("node-{:05}", fleet.size()),
                               .cpu_milli = cpu,
                               .memory_mib = memory,
                               .devices = devices,
                               .model = model},
                              scale.devices));
    }
    ++i;
  }
  return fleet;
}

namespace {

class Load {
 public:
  Load(const Scene& scene, const LoadSpec& spec)
      : scene_(scene),
        generator_(spec.seed),
        low_(share(spec.shape.low_percent)),
        high_(share(spec.shape.high_percent)),
        middle_((low_ + high_) / 2) {
    result_.spec = spec;
  }

  Result<LoadResult> play(const RunHooks& hooks) {
    TRY_VOID(set_pace());
    const LoadSpec& spec = result_.spec;
    TRY(driver_,
        Driver::create(scene_, {.policy = spec.policy,
                                .policy_seed = node_order_seed(spec.seed),
                                .node_ranks = draw_node_ranks(scene_.nodes.size(), spec.seed),
                                .check = spec.check,
                                .hooks = hooks}));
    driver_->keep_placements(true);
    TRY_VOID(fill());
    result_.fill_decisions = driver_->latency().count();
    driver_->latency() = LatencyStats();
    driver_->latency().reserve(static_cast<std::size_t>(spec.shape.decisions));
    while (driver_->latency().count() < spec.shape.decisions)
      TRY_VOID(step());
    TRY_VOID(driver_->compare_books());
    TRY_VOID(driver_->finish());
    result_.mean /= static_cast<double>(spec.shape.decisions);
    result_.virtual_seconds = static_cast<double>(now_) / kMicrosPerSecond;
    result_.latency = std::move(driver_->latency());
    return std::move(result_);
  }

 private:
  std::int64_t share(int percent) const { return scene_.capacity * percent / 100; }

  std::int64_t bound() const { return driver_->state().bound_milli(); }

  // The mean time between arrivals that holds the middle of the band (Little's law).
  Result<void> set_pace() {
    std::int64_t asked = 0;
    for (const TracePod& pod : scene_.pods)
      asked += pod.total_milli();
    if (asked == 0) {
      return invalid_argument(
          "no pod of the list asks for a GPU, so no load can hold an allocation; give a list in "
          "which num_gpu is above 0 somewhere");
    }
    const std::int64_t mean_pod =
        std::max<std::int64_t>(1, asked / static_cast<std::int64_t>(scene_.pods.size()));
    life_ = result_.spec.shape.life_seconds * kMicrosPerSecond;
    in_band_ = std::max<std::int64_t>(1, middle_ / mean_pod);
    gap_ = std::max<std::int64_t>(1, life_ / in_band_);
    return success();
  }

  // Without departures up to the middle of the band, or until pods are mostly refused.
  Result<void> fill() {
    for (std::int64_t tries = 0; bound() < middle_ && tries < 4 * in_band_; ++tries) {
      TRY_VOID(arrive());
    }
    next_arrival_ = draw_exponential(generator_, gap_);
    return success();
  }

  Result<void> step() {
    const bool full = bound() >= high_;
    const bool hurry = bound() < low_ && !last_refused_;
    const bool departs =
        !departures_.empty() && !hurry && (full || departures_.top().time <= next_arrival_);
    if (departs) return depart();
    if (!hurry) now_ = std::max(now_, next_arrival_);
    const std::int64_t before = driver_->latency().count();
    TRY_VOID(arrive());
    next_arrival_ = now_ + draw_exponential(generator_, gap_);
    note(before == 0);
    return success();
  }

  Result<void> arrive() {
    const std::uint32_t pod = generator_.below(static_cast<std::uint32_t>(scene_.pods.size()));
    std::string uid = fmt::format("w{}", ++arrivals_);
    const std::int64_t end = now_ + draw_exponential(generator_, life_);
    driver_->advance_to(Time(now_ / kMicrosPerMilli));
    TRY(const bool placed,
        driver_->submit({.uid = uid, .request = &scene_.requests[scene_.request_of[pod]]}));
    last_refused_ = !placed;
    if (placed) departures_.push({.time = end, .number = arrivals_});
    return success();
  }

  Result<void> depart() {
    const Departure departure = departures_.top();
    departures_.pop();
    now_ = std::max(now_, departure.time);
    ++result_.departures;
    driver_->advance_to(Time(now_ / kMicrosPerMilli));
    return driver_->release(fmt::format("w{}", departure.number));
  }

  void note(bool first) {
    const double percent =
        100.0 * static_cast<double>(bound()) / static_cast<double>(scene_.capacity);
    result_.refused += last_refused_ ? 1 : 0;
    result_.lowest = first ? percent : std::min(result_.lowest, percent);
    result_.highest = first ? percent : std::max(result_.highest, percent);
    result_.mean += percent;
  }

  struct Departure {
    std::int64_t time = 0;
    std::int64_t number = 0;

    // The earliest on top of the queue; of equal times the one that came first.
    bool operator<(const Departure& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  const Scene& scene_;
  Mt19937 generator_;
  std::int64_t low_;
  std::int64_t high_;
  std::int64_t middle_;
  std::int64_t life_ = 0;     // us, mean
  std::int64_t gap_ = 0;      // us, mean
  std::int64_t in_band_ = 0;  // pods at once in the middle of the band
  std::int64_t now_ = 0;      // us
  std::int64_t next_arrival_ = 0;
  std::int64_t arrivals_ = 0;
  bool last_refused_ = false;
  std::unique_ptr<Driver> driver_;
  std::priority_queue<Departure> departures_;
  LoadResult result_;
};

}  // namespace

Result<LoadResult> play_load(const Scene& scene, const LoadSpec& spec, const RunHooks& hooks) {
  return Load(scene, spec).play(hooks);
}

namespace {

struct GenerateKey {
  std::string_view name;
  std::int64_t min;
  std::int64_t max;
  std::int64_t& (*field)(GenerateWords&);
};

constexpr GenerateKey kGenerateKeys[] = {
    {"nodes", 1, kMaxTraceNodes, [](GenerateWords& w) -> std::int64_t& { return w.fleet.nodes; }},
    {"devices", 1, 64, [](GenerateWords& w) -> std::int64_t& { return w.fleet.devices; }},
    {"decisions", 1, 100'000'000,
     [](GenerateWords& w) -> std::int64_t& { return w.load.decisions; }},
    {"life", 1, 1'000'000, [](GenerateWords& w) -> std::int64_t& { return w.load.life_seconds; }},
};

Error generate_error(std::string_view text, std::string_view problem) {
  return invalid_argument(
      fmt::format("--generate: {} {}; write KEY=VALUE joined by commas, for instance "
                  "nodes=10000,devices=8,decisions=200000,fill=90-95,life=3600",
                  text, problem));
}

Result<void> read_fill(std::string_view value, LoadShape& load) {
  const std::size_t dash = value.find('-');
  if (dash == std::string_view::npos) return generate_error(value, "is no range for fill");
  const NumberRule rule{.name = "--generate fill", .min = 1, .max = 99};
  TRY(const std::int64_t low, parse_number(value.substr(0, dash), rule));
  TRY(const std::int64_t high, parse_number(value.substr(dash + 1), rule));
  if (low >= high) return generate_error(value, "is no range for fill that rises");
  load.low_percent = static_cast<int>(low);
  load.high_percent = static_cast<int>(high);
  return success();
}

}  // namespace

Result<GenerateWords> parse_generate(std::string_view text) {
  GenerateWords words;
  for (const std::string_view word : split_at(text, ',')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return generate_error(word, "is no KEY=VALUE");
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (key == "fill") {
      TRY_VOID(read_fill(value, words.load));
      continue;
    }
    const auto* const known = std::ranges::find(kGenerateKeys, key, &GenerateKey::name);
    if (known == std::end(kGenerateKeys)) {
      return generate_error(key, "is unknown (known are nodes, devices, decisions, fill, life)");
    }
    const std::string name = fmt::format("--generate {}", key);
    TRY(known->field(words),
        parse_number(value, {.name = name, .min = known->min, .max = known->max}));
  }
  return words;
}

}  // namespace berth::sim
