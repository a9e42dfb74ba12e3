// Who is tried next, and on which nodes.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kube/scheduler/harbour.h"
#include "kube/scheduler/others.h"
#include "kube/scheduler/place_rules.h"

namespace berth::kube {

namespace {

constexpr int kMostRounds = 16;
// A set of nodes is not computed anew at every pod that comes or goes: what it lets in wrongly is
// found when the grant comes, and what it keeps out can wait so long.
constexpr Duration kLookAgain{500};

std::string counted(const std::map<std::string, std::int64_t>& words) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(words.begin(), words.end());
  std::ranges::stable_sort(sorted, {}, [](const auto& entry) { return -entry.second; });
  std::string text;
  for (const auto& [word, count] : sorted) {
    fmt::format_to(std::back_inserter(text), "{}{} {}", text.empty() ? "" : ", ", count, word);
  }
  return text;
}

}  // namespace

// Everything that was told since the last time, then everything that may go somewhere else.
void Harbour::settle(Time now) {
  tick(now);
  if (!ready_) {
    return;
  }
  settle_crowded(now);
  for (int round = 0; round < kMostRounds && !fresh_.empty(); ++round) {
    try_fresh(now);
  }
  look_again(now);
  for (int round = 0; round < kMostRounds && !fresh_.empty(); ++round) {
    try_fresh(now);
  }
  const std::set<NodeIndex> unbooked = std::exchange(unbooked_on_, {});
  for (const NodeIndex node : unbooked) {
    book_all_on(node, now);
  }
  const std::set<std::string> to_tell = std::exchange(to_tell_, {});
  for (const std::string& id : to_tell) {
    if (PodRecord* record = find(id)) {
      tell(*record, now);
    }
  }
}

void Harbour::try_fresh(Time now) {
  std::vector<PodRecord*> batch;
  for (const std::string& id : std::exchange(fresh_, {})) {
    PodRecord* record = find(id);
    if (record != nullptr && record->phase == PodPhase::kept && record->plan != nullptr &&
        record->not_before <= now) {
      batch.push_back(record);
    }
  }
  std::ranges::stable_sort(batch, [](const PodRecord* a, const PodRecord* b) {
    const std::int64_t first = a->plan->options.priority;
    const std::int64_t second = b->plan->options.priority;
    return first != second ? first > second : a->created_ms < b->created_ms;
  });
  for (PodRecord* record : batch) {
    submit(*record, now);
  }
}

std::uint64_t Harbour::versions(std::uint32_t grounds) const {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < static_cast<unsigned>(Ground::kCount); ++i) {
    const auto ground = static_cast<Ground>(i);
    sum += (grounds & bit(ground)) != 0 ? census_.version(ground) : 0;
  }
  return sum;
}

// Which nodes the rules of this room leave to a pod.
Harbour::Openings Harbour::room_for(const PodRecord& record) const {
  Openings room;
  const PlaceRules rules(census_, record.facts);
  room.grounds = rules.grounds();
  room.waits = rules.waits();
  if (!rules.apply() || !room.waits.empty()) {
    return room;
  }
  for (NodeIndex i = 0; i < census_.node_slots(); ++i) {
    const NodeFacts& node = census_.node(i);
    if (!node.present) {
      continue;
    }
    const std::string_view word = rules.refusal(i);
    if (word.empty()) {
      room.open.push_back(node.name);
    } else {
      room.shut.push_back(node.name);
      ++room.closed[std::string(word)];
    }
  }
  std::ranges::sort(room.open);
  std::ranges::sort(room.shut);
  return room;
}

void Harbour::keep(PodRecord& record, Words words) {
  record.phase = PodPhase::kept;
  record.kept = std::move(words);
  to_tell_.insert(record.facts.id);
}

// Gives the pod to the engine, with the nodes that it may use; or keeps it back.
void Harbour::submit(PodRecord& record, Time now) {
  Openings room = room_for(record);
  record.grounds = room.grounds;
  record.grounds_at = versions(room.grounds);
  record.looked_at = now;
  record.closed = room.closed;
  if (room.grounds != 0) {
    rule_bound_.insert(record.facts.id);
  }
  if (!room.waits.empty()) {
    keep(record, {.reason = "Unschedulable", .message = room.waits});
    return;
  }
  core::RequestSpec spec = record.plan->request.spec();
  record.restricted = !room.shut.empty();
  if (record.restricted && room.open.empty()) {
    keep(record, {.reason = "Unschedulable",
                  .message = fmt::format("the rules of the pod and its neighbours leave no node. "
                                         "0/{} nodes: {}.",
                                         room.shut.size(), counted(room.closed))});
    return;
  }
  if (record.restricted && room.shut.size() < room.open.size()) {
    spec.nodes.labels.push_back({.key = std::string(kNodeNameLabel),
                                 .op = core::LabelRule::Op::not_in,
                                 .values = room.shut});
  } else if (record.restricted) {
    spec.nodes.labels.push_back(
        {.key = std::string(kNodeNameLabel), .op = core::LabelRule::Op::in, .values = room.open});
  }
  record.open = std::move(room.open);
  core::WorkloadOptions options = record.plan->options;
  options.queued_at = Time(record.created_ms);
  auto request = record.restricted ? core::Request::create(std::move(spec))
                                   : Result<core::Request>(record.plan->request);
  if (!request.ok()) {
    record.phase = PodPhase::refused;
    record.kept = {.reason = "SchedulerError", .message = request.error().message()};
    to_tell_.insert(record.facts.id);
    return;
  }
  record.phase = PodPhase::waiting;
  run(core::WorkloadSubmitted{core::Workload::task(record.facts.id, *std::move(request),
                                                   std::move(options))},
      now);
  if (record.phase == PodPhase::waiting && !engine_->outcome(record.facts.id).has_value()) {
    record.phase = PodPhase::refused;
    record.kept = {.reason = "SchedulerError",
                   .message = "the scheduler does not take this pod; its log says why"};
    to_tell_.insert(record.facts.id);
  }
}

// The engine has nothing to do with it any more.
void Harbour::leave_engine(PodRecord& record, Time now) {
  const bool known = record.phase == PodPhase::waiting || record.booked;
  record.booked = false;
  if (record.way != nullptr) {
    record.way.reset();
    unseen_.erase(record.facts.id);
  }
  if (record.phase == PodPhase::waiting || record.phase == PodPhase::granted ||
      record.phase == PodPhase::preparing || record.phase == PodPhase::sent ||
      record.phase == PodPhase::bound) {
    record.phase = PodPhase::kept;
  }
  if (known) {
    run(core::WorkloadCancelled{record.facts.id}, now);
  }
}

// Pods whose nodes depend on what has changed meanwhile.
void Harbour::look_again(Time now) {
  std::vector<std::string> done;
  const std::set<std::string> bound_by_rules = rule_bound_;
  for (const std::string& id : bound_by_rules) {
    PodRecord* record = find(id);
    if (record == nullptr || record->plan == nullptr ||
        (record->phase != PodPhase::kept && record->phase != PodPhase::waiting)) {
      rule_bound_.erase(id);
      continue;
    }
    if (versions(record->grounds) == record->grounds_at || record->not_before > now) {
      continue;
    }
    if (now < record->looked_at + kLookAgain) {
      set_timer(record->looked_at + kLookAgain, Alarm::again, *record);
      continue;
    }
    if (record->phase == PodPhase::kept) {
      fresh_.insert(id);
      continue;
    }
    const Openings room = room_for(*record);
    record->looked_at = now;
    record->grounds_at = versions(room.grounds);
    if (!room.waits.empty() || room.open != record->open) {
      leave_engine(*record, now);
      fresh_.insert(id);
    }
  }
}

}  // namespace berth::kube
