#include "sim/week/stream.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "base/wide.h"
#include "sim/fixed_random.h"

namespace berth::sim {

namespace {

constexpr std::int64_t kMsPerHour = 3'600'000;
constexpr std::int64_t kMsPerDay = 24 * kMsPerHour;
constexpr std::int64_t kMicrosPerMs = 1000;
constexpr std::int64_t kMostMean = (std::int64_t{1} << 40U) - 1;

// FNV-1a: names that differ give generators that differ.
std::uint64_t mixed(std::uint64_t seed, std::string_view name, std::uint64_t purpose) {
  std::uint64_t hash = 14'695'981'039'346'656'037U ^ purpose;
  const auto mix = [&](std::uint64_t byte) { hash = (hash ^ byte) * 1'099'511'628'211U; };
  for (const char c : name)
    mix(static_cast<unsigned char>(c));
  for (unsigned shift = 0; shift < 64; shift += 8)
    mix(seed >> shift & 0xFFU);
  return hash;
}

}  // namespace

Stream::Stream(const scenario::LoadStream& description, const StreamClock& clock)
    : description_(&description),
      clock_(clock),
      times_(mixed(clock.seed, description.name, 1)),
      runs_(mixed(clock.seed, description.name, 2)) {
  if (const auto* poisson = std::get_if<scenario::PoissonArrivals>(&description.arrivals)) {
    most_ = *std::ranges::max_element(poisson->hours) * *std::ranges::max_element(poisson->days);
    if (poisson->from) micros_ = poisson->from->ms() * kMicrosPerMs;
    // us per hour x milli x percent x percent, over the busiest hour's rate in those units.
    const Int128 scale = Int128{kMsPerHour} * kMicrosPerMs * 1000 * 10'000;
    const Int128 rate = Int128{poisson->milli_per_hour} * most_;
    mean_gap_ = rate == 0 ? 0
                          : static_cast<std::int64_t>(std::clamp<Int128>(
                                scale / std::max<Int128>(rate, 1), 1, kMostMean));
  }
  if (const auto* bursts = std::get_if<scenario::BurstArrivals>(&description.arrivals)) {
    burst_ = bursts->at;
  }
}

std::size_t Stream::weekday(Time time) const {
  return (clock_.first_day + static_cast<std::size_t>(time.ms() / kMsPerDay)) %
         scenario::kDaysOfWeek;
}

// Thinning (Lewis and Shedler, Naval Research Logistics 26, 1979): candidates come at the rate of
// the busiest hour, and each is kept with its hour's share of it.
std::optional<Time> Stream::next_time(const scenario::PoissonArrivals& poisson) {
  while (mean_gap_ > 0) {
    micros_ += draw_exponential(times_, mean_gap_);
    const Time time(micros_ / kMicrosPerMs);
    if (time.ms() >= clock_.horizon.count() || (poisson.until && time >= *poisson.until)) break;
    const auto hour = static_cast<std::size_t>(time.ms() / kMsPerHour % 24);
    if (draw_below(times_, most_) < poisson.hours.at(hour) * poisson.days.at(weekday(time))) {
      return time;
    }
  }
  return std::nullopt;
}

void Stream::draw_burst(const scenario::BurstArrivals& bursts, Time at) {
  for (std::int64_t i = 0; i < bursts.jobs; ++i) {
    of_burst_.push_back(at + Duration(draw_below(times_, bursts.spread.count() + 1)));
  }
  std::ranges::sort(of_burst_);
}

std::optional<Time> Stream::next_time(const scenario::BurstArrivals& bursts) {
  while (of_burst_.empty()) {
    if (!burst_ || burst_->ms() >= clock_.horizon.count()) return std::nullopt;
    const Time at = *burst_;
    if (bursts.on.at(weekday(at))) draw_burst(bursts, at);
    burst_ = bursts.every ? std::optional(at + *bursts.every) : std::nullopt;
  }
  const Time time = of_burst_.front();
  of_burst_.pop_front();
  if (time.ms() >= clock_.horizon.count()) return std::nullopt;  // all later ones are, too
  return time;
}

std::optional<Time> Stream::next_time(const scenario::ListedArrivals& listed) {
  if (listed_ == listed.times.size() || listed.times[listed_].ms() >= clock_.horizon.count()) {
    return std::nullopt;
  }
  return listed.times[listed_++];
}

Duration Stream::draw_run() {
  struct Draw {
    Mt19937& generator;
    std::int64_t operator()(const scenario::FixedRun& run) const { return run.time.count(); }
    std::int64_t operator()(const scenario::ExponentialRun& run) const {
      return draw_exponential(generator, run.mean.count());
    }
    std::int64_t operator()(const scenario::LognormalRun& run) const {
      return draw_lognormal(generator, {.median = run.median.count(), .p90 = run.p90.count()});
    }
    std::int64_t operator()(const scenario::UniformRun& run) const {
      return run.from.count() + draw_below(generator, run.to.count() - run.from.count() + 1);
    }
  };
  const Duration drawn(std::max<std::int64_t>(1, std::visit(Draw{runs_}, description_->run)));
  const std::optional<Duration>& declared = description_->options.max_run;
  return declared ? std::min(drawn, *declared) : drawn;
}

std::optional<Arrival> Stream::next() {
  if (description_->count && given_ == *description_->count) return std::nullopt;
  const std::optional<Time> time = std::visit(
      [this](const auto& arrivals) { return next_time(arrivals); }, description_->arrivals);
  if (!time) return std::nullopt;
  return Arrival{.at = *time, .run = draw_run(), .number = ++given_};
}

}  // namespace berth::sim
