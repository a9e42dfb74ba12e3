// The tables of the words that describe a queue.
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "config/amount.h"
#include "config/instant.h"
#include "config/queue_file.h"
#include "core/placement/class_counts.h"
#include "core/placement/registry.h"
#include "request/reason.h"

namespace berth::config {

namespace {

using core::EvictionCaps;
using core::QueueAging;
using core::QueueHistory;

constexpr std::int64_t kMostNumber = 1'000'000'000;

template <typename T>
using Words = std::span<const std::pair<std::string_view, T>>;

// --- dimensions ---------------------------------------------------------------------------------

enum class Unlimited : std::uint8_t { allowed, refused };

Result<std::int64_t> amount_of(const Value& value, core::DimensionKind kind, Unlimited unlimited) {
  TRY(const std::string text, value.word());
  if (text == "unlimited" || text == "-1") {
    if (unlimited == Unlimited::allowed) return core::kUnlimited;
    return value.error("an amount is expected: this one cannot be unlimited");
  }
  auto amount = parse_amount(text, kind);
  if (amount.ok()) return amount;
  return value.error(amount.error().message() +
                     (unlimited == Unlimited::allowed ? "; or -1 (unlimited)" : ""));
}

constexpr std::array kDimensionKeys = {
    Key<DimensionDraft>{{"deserved", "amount",
                         "guaranteed when asked for; 0 when not said; `unlimited` (-1): nothing of "
                         "this queue is ever taken back in this dimension",
                         "20"},
                        [](const Value& value, DimensionDraft& draft) -> Result<void> {
                          draft.places["deserved"] = value.place();
                          TRY(draft.dimension.deserved,
                              amount_of(value, draft.dimension.kind, Unlimited::allowed));
                          return success();
                        }},
    Key<DimensionDraft>{
        {"limit", "amount", "never more than this; `unlimited` (-1) when not said", "40"},
        [](const Value& value, DimensionDraft& draft) -> Result<void> {
          draft.places["limit"] = value.place();
          TRY(draft.dimension.limit, amount_of(value, draft.dimension.kind, Unlimited::allowed));
          return success();
        }},
    Key<DimensionDraft>{{"reserved", "amount",
                         "the part of deserved that is kept free even when nobody here asks for "
                         "it; 0 when not said",
                         "4"},
                        [](const Value& value, DimensionDraft& draft) -> Result<void> {
                          draft.places["reserved"] = value.place();
                          TRY(draft.dimension.reserved,
                              amount_of(value, draft.dimension.kind, Unlimited::refused));
                          return success();
                        }},
    Key<DimensionDraft>{{"weight", "number",
                         "share of what nobody deserves, against the siblings of the same "
                         "priority; 0 to 10000, 0: never above deserved; 1 when not said",
                         "3"},
                        [](const Value& value, DimensionDraft& draft) -> Result<void> {
                          TRY(draft.dimension.weight, value.number(0, core::kMostWeight));
                          return success();
                        }},
};

constexpr std::array<std::pair<std::string_view, core::DimensionKind>, 3> kKinds = {
    {{"memory", core::DimensionKind::memory},
     {"devices", core::DimensionKind::devices},
     {"compute", core::DimensionKind::compute}}};

Error bad_dimension(const Named& name, const Value& value, std::string_view rule) {
  return yaml::error_at(value.file(), name.place.line, name.place.column,
                        fmt::format("dims '{}': {}", request::printable(name.text), rule));
}

// "a100-80g/memory"
Result<core::QueueDimension> dimension_of(const Named& name, const Value& value) {
  const std::size_t slash = name.text.rfind('/');
  if (slash == 0 || slash == std::string::npos) {
    return bad_dimension(name, value,
                         "a dimension is CLASS/memory, CLASS/devices or CLASS/compute, where CLASS "
                         "is a device model or * for all: \"*/devices\"");
  }
  core::QueueDimension dimension{.device_class = name.text.substr(0, slash)};
  std::vector<std::string_view> known;
  for (const auto& [word, kind] : kKinds) {
    dimension.kind = kind;
    if (name.text.substr(slash + 1) == word) return dimension;
    known.push_back(word);
  }
  return bad_dimension(
      name, value,
      fmt::format("the part after the '/' is not a dimension; {}",
                  suggestion(std::string_view(name.text).substr(slash + 1), known)));
}

// What one dimension says of itself must hold together; amounts are shown as they are written.
void check_dimension(const Value& value, const DimensionDraft& draft, const std::string& path,
                     std::vector<Error>& errors) {
  const core::QueueDimension& d = draft.dimension;
  const auto complain = [&](const char* field, std::int64_t amount, std::string_view rule) {
    const auto place = draft.places.find(field);
    const Place at = place == draft.places.end() ? value.place() : place->second;
    errors.push_back(yaml::error_at(
        value.file(), at.line, at.column,
        fmt::format("{}.{} '{}': {}", path, field, amount_text(amount, d.kind), rule)));
  };
  const auto above = [](std::int64_t amount, std::int64_t bound) {
    return bound != core::kUnlimited && amount > bound;
  };
  if (above(d.deserved, d.limit)) {
    complain("deserved", d.deserved,
             fmt::format("above the limit {}; raise the limit or lower deserved",
                         amount_text(d.limit, d.kind)));
  }
  if (above(d.reserved, d.deserved)) {
    complain("reserved", d.reserved,
             fmt::format("above deserved {}, of which it is a part; lower it",
                         amount_text(d.deserved, d.kind)));
  } else if (above(d.reserved, d.limit)) {
    complain("reserved", d.reserved,
             fmt::format("above the limit {}; lower it", amount_text(d.limit, d.kind)));
  }
}

Result<void> read_dimensions(const Value& value, QueueDraft& draft) {
  TRY(const auto entries, value.entries());
  for (const auto& [name, inner] : entries) {
    auto dimension = dimension_of(name, value);
    if (!dimension.ok()) {
      draft.errors.push_back(std::move(dimension).error());
      continue;
    }
    DimensionDraft read{.dimension = *std::move(dimension)};
    const std::string path = "dims." + name.text;
    draft.places[path] = name.place;
    std::vector<Error> errors = read_whole_section(dimension_section(), inner, read);
    if (errors.empty()) check_dimension(inner, read, path, errors);
    for (const auto& [field, place] : read.places)
      draft.places[path + "." + field] = place;
    for (Error& error : errors)
      draft.errors.push_back(std::move(error));
    draft.spec.dimensions.push_back(std::move(read.dimension));
  }
  return success();
}

// --- small parts --------------------------------------------------------------------------------

constexpr std::array kProtectionKeys = {
    Key<ProtectionDraft>{
        {"reclaim", "duration", "against being ended for another queue; 0s when not said", "30min"},
        [](const Value& value, ProtectionDraft& draft) -> Result<void> {
          TRY(draft.reclaim, value.duration());
          return success();
        }},
    Key<ProtectionDraft>{
        {"preempt", "duration", "against being ended for work of the same queue; 0s when not said",
         "5min"},
        [](const Value& value, ProtectionDraft& draft) -> Result<void> {
          TRY(draft.preempt, value.duration());
          return success();
        }},
};

Error bad_class(const Named& name, const Value& value, std::string_view rule) {
  return yaml::error_at(value.file(), name.place.line, name.place.column,
                        fmt::format("classes '{}': {}", request::printable(name.text), rule));
}

Result<void> read_classes(const Value& value, MinRuntimeDraft& draft) {
  TRY(const auto entries, value.entries());
  for (const auto& [name, inner] : entries) {
    const bool negative = name.text.starts_with('-');
    const auto count =
        parse_count(std::string_view(name.text).substr(negative ? 1 : 0), kMostNumber);
    if (!count.ok()) {
      draft.errors.push_back(bad_class(
          name, value,
          fmt::format("the lowest priority that the class begins with is expected, a whole "
                      "number from -{0} to {0}: 100",
                      kMostNumber)));
      continue;
    }
    ProtectionDraft read;
    for (Error& error : read_whole_section(protection_section(), inner, read))
      draft.errors.push_back(std::move(error));
    if (!draft.classes.try_emplace(negative ? -*count : *count, read).second) {
      draft.errors.push_back(bad_class(name, value, "the class is given twice; keep one"));
    }
  }
  return success();
}

constexpr std::array kMinRuntimeKeys = {
    Key<MinRuntimeDraft>{kProtectionKeys[0].doc,
                         [](const Value& value, MinRuntimeDraft& draft) -> Result<void> {
                           return kProtectionKeys[0].read(value, draft.plain);
                         }},
    Key<MinRuntimeDraft>{kProtectionKeys[1].doc,
                         [](const Value& value, MinRuntimeDraft& draft) -> Result<void> {
                           return kProtectionKeys[1].read(value, draft.plain);
                         }},
    Key<MinRuntimeDraft>{{"classes", "map of protection",
                          "the same by priority: for work of at least the priority that is the "
                          "key; the highest that applies counts, and what it leaves out is as "
                          "without it",
                          "{100: {reclaim: 30min}}"},
                         read_classes},
};

Result<void> read_min_runtime(const Value& value, QueueDraft& draft) {
  MinRuntimeDraft read;
  for (Error& error : read_whole_section(min_runtime_section(), value, read))
    draft.errors.push_back(std::move(error));
  for (Error& error : read.errors)
    draft.errors.push_back(std::move(error));
  core::MinRuntime& into = draft.spec.min_runtime;
  into.reclaim = read.plain.reclaim.value_or(Duration{0});
  into.preempt = read.plain.preempt.value_or(Duration{0});
  for (const auto& [at_least, protection] : read.classes) {
    into.by_priority.push_back({.at_least = at_least,
                                .reclaim = protection.reclaim.value_or(into.reclaim),
                                .preempt = protection.preempt.value_or(into.preempt)});
  }
  return success();
}

constexpr std::array kHistoryKeys = {
    Key<QueueHistory>{
        {"halfLife", "duration", "after so long past use counts half; at least 1s", "7d", true},
        [](const Value& value, QueueHistory& history) -> Result<void> {
          TRY(history.half_life, value.duration());
          if (history.half_life < Duration{1000}) return value.error("at least 1s is expected: 7d");
          return success();
        }},
    Key<QueueHistory>{{"k", "number",
                       "how much it counts, in thousandths, 0 to 10000; 1000 when not said", "500"},
                      [](const Value& value, QueueHistory& history) -> Result<void> {
                        TRY(history.k, value.number(0, 10'000));
                        return success();
                      }},
};

constexpr std::array kQueueAgingKeys = {
    Key<QueueAging>{
        {"step", "duration", "one point of priority for each; 10min when not said", "10min"},
        [](const Value& value, QueueAging& aging) -> Result<void> {
          TRY(aging.step, value.duration());
          if (aging.step.count() == 0) return value.error("must be above zero: 10min");
          return success();
        }},
    Key<QueueAging>{{"max", "number", "at most so many points; 0: none; 10 when not said", "10"},
                    [](const Value& value, QueueAging& aging) -> Result<void> {
                      TRY(aging.max, value.number(0, kMostNumber));
                      return success();
                    }},
};

Result<std::int64_t> cap_of(const Value& value) {
  if (value.node().text == "unlimited") return core::kNoCap;
  return value.number(core::kNoCap, kMostNumber);
}

constexpr std::array kEvictionKeys = {
    Key<EvictionCaps>{{"perWorkloadPerHour", "number",
                       "how often one workload may be ended in an hour; `unlimited` (-1); 3 when "
                       "not said",
                       "3"},
                      [](const Value& value, EvictionCaps& caps) -> Result<void> {
                        TRY(caps.per_workload_per_hour, cap_of(value));
                        return success();
                      }},
    Key<EvictionCaps>{{"perClaim", "number",
                       "how many may be ended so that one can start; unlimited when not said", "8"},
                      [](const Value& value, EvictionCaps& caps) -> Result<void> {
                        TRY(caps.per_claim, cap_of(value));
                        return success();
                      }},
};

// --- the queue ----------------------------------------------------------------------------------

constexpr std::array<std::pair<std::string_view, core::QueueOrder>, 3> kOrders = {
    {{"fifo", core::QueueOrder::fifo},
     {"strict", core::QueueOrder::strict},
     {"bestEffort", core::QueueOrder::best_effort}}};
constexpr std::array<std::pair<std::string_view, core::ReclaimRight>, 3> kReclaims = {
    {{"never", core::ReclaimRight::never},
     {"guarantee", core::ReclaimRight::guarantee},
     {"fairShare", core::ReclaimRight::fair_share}}};
constexpr std::array<std::pair<std::string_view, core::PreemptRight>, 2> kPreempts = {
    {{"never", core::PreemptRight::never}, {"lowerPriority", core::PreemptRight::lower_priority}}};
constexpr std::array<std::pair<std::string_view, core::QueueStop>, 3> kStops = {
    {{"none", core::QueueStop::none},
     {"hold", core::QueueStop::hold},
     {"holdAndDrain", core::QueueStop::hold_and_drain}}};

Result<void> read_cap(const Value& value, QueueDraft& draft) {
  if (draft.spec.device_cap) return value.error("deviceCap and device_cap are one key: keep one");
  TRY(draft.spec.device_cap, value.number(1, core::kMostDeviceCap));
  return success();
}

Result<void> read_created(const Value& value, QueueDraft& draft) {
  TRY(const std::string text, value.word());
  if (const auto instant = parse_instant(text); instant.ok()) {
    draft.spec.created = *instant;
    return success();
  }
  const auto duration = parse_duration(text);
  if (!duration.ok()) {
    return value.error(
        "a date and time in UTC is expected, 2026-01-31T10:00:00Z; or a duration after the start "
        "of a scenario, 5min");
  }
  draft.spec.created = Time{duration->count()};
  return success();
}

constexpr std::array kQueueKeys = {
    Key<QueueDraft>{{"name", "text",
                     "unique in the whole tree, without '/'; `root` sets the fields of the root, "
                     "which is always there",
                     "research", true},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      draft.places["name"] = value.place();
                      TRY(draft.spec.name, value.word());
                      return success();
                    }},
    Key<QueueDraft>{{"parent", "text", "the queue above; `root` when not said", "research"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      draft.places["parent"] = value.place();
                      TRY(draft.spec.parent, value.word());
                      return success();
                    }},
    Key<QueueDraft>{{"priority", "number",
                     "between siblings: what nobody deserves goes to the higher first, and so does "
                     "the next place; 100 when not said",
                     "200"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.priority, value.number(-kMostNumber, kMostNumber));
                      return success();
                    }},
    Key<QueueDraft>{{"dims", "map of dimension",
                     "quotas, by `CLASS/memory`, `CLASS/devices` and `CLASS/compute`; CLASS is a "
                     "device model of the fleet, or `*` for all devices together (in quotes)",
                     "{\"*/devices\": {deserved: 20, limit: 40}}"},
                    read_dimensions},
    Key<QueueDraft>{{"order", "fifo, strict or bestEffort",
                     "`fifo`: the first that waits keeps a place, others may pass it without "
                     "delaying it; `strict`: nothing passes it in its pool; `bestEffort`: whatever "
                     "fits starts; fifo when not said",
                     "strict"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.order, value.choice(Words<core::QueueOrder>(kOrders)));
                      return success();
                    }},
    Key<QueueDraft>{{"reclaim", "never, guarantee or fairShare",
                     "what this queue may take back from others: nothing, what it deserves, or "
                     "its fair share; fairShare when not said",
                     "guarantee"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.reclaim, value.choice(Words<core::ReclaimRight>(kReclaims)));
                      return success();
                    }},
    Key<QueueDraft>{{"preempt", "never or lowerPriority",
                     "whether work of this queue may end work of lower priority in it; "
                     "lowerPriority when not said",
                     "never"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.preempt, value.choice(Words<core::PreemptRight>(kPreempts)));
                      return success();
                    }},
    Key<QueueDraft>{{"minRuntime", "map", "how long running work is protected",
                     "{reclaim: 10min, preempt: 5min}"},
                    read_min_runtime},
    Key<QueueDraft>{{"preemptionDelay", "duration",
                     "work ends nothing before it has waited so long; 0s when not said", "2min"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.preemption_delay, value.duration());
                      return success();
                    }},
    Key<QueueDraft>{
        {"history", "map", "past use lowers the share of what nobody deserves; off when not said",
         "{halfLife: 7d, k: 1000}"},
        [](const Value& value, QueueDraft& draft) -> Result<void> {
          core::QueueHistory history;
          for (Error& error : read_whole_section(history_section(), value, history))
            draft.errors.push_back(std::move(error));
          draft.spec.history = history;
          return success();
        }},
    Key<QueueDraft>{{"aging", "map", "how waiting raises priority", "{step: 10min, max: 10}"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      for (Error& error :
                           read_whole_section(queue_aging_section(), value, draft.spec.aging))
                        draft.errors.push_back(std::move(error));
                      return success();
                    }},
    Key<QueueDraft>{{"evictions", "map",
                     "caps on ending work for a fair share, for priority or to make room; not on "
                     "getting back what is deserved",
                     "{perWorkloadPerHour: 3, perClaim: -1}"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      for (Error& error :
                           read_whole_section(evictions_section(), value, draft.spec.evictions))
                        draft.errors.push_back(std::move(error));
                      return success();
                    }},
    Key<QueueDraft>{{"stop", "none, hold or holdAndDrain",
                     "`hold`: nothing starts here or below; `holdAndDrain`: and what runs is "
                     "ended; none when not said",
                     "hold"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.stop, value.choice(Words<core::QueueStop>(kStops)));
                      return success();
                    }},
    Key<QueueDraft>{{"policy", "text",
                     "how places are chosen for its work: a name of `berth policies`, or "
                     "`nodes=X,devices=Y`; when not said as above it, and in the end as the engine "
                     "is set. What work asks for itself counts before it",
                     "pack"},
                    [](const Value& value, QueueDraft& draft) -> Result<void> {
                      TRY(draft.spec.policy, value.word());
                      const auto made = core::make_policy(draft.spec.policy, core::ClassCounts());
                      if (!made.ok()) return value.error(made.error().message());
                      return success();
                    }},
    Key<QueueDraft>{
        {"deviceCap", "number",
         "its work joins a shared device only while that holds fewer grants than this, whosever "
         "they are; 1: one task per GPU. The least on the way up counts. May be written "
         "`device_cap`",
         "4"},
        read_cap},
    Key<QueueDraft>{{"device_cap", "number", "the same as `deviceCap`", "4"}, read_cap},
    Key<QueueDraft>{{"created", "date or duration",
                     "the earlier goes first where all else is equal; 2026-01-31T10:00:00Z, or a "
                     "duration after the start of a scenario",
                     "2026-01-31T10:00:00Z"},
                    read_created},
};

constexpr Section<QueueDraft> kQueue{"queue", "One queue of the tree. Work is submitted to leaves.",
                                     kQueueKeys};
constexpr Section<DimensionDraft> kDimension{
    "dimension",
    "The quota of one dimension. Amounts of `memory` are sizes (`160GiB`), of `devices` numbers "
    "with at most three decimals (`20`, `0.5`), of `compute` thousandths of a device (`4000`).",
    kDimensionKeys};
constexpr Section<MinRuntimeDraft> kMinRuntime{
    "minRuntime", "How long running work is protected, from when it reached its minimum.",
    kMinRuntimeKeys};
constexpr Section<ProtectionDraft> kProtection{
    "protection", "The same for one class of priorities.", kProtectionKeys};
constexpr Section<QueueHistory> kHistory{"history", "How past use counts.", kHistoryKeys};
constexpr Section<QueueAging> kQueueAging{"aging of a queue", "How waiting raises priority here.",
                                          kQueueAgingKeys};
constexpr Section<EvictionCaps> kEvictions{"evictions", "How much may be ended.", kEvictionKeys};

}  // namespace

const Section<QueueDraft>& queue_section() { return kQueue; }

const Section<DimensionDraft>& dimension_section() { return kDimension; }

const Section<MinRuntimeDraft>& min_runtime_section() { return kMinRuntime; }

const Section<ProtectionDraft>& protection_section() { return kProtection; }

const Section<QueueHistory>& history_section() { return kHistory; }

const Section<QueueAging>& queue_aging_section() { return kQueueAging; }

const Section<EvictionCaps>& evictions_section() { return kEvictions; }

std::vector<SectionDoc> queue_sections() {
  return {section_doc(kQueue),      section_doc(kDimension), section_doc(kMinRuntime),
          section_doc(kProtection), section_doc(kHistory),   section_doc(kQueueAging),
          section_doc(kEvictions)};
}

}  // namespace berth::config
