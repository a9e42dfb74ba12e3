#include "sim/week/recorder.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/assert.h"
#include "core/ledger/ledger.h"
#include "core/queue/queue_tree.h"

namespace berth::sim {

namespace {

constexpr std::int64_t kMsPerDay = 86'400'000;
constexpr std::int64_t kMsPerMinute = 60'000;
constexpr std::size_t kAskedPerSample = 12;  // verdicts cost: they look at the whole fleet

core::DimensionKind kind_of(const core::QueueDimension& dimension) { return dimension.kind; }

}  // namespace

WeekRecorder::WeekRecorder(const WeekScene& scene, const WeekSpec& spec, const core::Engine& engine,
                           const std::vector<Job>& jobs)
    : scene_(scene), spec_(spec), engine_(engine), jobs_(jobs) {
  result_.name = spec.name;
  result_.horizon = scene.load->horizon;
  list_queues(core::kRootQueue, -1);
  list_dimensions(spec.queues);
  waiting_.resize(result_.queues.size());
  held_.resize(result_.queues.size());
  const auto days = static_cast<std::size_t>((result_.horizon.count() + kMsPerDay - 1) / kMsPerDay);
  for (QueueWeek& queue : result_.queues) {
    queue.shares.resize(result_.dimensions.size());
    if (queue.leaf) queue.waited.resize(days);
  }
  for (const core::Node& node : scene.fleet) {
    for (const core::Device& device : node.devices)
      result_.capacity += device.mig_enabled ? 0 : kWholeMilli.count();
  }
}

void WeekRecorder::list_queues(core::QueueId queue, int depth) {
  const core::QueueTree& tree = engine_.queues();
  if (queue != core::kRootQueue) {
    by_name_[tree.name(queue)] = result_.queues.size();
    ids_.push_back(queue);
    QueueWeek& listed = result_.queues.emplace_back();
    listed.name = tree.name(queue);
    listed.path = tree.path_name(queue);
    listed.depth = depth;
    listed.leaf = tree.is_leaf(queue);
    listed.held = tree.held_because(queue);
  }
  for (const core::QueueId child : tree.children(queue)) {
    if (tree.is_listed(child)) list_queues(child, depth + 1);
  }
}

// All devices first, whoever names them; then what queues name, by class and kind.
void WeekRecorder::list_dimensions(const core::QueueConfig& config) {
  std::set<std::pair<std::string, core::DimensionKind>> named;
  for (const core::QueueSpec& queue : config.queues) {
    for (const core::QueueDimension& dimension : queue.dimensions)
      named.emplace(dimension.device_class, kind_of(dimension));
  }
  named.erase({"*", core::DimensionKind::devices});
  result_.dimensions.push_back({.name = "*/devices", .device_class = "*"});
  for (const auto& [device_class, kind] : named) {
    result_.dimensions.push_back(
        {.name = fmt::format("{}/{}", device_class, core::dimension_kind_name(kind)),
         .device_class = device_class,
         .kind = kind});
  }
}

std::size_t WeekRecorder::day_of(Time time) const {
  return static_cast<std::size_t>(time.ms() / kMsPerDay);
}

// --- jobs ---

void WeekRecorder::arrived(std::uint32_t slot, Time /*now*/) {
  const Job& job = jobs_[slot];
  ++result_.queues[job.queue].submitted;
  waiting_[job.queue].insert({job.submitted, slot});
  ++waiting_count_;
}

// Split at midnights, so that each day has what was waited on it.
void WeekRecorder::add_cause_time(const Job& job, Time until) {
  QueueWeek& queue = result_.queues[job.queue];
  Time from = job.since;
  while (from < until) {
    const std::size_t day = day_of(from);
    const Time midnight(static_cast<std::int64_t>(day + 1) * kMsPerDay);
    const Time part = std::min(midnight, until);
    if (day < queue.waited.size()) {
      queue.waited[day][static_cast<std::size_t>(job.cause)] += (part - from).count();
    }
    from = part;
  }
}

void WeekRecorder::cause_changed(std::uint32_t slot, Time now) { add_cause_time(jobs_[slot], now); }

void WeekRecorder::holds(std::uint32_t slot, std::int64_t milli) {
  const core::QueueTree& tree = engine_.queues();
  for (core::QueueId id = ids_[jobs_[slot].queue]; id != core::kRootQueue; id = tree.parent(id))
    held_[by_name_.at(tree.name(id))] += milli;
}

void WeekRecorder::started(std::uint32_t slot, Time now) {
  const Job& job = jobs_[slot];
  add_cause_time(job, now);
  --waiting_count_;
  if (job.started) return;
  QueueWeek& queue = result_.queues[job.queue];
  ++queue.started;
  queue.waits.push_back((now - job.submitted).count());
  waiting_[job.queue].erase({job.submitted, slot});
  note_wait(job, now, true);
}

void WeekRecorder::finished(std::uint32_t slot) {
  const Job& job = jobs_[slot];
  QueueWeek& queue = result_.queues[job.queue];
  ++queue.finished;
  queue.delivered += job.device_time;
}

std::size_t WeekRecorder::evicted(std::uint32_t slot, const core::Evicted& eviction,
                                  std::optional<std::uint32_t> beneficiary) {
  const std::string whose = beneficiary ? result_.queues[jobs_[*beneficiary].queue].name : "";
  QueueWeek& queue = result_.queues[jobs_[slot].queue];
  ++queue.evicted;
  std::vector<EvictionGroup>& groups = queue.evictions;
  auto group = std::ranges::find_if(groups, [&](const EvictionGroup& known) {
    return known.rule == eviction.rule && known.beneficiary == whose;
  });
  if (group == groups.end()) {
    groups.push_back({.rule = eviction.rule, .beneficiary = whose, .example = eviction.text});
    group = groups.end() - 1;
  }
  ++group->jobs;
  return static_cast<std::size_t>(group - groups.begin());
}

void WeekRecorder::lost(std::uint32_t slot) {
  const Job& job = jobs_[slot];
  QueueWeek& queue = result_.queues[job.queue];
  queue.lost += job.device_time;
  if (job.state == JobState::leaving) queue.evictions[job.eviction].lost += job.device_time;
  ++waiting_count_;
}

void WeekRecorder::never(std::uint32_t slot, core::Cause cause) {
  const Job& job = jobs_[slot];
  QueueWeek& queue = result_.queues[job.queue];
  const auto group = std::ranges::find(queue.never, cause, &NeverGroup::cause);
  if (group != queue.never.end()) {
    ++group->jobs;
  } else {
    queue.never.push_back({.cause = cause, .jobs = 1, .example = sentence_of(job)});
  }
  waiting_[job.queue].erase({job.submitted, slot});
  --waiting_count_;
}

void WeekRecorder::left_over(std::uint32_t slot, Time now) {
  const Job& job = jobs_[slot];
  QueueWeek& queue = result_.queues[job.queue];
  if (job.state == JobState::waiting) {
    ++queue.waiting_at_end;
    add_cause_time(job, now);
    if (!job.started) note_wait(job, now, false);
  } else {
    ++queue.running_at_end;
    queue.delivered += job.device_time;
  }
}

// --- long waits ---

bool WeekRecorder::is_among_longest(const QueueWeek& queue, Time from, Duration wait) const {
  const auto longer = std::ranges::count_if(queue.longest, [&](const LongWait& known) {
    return day_of(known.from) == day_of(from) && known.wait() >= wait;
  });
  return longer < static_cast<std::ptrdiff_t>(kLongestPerDay);
}

void WeekRecorder::note_wait(const Job& job, Time until, bool started) {
  QueueWeek& queue = result_.queues[job.queue];
  const Duration wait = until - job.submitted;
  if (wait.count() < kMsPerMinute || !is_among_longest(queue, job.submitted, wait)) return;
  const auto same_day = [&](const LongWait& known) {
    return day_of(known.from) == day_of(job.submitted);
  };
  if (std::ranges::count_if(queue.longest, same_day) ==
      static_cast<std::ptrdiff_t>(kLongestPerDay)) {
    const auto shortest = std::ranges::min_element(queue.longest, {}, [&](const LongWait& known) {
      return same_day(known) ? known.wait() : result_.horizon + Duration(1);
    });
    queue.longest.erase(shortest);
  }
  queue.longest.push_back({.uid = job.uid,
                           .from = job.submitted,
                           .until = until,
                           .started = started,
                           .cause = job.cause,
                           .asked_at = job.asked_at,
                           .sentence = job.sentence});
}

// Devices as "n3/g0" instead of by their UUID.
std::string WeekRecorder::sentence_of(const Job& job) const {
  const Result<core::Verdict> verdict = engine_.explain(job.uid, core::Engine::Detail::in_short);
  if (!verdict.ok()) return {};
  const std::string& text = verdict->summary;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t slash = text.find('/', at);
    if (slash == std::string::npos) return out + text.substr(at);
    const std::size_t end = std::min(text.find_first_of(" ,;:)", slash), text.size());
    const core::DeviceId device =
        engine_.fleet().find_device(text.substr(slash + 1, end - slash - 1));
    out += text.substr(at, slash + 1 - at);
    out += device.is_none() ? text.substr(slash + 1, end - slash - 1)
                            : fmt::format("g{}", engine_.fleet().place_of(device));
    at = end;
  }
  return out;
}

// --- samples ---

void WeekRecorder::sample_queues() {
  const core::QueueTree& tree = engine_.queues();
  for (std::size_t d = 0; d < result_.dimensions.size(); ++d) {
    const WeekDimension& dimension = result_.dimensions[d];
    const auto id = tree.dimension(dimension.device_class, dimension.kind);
    for (std::size_t q = 0; q < ids_.size(); ++q) {
      ShareSeries& series = result_.queues[q].shares[d];
      if (!id) {  // no queue names it: nobody is entitled to anything, but all may be used
        series.used.push_back(held_[q]);
        continue;
      }
      const core::QuotaFigures figures = tree.figures(ids_[q], *id);
      series.used.push_back(figures.alloc);
      series.asked.push_back(figures.demand);
      series.deserved.push_back(figures.effective_deserved);
      series.fair.push_back(figures.fair);
    }
  }
}

void WeekRecorder::sample_fleet() {
  std::int64_t used = 0;
  std::int64_t free = 0;
  std::int64_t idle = 0;
  std::int64_t hole = 0;
  const core::Ledger& ledger = engine_.ledger();
  for (std::size_t n = 0; n < ledger.node_slots(); ++n) {
    std::int64_t on_node = 0;
    for (const core::DeviceFace& face : ledger.faces(core::NodeId(n))) {
      if (face.usable == 0) continue;
      on_node += face.idle ? 1 : 0;
      free += face.free_milli;
      used += kWholeMilli.count() - face.free_milli;
    }
    idle += on_node;
    hole = std::max(hole, on_node);
  }
  result_.fleet.used.push_back(used);
  result_.fleet.free.push_back(free);
  result_.fleet.idle.push_back(idle);
  result_.fleet.hole.push_back(hole);
  result_.fleet.waiting.push_back(waiting_count_);
}

std::vector<WeekRecorder::Asked> WeekRecorder::sample(Time now) {
  result_.samples.push_back(now);
  sample_queues();
  sample_fleet();
  std::vector<Asked> asked;
  if (!spec_.explain) return asked;
  for (std::size_t q = 0; q < waiting_.size() && asked.size() < kAskedPerSample; ++q) {
    std::size_t looked_at = 0;
    for (const auto& [from, slot] : waiting_[q]) {
      const Duration wait = now - from;
      if (++looked_at > kLongestPerDay || asked.size() == kAskedPerSample) break;
      if (wait < jobs_[slot].ask_after || !is_among_longest(result_.queues[q], from, wait)) {
        continue;
      }
      asked.push_back({.slot = slot, .sentence = sentence_of(jobs_[slot])});
    }
  }
  return asked;
}

WeekResult WeekRecorder::finish() && {
  for (QueueWeek& queue : result_.queues) {
    std::ranges::sort(queue.waits);
    std::ranges::stable_sort(queue.longest, [&](const LongWait& a, const LongWait& b) {
      return day_of(a.from) != day_of(b.from) ? a.from < b.from : b.wait() < a.wait();
    });
    std::ranges::stable_sort(queue.evictions, std::ranges::greater{}, &EvictionGroup::jobs);
  }
  return std::move(result_);
}

}  // namespace berth::sim
