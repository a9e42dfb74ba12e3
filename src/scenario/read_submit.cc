// What arrives: tasks and gangs, members that join, tasks that run already.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "scenario/gang_keys.h"
#include "scenario/request_words.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

core::WorkloadOptions& options_of(SubmitDraft& draft) { return draft.submit.options; }

core::WorkloadOptions& options_of(AdoptDraft& draft) { return draft.adopt.options; }

// --- options that a task has however it came ---

template <typename T>
Result<void> read_priority(const Value& value, T& into) {
  TRY(options_of(into).priority, value.number(-1'000'000'000, 1'000'000'000));
  return success();
}

template <typename T>
Result<void> read_preemptible(const Value& value, T& into) {
  TRY(options_of(into).preemptible, value.truth());
  return success();
}

template <typename T>
Result<void> read_restartable(const Value& value, T& into) {
  TRY(options_of(into).restartable, value.truth());
  return success();
}

template <typename T>
Result<void> read_backfill(const Value& value, T& into) {
  TRY(options_of(into).backfill, value.truth());
  return success();
}

template <typename T>
Result<void> read_queue(const Value& value, T& into) {
  TRY(options_of(into).queue, value.word());
  return success();
}

// A name that nobody registered is the engine's to refuse.
template <typename T>
Result<void> read_policy(const Value& value, T& into) {
  TRY(options_of(into).policy, value.word());
  return success();
}

template <typename T>
Result<void> read_max_run(const Value& value, T& into) {
  TRY(options_of(into).max_run, value.duration());
  return success();
}

constexpr KeyDoc kPreemptibleKey{
    "preemptible", "true or false",
    "whether it may be ended for others; false when not said. Under `priorityRule: kai` its "
    "priority says so",
    "true"};
constexpr KeyDoc kRestartableKey{
    "restartable", "true or false",
    "whether something starts it again when it is ended: it waits then with its old age, and may "
    "be moved; true when not said",
    "false"};
constexpr KeyDoc kBackfillKey{
    "backfill", "true or false",
    "it may fill the gap before a reservation and leaves when that is due; false when not said",
    "true"};
constexpr KeyDoc kQueueKey{"queue", "name", "the leaf it belongs to; `default` when not said",
                           "default"};

// --- submit ---

template <std::optional<Duration> core::GangOptions::* kOption>
Result<void> read_gang_time(const Value& value, SubmitDraft& draft) {
  TRY(draft.gang_options.*kOption, value.duration());
  draft.has_gang_options = true;
  return success();
}

Result<void> read_stale_grace(const Value& value, SubmitDraft& draft) {
  if (value.node().text != "never") {
    return read_gang_time<&core::GangOptions::stale_grace>(value, draft);
  }
  draft.gang_options.stale_grace = Duration{-1};
  draft.has_gang_options = true;
  return success();
}

constexpr std::array kSubmitKeys = {
    Key<SubmitDraft>{
        {"uid", "name", "the task's name; `job-1..9` submits nine alike", "train-1..3", true},
        [](const Value& value, SubmitDraft& draft) -> Result<void> {
          TRY(draft.submit.uids, value.names());
          return success();
        }},
    Key<SubmitDraft>{{"priority", "number", "higher is served first; 0 when not said", "100"},
                     read_priority<SubmitDraft>},
    Key<SubmitDraft>{kPreemptibleKey, read_preemptible<SubmitDraft>},
    Key<SubmitDraft>{kRestartableKey, read_restartable<SubmitDraft>},
    Key<SubmitDraft>{kBackfillKey, read_backfill<SubmitDraft>},
    Key<SubmitDraft>{
        {"preemption_delay", "duration",
         "nothing is ended for it before it has waited so long; 0s when not said", "10min"},
        [](const Value& value, SubmitDraft& draft) -> Result<void> {
          TRY(draft.submit.options.preemption_delay, value.duration());
          return success();
        }},
    Key<SubmitDraft>{{"max_run", "duration", "how long it runs at most, from its grant", "30min"},
                     read_max_run<SubmitDraft>},
    Key<SubmitDraft>{kQueueKey, read_queue<SubmitDraft>},
    Key<SubmitDraft>{{"policy", "text",
                      "how its place is chosen: a name of `berth policies`, or "
                      "`nodes=X,devices=Y`; as its queue says when not said",
                      "spread"},
                     read_policy<SubmitDraft>},
    Key<SubmitDraft>{{"queued_at", "duration",
                      "it has waited since this time of the scenario; a task that "
                      "is submitted again keeps its age so",
                      "0s"},
                     [](const Value& value, SubmitDraft& draft) -> Result<void> {
                       TRY(const Duration at, value.duration());
                       draft.submit.options.queued_at = Time{at.count()};
                       return success();
                     }},
    Key<SubmitDraft>{{"wait_timeout", "duration",
                      "it gives up after waiting so long; 0s = now or never", "10min"},
                     [](const Value& value, SubmitDraft& draft) -> Result<void> {
                       TRY(draft.submit.options.wait_timeout, value.duration());
                       return success();
                     }},
    Key<SubmitDraft>{{"confirm_within", "duration",
                      "its grant is taken back when nobody confirms it in "
                      "time",
                      "5min"},
                     [](const Value& value, SubmitDraft& draft) -> Result<void> {
                       TRY(draft.submit.options.confirm_within, value.duration());
                       return success();
                     }},
    Key<SubmitDraft>{kMembersKey, read_members<SubmitDraft>},
    Key<SubmitDraft>{kMinKey, read_min<SubmitDraft>},
    Key<SubmitDraft>{kCountKey, read_count<SubmitDraft>},
    Key<SubmitDraft>{kGroupsKey, read_groups<SubmitDraft>},
    Key<SubmitDraft>{kMinGroupsKey, read_min_groups<SubmitDraft>},
    Key<SubmitDraft>{kTopologyKey, read_topology_rule<SubmitDraft>},
    Key<SubmitDraft>{{"stale_grace", "duration",
                      "how long a gang may stay below its minimum before all of it is ended; "
                      "`never`; 60s when not said",
                      "60s"},
                     read_stale_grace},
    Key<SubmitDraft>{{"start_timeout", "duration",
                      "a gang that does not run so long after its grant is ended; 30min when not "
                      "said",
                      "30min"},
                     read_gang_time<&core::GangOptions::start_timeout>},
    Key<SubmitDraft>{{"recovery_timeout", "duration",
                      "the same after a later failure; 30min when not said", "30min"},
                     read_gang_time<&core::GangOptions::recovery_timeout>},
    Key<SubmitDraft>{{"whole_only", "true or false",
                      "the members above the minimum leave only with all others; false when not "
                      "said",
                      "true"},
                     [](const Value& value, SubmitDraft& draft) -> Result<void> {
                       TRY(draft.gang_options.whole_only, value.truth());
                       draft.has_gang_options = true;
                       return success();
                     }},
    Key<SubmitDraft>{{"refused", "text",
                      "expects that the request is refused, with this reason code or these words",
                      "BadFraction"},
                     [](const Value& value, SubmitDraft& draft) -> Result<void> {
                       TRY(std::string code, value.word());
                       draft.submit.refusal = Named{std::move(code), value.place()};
                       return success();
                     }},
};

// The request of a task, or the tree of a gang.
Result<void> finish_workload(SubmitDraft& draft, std::string_view file) {
  if (!draft.is_gang) {
    if (draft.has_gang_options) {
      return yaml::error_at(file, draft.submit.place.line, draft.submit.place.column,
                            "only a gang has stale_grace, start_timeout, recovery_timeout and "
                            "whole_only: give it `members` or `groups`");
    }
    TRY(draft.submit.request, request_from_entries(draft.root.words, file));
    return success();
  }
  core::Gang gang{.root = {}, .options = draft.gang_options};
  TRY(gang.root, finish_group(draft.root, {}, file));
  if (const auto good = core::check_group(gang.root); !good.ok()) {
    return yaml::error_at(file, draft.submit.place.line, draft.submit.place.column,
                          good.error().message());
  }
  draft.submit.gang = std::move(gang);
  return success();
}

Result<Submit> read_one_submit(const Value& value) {
  SubmitDraft draft;
  draft.submit.place = value.place();
  TRY_VOID(read_section(submit_section(), value, draft));
  if (const yaml::Node* written = value.node().find("annotations");
      written != nullptr && written->is_map()) {
    for (const yaml::Entry& entry : written->entries) {
      draft.submit.annotations[entry.key] = entry.value.text;  // also empty: that is refused below
    }
  }
  if (auto finished = finish_workload(draft, value.file()); !finished.ok()) {
    if (!draft.submit.refusal) return std::move(finished).error();
    draft.submit.refused_as = finished.error().message();
  }
  return std::move(draft.submit);
}

// --- adopt ---

constexpr std::array kAdoptKeys = {
    Key<AdoptDraft>{{"uid", "name", "the task that runs already", "left-over", true},
                    [](const Value& value, AdoptDraft& draft) -> Result<void> {
                      TRY(draft.adopt.uid, value.word());
                      return success();
                    }},
    Key<AdoptDraft>{{"on", "list of device", "where it runs", "n0/g1", true},
                    [](const Value& value, AdoptDraft& draft) -> Result<void> {
                      TRY(draft.adopt.devices, value.names());
                      return success();
                    }},
    Key<AdoptDraft>{{"confirmed", "true or false", "true when not said", "false"},
                    [](const Value& value, AdoptDraft& draft) -> Result<void> {
                      TRY(draft.adopt.confirmed, value.truth());
                      return success();
                    }},
    Key<AdoptDraft>{
        {"foreign", "true or false",
         "somebody else's: it counts in no queue and is never asked to leave; false when not said",
         "true"},
        [](const Value& value, AdoptDraft& draft) -> Result<void> {
          TRY(draft.adopt.options.foreign, value.truth());
          return success();
        }},
    Key<AdoptDraft>{{"priority", "number", "0 when not said", "100"}, read_priority<AdoptDraft>},
    Key<AdoptDraft>{kPreemptibleKey, read_preemptible<AdoptDraft>},
    Key<AdoptDraft>{kRestartableKey, read_restartable<AdoptDraft>},
    Key<AdoptDraft>{kBackfillKey, read_backfill<AdoptDraft>},
    Key<AdoptDraft>{kQueueKey, read_queue<AdoptDraft>},
    Key<AdoptDraft>{{"max_run", "duration", "how long it runs at most, from now", "30min"},
                    read_max_run<AdoptDraft>},
};

// --- join ---

constexpr std::array kJoinKeys = {
    Key<JoinDraft>{{"uid", "name", "the gang", "job", true},
                   [](const Value& value, JoinDraft& draft) -> Result<void> {
                     TRY(draft.uid, value.word());
                     return success();
                   }},
    Key<JoinDraft>{
        {"group", "name", "the group they belong to; without it the only one there is", "workers"},
        [](const Value& value, JoinDraft& draft) -> Result<void> {
          TRY(draft.group, value.word());
          return success();
        }},
    Key<JoinDraft>{{"members", "member", "who joins: the keys of 'member'",
                    "{name: late, count: 2, gpu_memory: 4GiB}", true},
                   [](const Value& value, JoinDraft& draft) -> Result<void> {
                     draft.member.place = value.place();
                     return read_section(member_section(), value, draft.member);
                   }},
};

void take_submit_word(const yaml::Entry& entry, SubmitDraft& draft) {
  draft.root.words.push_back(&entry);
}

void take_adopt_word(const yaml::Entry& entry, AdoptDraft& draft) { draft.words.push_back(&entry); }

constexpr Section<SubmitDraft> kSubmit{
    "submit",
    "A task arrives, or a gang: several that start together. Beside these keys stand the words of "
    "its request, of a gang those of every member that does not say them itself.",
    kSubmitKeys, request_keys, take_submit_word};
constexpr Section<AdoptDraft> kAdopt{
    "adopt",
    "A task is found that runs already. Beside these keys stand the words of its request, which it "
    "holds on every device.",
    kAdoptKeys, request_keys, take_adopt_word};
constexpr Section<JoinDraft> kJoin{"join", "More members of a gang exist.", kJoinKeys};

}  // namespace

const Section<SubmitDraft>& submit_section() { return kSubmit; }

const Section<AdoptDraft>& adopt_section() { return kAdopt; }

const Section<JoinDraft>& join_section() { return kJoin; }

Result<void> read_submit(const Value& value, Step& step) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    TRY(Submit submit, read_one_submit(item));
    step.deeds.emplace_back(std::move(submit));
  }
  return success();
}

Result<void> read_submit_together(const Value& value, Step& step) {
  SubmitTogether together{.place = value.place()};
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    TRY(Submit submit, read_one_submit(item));
    if (submit.refusal) {
      return item.error("what is refused never arrives: write `refused` below `submit`");
    }
    together.submits.push_back(std::move(submit));
  }
  step.deeds.emplace_back(std::move(together));
  return success();
}

Result<void> read_adopt(const Value& value, Step& step) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    AdoptDraft draft;
    draft.adopt.place = item.place();
    TRY_VOID(read_section(adopt_section(), item, draft));
    TRY(draft.adopt.request, request_from_entries(draft.words, item.file()));
    step.deeds.emplace_back(std::move(draft.adopt));
  }
  return success();
}

Result<void> read_join(const Value& value, Step& step) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    JoinDraft draft;
    TRY_VOID(read_section(join_section(), item, draft));
    Join join{.place = item.place(), .uid = draft.uid, .group = draft.group, .members = {}};
    TRY(join.members, finish_member(draft.member, {}, item.file()));
    step.deeds.emplace_back(std::move(join));
  }
  return success();
}

}  // namespace berth::scenario
