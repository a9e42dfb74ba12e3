// Conditions and events: what is said of pods that wait, and when it is said again.
// Source: kubernetes-api.md 5, 6; queues-gangs-topology.md 9.2.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kube/scheduler/harbour.h"

namespace berth::kube {

namespace {

constexpr std::int64_t kMicros = 1000;
constexpr std::size_t kMostBytes = 1024;

// At most so many bytes, cut where a character ends.
std::string cut(std::string text) {
  if (text.size() > kMostBytes) {
    std::size_t end = kMostBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
      --end;
    }
    text.resize(end);
  }
  return text;
}

// Words for nodes that rules of the harbour keep out, in place of the engine's one word for them.
std::string histogram(const core::Verdict::Nodes& nodes,
                      const std::map<std::string, std::int64_t>& closed) {
  std::map<std::string, std::int64_t> counts = closed;
  std::int64_t known = 0;
  for (const auto& [word, count] : closed) {
    known += count;
  }
  for (std::size_t i = 0; i < core::kCauseCount; ++i) {
    const auto cause = static_cast<core::Cause>(i);
    std::int64_t count = nodes.by_reason[i];
    if (cause == core::Cause::no_node_matches) {
      count -= std::min(count, known);
    }
    if (count > 0) {
      counts[std::string(core::cause_name(cause))] += count;
    }
  }
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, {}, [](const auto& entry) { return -entry.second; });
  std::string text = fmt::format("0/{} nodes:", nodes.total);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{} {} {}", i == 0 ? "" : ",", sorted[i].second,
                   sorted[i].first);
  }
  return text + ".";
}

}  // namespace

std::uint64_t Harbour::hash_of(const Words& words) {
  return std::hash<std::string>()(words.reason + '\n' + words.message) | 1U;
}

// Whether its condition is ours to write: it waits, and nothing of it is on its way.
bool Harbour::is_told(const PodRecord& record) {
  return record.phase == PodPhase::waiting || record.phase == PodPhase::refused ||
         (record.phase == PodPhase::kept && !record.kept.reason.empty());
}

Harbour::Words Harbour::words_of(const PodRecord& record) const {
  if (record.phase != PodPhase::waiting) {
    return {.reason = record.kept.reason, .message = cut(record.kept.message)};
  }
  if (record.closed.empty() || !record.restricted) {
    return words_of_kind(record);
  }
  const auto verdict = engine_->explain(record.facts.id, core::Engine::Detail::in_short);
  if (!verdict.ok()) {
    return {.reason = "SchedulerError", .message = verdict.error().message()};
  }
  return {.reason = verdict->reason,
          .message = cut(verdict->summary + ". " + histogram(verdict->nodes, record.closed))};
}

// Pods that ask for the same and wait for the same cause are told the same: the fleet is looked at
// once for all of them, as long as nothing happens.
Harbour::Words Harbour::words_of_kind(const PodRecord& record) const {
  if (said_at_ != changes_) {
    said_.clear();
    said_at_ = changes_;
  }
  const std::pair key(record.plan.get(), engine_->cause(record.facts.id));
  if (const auto said = said_.find(key); said != said_.end()) {
    return said->second;
  }
  const auto verdict = engine_->explain(record.facts.id, core::Engine::Detail::in_short);
  Words words = verdict.ok()
                    ? Words{.reason = verdict->reason, .message = cut(core::pod_message(*verdict))}
                    : Words{.reason = "SchedulerError", .message = verdict.error().message()};
  said_.emplace(key, words);
  return words;
}

void Harbour::tell(PodRecord& record, Time now) {
  if (!is_told(record) || record.told == nullptr) {
    return;
  }
  Told& told = *record.told;
  if (now < told.at + config_.tell_every) {
    set_timer(told.at + config_.tell_every, Alarm::tell, record);
    return;
  }
  if (told.changes == changes_ && told.hash != 0) {
    set_timer(now + config_.look_again, Alarm::tell, record);
    return;  // nothing happened since it was compared
  }
  told.changes = changes_;
  set_timer(now + config_.look_again, Alarm::tell, record);
  const Words words = words_of(record);
  if (words.reason.empty()) {
    return;  // the last one written stays
  }
  const std::uint64_t hash = hash_of(words);
  if (hash == told.hash) {
    return;
  }
  told.hash = hash;
  told.reason = words.reason;
  told.at = now;
  ++figures_.patches;
  told.deed = give_number(record, DeedKind::condition);
  conditions_.push_back({told.deed, PatchStatus{.pod = name_of(record),
                                                .reason = words.reason,
                                                .message = words.message,
                                                .transition_ms = told.transition_ms,
                                                .generation = record.generation}});
  say_failed(record, words.message, now);
}

// It was not written: what it says is not known any more.
void Harbour::condition_answered(PodRecord& record, std::uint64_t number, const Said& said,
                                 Time now) {
  const bool fine = said.outcome == Said::Outcome::answered &&
                    (said.status < 300 || said.status == 404 || said.status == 409);
  if (!fine && record.told != nullptr && record.told->deed == number) {
    record.told->hash = 0;
    set_timer(now + config_.tell_every, Alarm::tell, record);
  }
}

// --- events ---------------------------------------------------------------------------------

// The second of a series changes the first; later ones are counted and written now and then.
void Harbour::say_failed(PodRecord& record, const std::string& note, Time now) {
  Told& told = *record.told;
  const bool open = told.series_count > 0 && now < told.series_last + config_.series_ends;
  if (!open) {
    told.series_first_us = unique_us(now);
    told.series_count = 0;
    told.series_said = 0;
  }
  ++told.series_count;
  told.series_last = now;
  if (told.series_count > 2 && now < told.series_written + config_.series_refresh) {
    set_timer(told.series_written + config_.series_refresh, Alarm::series, record);
    return;
  }
  write_series(record, note, now);
}

void Harbour::write_series(PodRecord& record, const std::string& note, Time now) {
  Told& told = *record.told;
  told.series_said = told.series_count;
  told.series_written = now;
  ++figures_.events;
  events_.push_back(
      {give_number(record, DeedKind::event), Say{.pod = name_of(record),
                                                 .warning = true,
                                                 .reason = "FailedScheduling",
                                                 .action = "Scheduling",
                                                 .note = note,
                                                 .first_us = told.series_first_us,
                                                 .last_us = told.series_last.ms() * kMicros,
                                                 .count = told.series_count}});
}

void Harbour::refresh_series(PodRecord& record, Time now) {
  if (record.told != nullptr && is_told(record) &&
      record.told->series_count > record.told->series_said) {
    write_series(record, words_of(record).message, now);
  }
}

void Harbour::say_scheduled(const PodRecord& record, Time now) {
  ++figures_.events;
  events_.push_back(
      {give_number(record, DeedKind::event),
       Say{.pod = name_of(record),
           .warning = false,
           .reason = "Scheduled",
           .action = "Binding",
           .note = fmt::format("Successfully assigned {} to {}{}", record.facts.id,
                               census_.node(record.facts.node).name, devices_text(record)),
           .first_us = unique_us(now),
           .last_us = now.ms() * kMicros}});
}

// Part of an event's name: no two of ours have the same.
std::int64_t Harbour::unique_us(Time now) const {
  return now.ms() * kMicros + static_cast<std::int64_t>(deeds_ % kMicros);
}

// " with 8192 MiB of GPU-1a2b": what people want to know first.
std::string Harbour::devices_text(const PodRecord& record) {
  std::string text;
  if (record.holds == nullptr) {
    return text;
  }
  for (const core::GrantAdopted::Share& share : record.holds->shares) {
    fmt::format_to(std::back_inserter(text), "{} {} MiB of {}", text.empty() ? " with" : ",",
                   share.request_mib, share.uuid);
  }
  return cut(std::move(text));
}

}  // namespace berth::kube
