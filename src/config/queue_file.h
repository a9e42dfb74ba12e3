// Queues as people write them -> QueueConfig, with every complaint and not just the first.
//
//   QueueReader reader;
//   reader.add_file(text, "queues.yaml");
//   QueueFile file = std::move(reader).finish(classes_of_the_fleet);
//   if (file.refused()) … file.complaints …
//
// The words are those of queues-gangs-topology.md 4.1; docs/queues.md prints their table. The
// `queues:` section of a scenario is read by the same code. Thread-safety: a reader is used by one
// thread; what it gives is a value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "config/section.h"
#include "config/value.h"
#include "core/queue/queue_config.h"

namespace berth::config {

struct QueueComplaint {
  std::string text;    // "FILE:LINE:COLUMN: FIELD 'VALUE': RULE; FIX"
  bool holds = false;  // true: the queue and all below it are on hold; false: the file is refused
};

struct QueueFile {
  core::QueueConfig config;
  std::vector<QueueComplaint> complaints;  // refusals and holds, in the order of files and lines

  bool refused() const;
  // The complaints, a line each, without a last line break.
  std::string text() const;
  // Those that refuse, as one error. Requires refused().
  Error refusals() const;
};

// One queue while it is read.
struct QueueDraft {
  core::QueueSpec spec{};
  std::string file{};
  Place place;
  std::map<std::string, Place> places{};  // of fields: "parent", "dims.*/devices.limit"
  std::vector<Error> errors{};
};

struct DimensionDraft {
  core::QueueDimension dimension{};
  std::map<std::string, Place> places{};
};

struct ProtectionDraft {  // of running work
  std::optional<Duration> reclaim{};
  std::optional<Duration> preempt{};
};

struct MinRuntimeDraft {
  ProtectionDraft plain{};
  std::map<std::int64_t, ProtectionDraft> classes{};
  std::vector<Error> errors{};
};

const Section<QueueDraft>& queue_section();
const Section<DimensionDraft>& dimension_section();
const Section<MinRuntimeDraft>& min_runtime_section();
const Section<ProtectionDraft>& protection_section();
const Section<core::QueueHistory>& history_section();
const Section<core::QueueAging>& queue_aging_section();
const Section<core::EvictionCaps>& evictions_section();

// The sections above, in the order in which the reference shows them.
std::vector<SectionDoc> queue_sections();

// Markdown: how values are written, the top level, every section. `docs/queues.md` ends with it,
// below this line.
std::string queue_reference_text();
inline constexpr const char* kQueueReferenceMarker =
    "<!-- From here on: printed by `berth queues fields`. -->";

// Of the top level, for the tables of those who have it beside other keys.
inline constexpr KeyDoc kQueuesKey{
    .name = "queues",
    .type = "list of queue",
    .summary = "the quota tree (docs/queues.md); one leaf `default` without quota when not said",
    .example = "[{name: research, dims: {\"*/devices\": {deserved: 20}}}]"};
inline constexpr KeyDoc kPriorityRuleKey{
    .name = "priorityRule",
    .type = "explicit or kai",
    .summary =
        "`explicit`: work is preemptible if it says so; `kai`: if its priority is below "
        "100; explicit when not said",
    .example = "kai"};

class QueueReader {
 public:
  // A file, or a document of one: `queues:` and `priorityRule:`, perhaps among other sections of
  // the scenario language, which are passed over.
  void add_file(std::string_view text, std::string_view file_name);
  // The map that has the two keys.
  void add_document(const Value& document);

  // `classes`: as for core::check_queues.
  QueueFile finish(const std::vector<std::string>& classes) &&;

 private:
  void add_queues(const Value& value);
  void add_priority_rule(const Value& value);
  void refuse(const Error& error);

  void judge(const std::vector<std::string>& classes);
  const QueueDraft* draft_of(std::string_view queue) const;

  QueueFile file_;
  std::vector<QueueDraft> drafts_;
  std::string rule_place_;  // where the priority rule was said first
};

// One file alone. Errors: all refusals, a line each; holds are no error.
Result<core::QueueConfig> read_queue_file(std::string_view text, std::string_view file_name,
                                          const std::vector<std::string>& classes);

}  // namespace berth::config
