#include "sim/week/player.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"
#include "core/engine/decision_log.h"
#include "core/ledger/ledger.h"
#include "core/queue/queue_tree.h"
#include "sim/parallel.h"
#include "sim/week/job.h"
#include "sim/week/recorder.h"
#include "sim/week/stream.h"

namespace berth::sim {

namespace {

constexpr std::size_t kLogChunk = std::size_t{1} << 20U;

// What happens at a time of its own, in the order in which it happens at equal times.
enum class Kind : std::uint8_t { wake, end, leave, arrive, sample };

struct Item {
  Time time;
  Kind kind = Kind::wake;
  std::uint64_t order = 0;    // of equal items, the one planned first
  std::uint32_t subject = 0;  // a job's slot, or a stream
  std::uint32_t runs = 0;     // end, leave: of which run
  std::string member = {};    // leave: of a gang

  bool operator>(const Item& other) const {
    return std::tie(time, kind, order) > std::tie(other.time, other.kind, other.order);
  }
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

class Player {
 public:
  Player(const WeekScene& scene, const WeekSpec& spec, const WeekHooks& hooks)
      : scene_(scene), load_(*scene.load), spec_(spec), hooks_(hooks) {}

  Result<WeekResult> play() {
    TRY_VOID(set_up());
    while (!items_.empty() && items_.top().time.ms() < load_.horizon.count()) {
      const Item item = items_.top();
      items_.pop();
      advance_to(item.time);
      TRY_VOID(happen(item));
    }
    advance_to(Time(load_.horizon.count()));
    TRY_VOID(take_sample());
    return finish();
  }

 private:
  Result<void> set_up();
  void advance_to(Time time);
  Result<void> happen(const Item& item);
  Result<void> arrive(std::uint32_t stream);
  Result<void> end(const Item& item);
  Result<void> leave(const Item& item);
  Result<void> take_sample();
  Result<WeekResult> finish();
  Result<void> empty_the_books();

  Result<void> tell(core::EventBody body);
  Result<void> settle(std::span<const core::Action> actions);
  Result<void> flush_log(bool at_end);
  void on(const core::Granted& granted);
  void on(const core::Evicted& evicted);
  void on(const core::VerdictChanged& verdict);
  void on(const core::Retracted& retracted);
  Result<core::Workload> workload_of(const scenario::LoadStream& stream, std::string uid) const;
  std::int64_t held_milli(const core::Grant& grant) const;

  void plan(Time time, Kind kind, std::uint32_t subject, std::uint32_t runs = 0,
            std::string member = {}) {
    items_.push({.time = time,
                 .kind = kind,
                 .order = planned_++,
                 .subject = subject,
                 .runs = runs,
                 .member = std::move(member)});
  }

  void plan_arrival(std::uint32_t stream) {
    std::optional<Arrival> next = streams_[stream].next();
    if (next) plan(next->at, Kind::arrive, stream);
    arriving_[stream] = next;
  }

  // The job of a workload; a member of a gang has that of its gang.
  std::optional<std::uint32_t> slot_of(std::string_view uid) const {
    auto found = slots_.find(uid);
    if (found == slots_.end()) found = slots_.find(uid.substr(0, uid.rfind('/')));
    return found == slots_.end() ? std::nullopt : std::optional(found->second);
  }

  void hold(std::uint32_t slot, std::int64_t milli);
  void take_back(std::uint32_t slot);

  std::uint32_t new_slot();
  void forget(std::uint32_t slot);

  const WeekScene& scene_;
  const scenario::Load& load_;
  const WeekSpec& spec_;
  const WeekHooks& hooks_;
  std::unique_ptr<core::Engine> engine_;
  std::optional<WeekRecorder> recorder_;
  Time now_;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> items_;
  std::uint64_t planned_ = 0;
  std::vector<Stream> streams_;
  std::vector<std::optional<Arrival>> arriving_;  // by stream: the next
  std::vector<std::size_t> queue_of_stream_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> slots_;  // by uid
  std::vector<std::uint32_t> impossible_;  // told so in the last answer
  std::int64_t arrived_ = 0;
  std::int64_t events_ = 0;
  std::string log_;
};

// --- the engine ---

Result<void> Player::set_up() {
  TRY(engine_, core::Engine::create(spec_.engine));
  core::append_header(log_, engine_->config());
  for (const core::Node& node : scene_.fleet)
    TRY_VOID(tell(core::NodeUpserted{node}));
  TRY_VOID(tell(core::QueuesChanged{spec_.queues}));
  recorder_.emplace(scene_, spec_, *engine_, jobs_);
  const StreamClock clock{
      .horizon = load_.horizon, .first_day = load_.first_day, .seed = spec_.seed};
  streams_.reserve(load_.streams.size());
  arriving_.resize(load_.streams.size());
  for (const scenario::LoadStream& stream : load_.streams) {
    queue_of_stream_.push_back(recorder_->queue_of(stream.options.queue));
    streams_.emplace_back(stream, clock);
    plan_arrival(static_cast<std::uint32_t>(streams_.size() - 1));
  }
  plan(Time(0), Kind::sample, 0);
  return success();
}

// The only place where time is spent, also before the first job and after the last one.
Result<void> Player::tell(core::EventBody body) {
  if (hooks_.cancelled != nullptr && hooks_.cancelled->load(std::memory_order_relaxed)) {
    return Error(ErrorCode::exhausted, "cancelled");
  }
  const core::Event event{now_, std::move(body)};
  if (hooks_.record != nullptr) core::append_event(log_, event);
  const std::span<const core::Action> actions = engine_->apply(event);
  if (hooks_.record != nullptr) core::append_actions(log_, actions, *engine_);
  ++events_;
  TRY_VOID(settle(actions));
  if (spec_.check) TRY_VOID(core::verify(*engine_));
  TRY_VOID(flush_log(false));
  // What can never run leaves at once; telling so gives actions of its own.
  while (!impossible_.empty()) {
    const std::uint32_t slot = impossible_.back();
    impossible_.pop_back();
    const std::string uid = jobs_[slot].uid;
    forget(slot);
    TRY_VOID(tell(core::WorkloadCancelled{uid}));
  }
  return success();
}

Result<void> Player::settle(std::span<const core::Action> actions) {
  for (const core::Action& action : actions) {
    if (const auto* granted = std::get_if<core::Granted>(&action)) {
      on(*granted);
    } else if (const auto* verdict = std::get_if<core::VerdictChanged>(&action)) {
      on(*verdict);
    } else if (const auto* evicted = std::get_if<core::Evicted>(&action)) {
      on(*evicted);
    } else if (const auto* retracted = std::get_if<core::Retracted>(&action)) {
      on(*retracted);
    } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
      plan(std::max(wake->time, now_), Kind::wake, 0);
    } else if (const auto* notice = std::get_if<core::Notice>(&action);
               notice != nullptr && notice->kind == core::Notice::Kind::refused_event) {
      return invalid_argument(notice->text);
    }
  }
  return success();
}

Result<void> Player::flush_log(bool at_end) {
  if (hooks_.record == nullptr) {
    log_.clear();
    return success();
  }
  if (at_end) core::append_end(log_);
  if (!at_end && log_.size() < kLogChunk) return success();
  TRY_VOID(hooks_.record->write(log_));
  log_.clear();
  return success();
}

// --- jobs ---

std::uint32_t Player::new_slot() {
  if (free_slots_.empty()) {
    jobs_.emplace_back();
    return static_cast<std::uint32_t>(jobs_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

// `runs` goes on counting, so that what was planned for an earlier job of the slot finds nobody.
void Player::forget(std::uint32_t slot) {
  slots_.erase(jobs_[slot].uid);
  const std::uint32_t runs = jobs_[slot].runs + 1;
  jobs_[slot] = Job();
  jobs_[slot].runs = runs;
  free_slots_.push_back(slot);
}

Result<core::Workload> Player::workload_of(const scenario::LoadStream& stream,
                                           std::string uid) const {
  if (!stream.gang) return core::Workload::task(std::move(uid), stream.request, stream.options);
  core::Gang gang;
  gang.root.members = {
      {.name = "m", .count = stream.gang->members, .request = stream.request, .priority = {}}};
  gang.root.min = stream.gang->min;
  return core::Workload::gang(std::move(uid), std::move(gang), stream.options);
}

Result<void> Player::arrive(std::uint32_t stream) {
  if (++arrived_ > kMostWeekJobs) {
    return invalid_argument(
        fmt::format("{}: the load has more than {} jobs; lower its rates or its horizon",
                    load_.file, kMostWeekJobs));
  }
  const Arrival arrival = *arriving_[stream];
  plan_arrival(stream);
  const scenario::LoadStream& description = load_.streams[stream];
  const std::uint32_t slot = new_slot();
  Job& job = jobs_[slot];
  job.uid = fmt::format("{}-{}", description.name, arrival.number);
  job.gang = description.gang.has_value();
  job.queue = queue_of_stream_[stream];
  job.submitted = job.since = job.held_since = now_;
  job.run = arrival.run;
  job.ask_after = load_.sample;
  slots_.emplace(job.uid, slot);
  recorder_->arrived(slot, now_);
  TRY(core::Workload workload, workload_of(description, job.uid));
  return tell(core::WorkloadSubmitted{std::move(workload)});
}

std::int64_t Player::held_milli(const core::Grant& grant) const {
  std::int64_t milli = 0;
  for (const core::DeviceCharge& charge : grant.charges) {
    const std::int64_t usable = engine_->fleet().device(charge.device).usable_mib();
    const bool whole = charge.exclusive || usable == 0;
    milli += whole ? kWholeMilli.count()
                   : (charge.running_mib * kWholeMilli.count() + usable - 1) / usable;
  }
  return milli;
}

// Counts the device time up to now, and so many milli-devices more from now on.
void Player::hold(std::uint32_t slot, std::int64_t milli) {
  Job& job = jobs_[slot];
  job.device_time += (now_ - job.held_since).count() * job.milli;
  job.held_since = now_;
  job.milli += milli;
  recorder_->holds(slot, milli);
}

// Members come first; the gang itself, which holds nothing, is granted with its minimum.
void Player::on(const core::Granted& granted) {
  const std::string_view uid = engine_->uid(granted.workload);
  const std::optional<std::uint32_t> slot = slot_of(uid);
  if (!slot) return;  // being taken away after the end
  if (const core::Grant* grant = engine_->grant(granted.workload)) {
    const std::int64_t milli = held_milli(*grant);
    hold(*slot, milli);
    Job& job = jobs_[*slot];
    if (uid != job.uid) {
      job.members.push_back({.uid = std::string(uid), .milli = milli});
      return;
    }
  }
  recorder_->started(*slot, now_);
  Job& job = jobs_[*slot];
  job.state = JobState::running;
  job.started = true;
  job.since = now_;
  plan(now_ + job.run, Kind::end, *slot, ++job.runs);
}

void Player::on(const core::Evicted& evicted) {
  const std::string_view uid = engine_->uid(evicted.workload);
  const std::optional<std::uint32_t> slot = slot_of(uid);
  if (!slot) return;
  Job& job = jobs_[*slot];
  if (job.told_at != events_) {  // a gang is told member by member
    const std::optional<std::uint32_t> beneficiary =
        evicted.beneficiary.is_none() ? std::nullopt : slot_of(engine_->uid(evicted.beneficiary));
    job.eviction = recorder_->evicted(*slot, evicted, beneficiary);
    job.told_at = events_;
  }
  if (uid == job.uid) job.state = JobState::leaving;
  plan(now_ + load_.grace, Kind::leave, *slot, job.runs,
       uid == job.uid ? std::string() : std::string(uid));
}

// A gang that waits again has lost its minimum, and with it its run.
void Player::on(const core::VerdictChanged& verdict) {
  const std::string_view uid = engine_->uid(verdict.workload);
  const std::optional<std::uint32_t> slot = slot_of(uid);
  if (!slot || jobs_[*slot].uid != uid) return;
  Job& job = jobs_[*slot];
  if (job.gang && job.state != JobState::waiting && verdict.outcome != core::Outcome::granted) {
    job.state = JobState::leaving;
    if (job.members.empty()) take_back(*slot);
  }
  if (job.state != JobState::waiting) return;
  recorder_->cause_changed(*slot, now_);
  if (verdict.outcome == core::Outcome::never) {
    recorder_->never(*slot, verdict.cause);
    impossible_.push_back(*slot);
    return;
  }
  job.since = now_;
  job.cause = verdict.cause;
}

// The run is over and led to nothing; the job waits again.
void Player::take_back(std::uint32_t slot) {
  hold(slot, 0);
  recorder_->lost(slot);
  Job& job = jobs_[slot];
  job.state = JobState::waiting;
  job.since = now_;
  job.cause = core::Cause::none;
  job.device_time = 0;
  ++job.runs;
}

// Waits again. Of a promise: it waits as before.
void Player::on(const core::Retracted& retracted) {
  const std::string_view uid = engine_->uid(retracted.workload);
  const std::optional<std::uint32_t> slot = slot_of(uid);
  if (!slot || jobs_[*slot].uid != uid || jobs_[*slot].state == JobState::waiting) return;
  hold(*slot, -jobs_[*slot].milli);
  take_back(*slot);
}

// --- time ---

void Player::advance_to(Time time) {
  ASSERT(time >= now_, time.ms());
  if (hooks_.played_ms != nullptr) {
    hooks_.played_ms->fetch_add((time - now_).count(), std::memory_order_relaxed);
  }
  now_ = time;
}

Result<void> Player::happen(const Item& item) {
  switch (item.kind) {
    case Kind::wake: return tell(core::TimeReached{});
    case Kind::end: return end(item);
    case Kind::leave: return leave(item);
    case Kind::arrive: return arrive(item.subject);
    case Kind::sample: plan(now_ + load_.sample, Kind::sample, 0); return take_sample();
  }
  return success();
}

Result<void> Player::end(const Item& item) {
  if (jobs_[item.subject].runs != item.runs) return success();
  hold(item.subject, -jobs_[item.subject].milli);
  recorder_->finished(item.subject);
  const std::string uid = jobs_[item.subject].uid;
  const bool gang = jobs_[item.subject].gang;
  forget(item.subject);
  // A gang ends as a whole, with members that still wait for room.
  if (gang) return tell(core::WorkloadCancelled{uid});
  return tell(core::GrantReleased{uid});
}

// Members are known by name: their gang may have begun another run.
Result<void> Player::leave(const Item& item) {
  Job& job = jobs_[item.subject];
  if (!item.member.empty()) {
    const auto member = std::ranges::find(job.members, item.member, &JobMember::uid);
    if (member == job.members.end()) return success();
    hold(item.subject, -member->milli);
    job.members.erase(member);
    if (job.members.empty() && job.state == JobState::leaving) take_back(item.subject);
    return tell(core::GrantLost{.uid = item.member, .why = "evicted", .requeue = true});
  }
  if (job.runs != item.runs || job.state != JobState::leaving) return success();
  hold(item.subject, -job.milli);
  take_back(item.subject);
  return tell(core::GrantLost{.uid = job.uid, .why = "evicted", .requeue = true});
}

Result<void> Player::take_sample() {
  for (WeekRecorder::Asked& asked : recorder_->sample(now_)) {
    Job& job = jobs_[asked.slot];
    job.sentence = std::move(asked.sentence);
    job.asked_at = now_;
    job.ask_after = job.ask_after * 2;
  }
  return success();
}

// --- the end ---

Result<WeekResult> Player::finish() {
  for (std::uint32_t slot = 0; slot < jobs_.size(); ++slot) {
    if (jobs_[slot].uid.empty()) continue;
    hold(slot, 0);
    recorder_->left_over(slot, now_);
  }
  WeekResult result = std::move(*recorder_).finish();
  result.events = events_;
  TRY_VOID(empty_the_books());
  TRY_VOID(flush_log(true));
  return result;
}

// Those that wait leave first, so that nothing starts in the room that others leave.
Result<void> Player::empty_the_books() {
  slots_.clear();
  for (const bool running : {false, true}) {
    for (Job& job : jobs_) {
      if (job.uid.empty() || (job.state != JobState::waiting) != running) continue;
      TRY_VOID(tell(core::WorkloadCancelled{job.uid}));
      job.uid.clear();
    }
  }
  TRY_VOID(core::verify(*engine_));
  const core::QueueTree& tree = engine_->queues();
  bool empty = engine_->waiting_count() == 0;
  for (std::size_t q = 0; q < tree.queue_slots(); ++q) {
    for (std::size_t d = 0; d < tree.dimensions(); ++d)
      empty = empty && tree.figures(core::QueueId(q), core::QuotaDimensionId(d)).alloc == 0;
  }
  for (std::size_t n = 0; n < engine_->ledger().node_slots(); ++n)
    empty = empty && engine_->ledger().node(core::NodeId(n)).unbooked;
  if (empty) return success();
  return Error(ErrorCode::internal,
               "everything has ended and the books still hold something; please report this with "
               "the command line and its files");
}

}  // namespace

Result<WeekResult> play_week(const WeekScene& scene, const WeekSpec& spec, const WeekHooks& hooks) {
  return Player(scene, spec, hooks).play();
}

Result<std::vector<WeekResult>> play_weeks(const WeekScene& scene,
                                           const std::vector<WeekSpec>& specs,
                                           const WeekPlan& plan) {
  ASSERT(plan.record == nullptr || specs.size() <= 1, specs.size());
  std::atomic<std::int64_t> played_ms{0};
  const auto work = [&](std::size_t run, const std::atomic<bool>& stop) {
    return play_week(scene, specs[run],
                     {.cancelled = &stop, .played_ms = &played_ms, .record = plan.record});
  };
  const auto report = [&] {
    if (plan.on_progress) plan.on_progress(played_ms.load());
  };
  return run_parallel<WeekResult>(
      {.count = specs.size(), .jobs = plan.jobs, .cancelled = plan.cancelled}, work, report);
}

}  // namespace berth::sim
