#include "config/queue_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/assert.h"

namespace berth::config {

namespace {

constexpr std::array<std::pair<std::string_view, core::PriorityRule>, 2> kRules = {
    {{"explicit", core::PriorityRule::as_said}, {"kai", core::PriorityRule::kai}}};

// What may stand beside the two keys, when a scenario holds the queues.
constexpr std::array<std::string_view, 7> kOtherSections = {
    "about", "fleet", "config", "topologies", "eviction_grace", "load", "steps"};

// The field that a problem of core::check_queues speaks of: "parent: …", "dims.H100/devices.limit:
// …", "minRuntime.reclaim (ms): …".
std::string_view field_of(std::string_view problem) {
  const std::string_view field = problem.substr(0, problem.find(": "));
  return field.substr(0, field.find(" ("));
}

// Of the field, or of what it is a part of, or of the queue.
Place place_of(const QueueDraft& draft, std::string_view field) {
  while (!field.empty()) {
    const auto found = draft.places.find(std::string(field));
    if (found != draft.places.end()) return found->second;
    const std::size_t dot = field.rfind('.');
    field = dot == std::string_view::npos ? std::string_view() : field.substr(0, dot);
  }
  return draft.place;
}

// The line and column of "FILE:LINE:COLUMN: …".
std::pair<std::int64_t, std::int64_t> place_in(std::string_view message, std::string_view file) {
  const auto number = [&message] {
    message.remove_prefix(std::min(message.size(), std::size_t{1}));  // the colon
    const std::string_view digits = message.substr(0, message.find(':'));
    message.remove_prefix(digits.size());
    const auto read = parse_count(digits, 1'000'000'000);
    return read.ok() ? *read : 0;
  };
  message.remove_prefix(std::min(message.size(), file.size()));
  const std::int64_t line = number();
  return {line, number()};
}

// Names and amounts were judged when they were read: with their place, as they were written, and
// not if a part of them could not be read.
bool said_already(const core::QueueProblem& problem) {
  if (problem.queue.empty()) return true;
  const std::string_view field = field_of(problem.text);
  return field.starts_with("dims.") && (field.ends_with(".deserved") || field.ends_with(".limit") ||
                                        field.ends_with(".reserved") || field.ends_with(".weight"));
}

}  // namespace

std::string queue_reference_text() {
  const SectionDoc top{.name = "the file",
                       .summary = "Other sections of a scenario may stand beside these.",
                       .keys = {kQueuesKey, kPriorityRuleKey}};
  constexpr std::array<std::string_view, 5> kTypes = {"text", "number", "duration", "list of …",
                                                      "map of …"};
  std::string out = types_table(kTypes) + section_table(top);
  for (const SectionDoc& section : queue_sections())
    out += section_table(section);
  return out;
}

bool QueueFile::refused() const {
  return std::ranges::any_of(complaints, [](const auto& complaint) { return !complaint.holds; });
}

std::string QueueFile::text() const {
  std::vector<std::string_view> lines;
  for (const QueueComplaint& complaint : complaints)
    lines.push_back(complaint.text);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Error QueueFile::refusals() const {
  QueueFile refused = *this;
  std::erase_if(refused.complaints,
                [](const QueueComplaint& complaint) { return complaint.holds; });
  ASSERT(!refused.complaints.empty());
  return invalid_argument(refused.text());
}

void QueueReader::refuse(const Error& error) {
  file_.complaints.push_back({.text = error.message(), .holds = false});
}

void QueueReader::add_file(std::string_view text, std::string_view file_name) {
  const auto documents = yaml::parse(text, file_name);
  if (!documents.ok()) return refuse(documents.error());
  if (documents->empty()) {
    return refuse(yaml::error_at(file_name, 1, 1, "the file is empty: it has a list `queues:`"));
  }
  if (documents->size() > 1) {
    const yaml::Node& second = documents->at(1);
    return refuse(yaml::error_at(file_name, second.line, second.column,
                                 "a second document: queues stand in one, without ---"));
  }
  const Value document(documents->front(), "file", file_name);
  if (!document.node().is_map()) return refuse(not_a_section("file", document));
  std::vector<std::string_view> known = {kQueuesKey.name, kPriorityRuleKey.name};
  known.insert(known.end(), kOtherSections.begin(), kOtherSections.end());
  for (const yaml::Entry& entry : document.node().entries) {
    if (std::ranges::find(known, entry.key) == known.end()) {
      refuse(unknown_key("file", entry, file_name, known));
    }
  }
  if (document.node().find(kQueuesKey.name) == nullptr) {
    refuse(missing_key(kQueuesKey, document));
  }
  add_document(document);
}

void QueueReader::add_document(const Value& document) {
  for (const yaml::Entry& entry : document.node().entries) {
    const Value value = document.inner(entry.value, entry.key);
    if (entry.key == kQueuesKey.name) add_queues(value);
    if (entry.key == kPriorityRuleKey.name) add_priority_rule(value);
  }
}

void QueueReader::add_queues(const Value& value) {
  const auto items = value.items();
  if (!items.ok()) return refuse(items.error());
  if (items->empty()) {
    return refuse(value.error("a quota tree has queues: list one, or leave `queues` out"));
  }
  for (const Value& item : *items) {
    QueueDraft draft{.file = std::string(item.file()), .place = item.place()};
    std::vector<Error> errors = read_whole_section(queue_section(), item, draft);
    errors.insert(errors.end(), draft.errors.begin(), draft.errors.end());
    std::ranges::stable_sort(
        errors, {}, [&draft](const Error& error) { return place_in(error.message(), draft.file); });
    for (const Error& error : errors)
      refuse(error);
    drafts_.push_back(std::move(draft));
  }
}

void QueueReader::add_priority_rule(const Value& value) {
  const auto rule =
      value.choice(std::span<const std::pair<std::string_view, core::PriorityRule>>(kRules));
  if (!rule.ok()) return refuse(rule.error());
  if (!rule_place_.empty() && *rule != file_.config.priority_rule) {
    return refuse(value.error(fmt::format("{} says otherwise: keep one", rule_place_)));
  }
  file_.config.priority_rule = *rule;
  rule_place_ = fmt::format("{}:{}:{}", value.file(), value.place().line, value.place().column);
}

const QueueDraft* QueueReader::draft_of(std::string_view queue) const {
  const QueueDraft* last = nullptr;  // of a name that is given twice, the second is at fault
  for (const QueueDraft& draft : drafts_) {
    if (draft.spec.name == queue) last = &draft;
  }
  return last;
}

// What the queues mean together.
void QueueReader::judge(const std::vector<std::string>& classes) {
  for (const core::QueueProblem& problem : core::check_queues(file_.config, classes)) {
    if (said_already(problem)) continue;
    const QueueDraft* draft = draft_of(problem.queue);
    const Place place = draft == nullptr ? Place{} : place_of(*draft, field_of(problem.text));
    const Error error =
        yaml::error_at(draft == nullptr ? "queues" : std::string_view(draft->file), place.line,
                       place.column, fmt::format("queue {}: {}", problem.queue, problem.text));
    file_.complaints.push_back({.text = error.message(), .holds = problem.holds});
  }
}

QueueFile QueueReader::finish(const std::vector<std::string>& classes) && {
  for (const QueueDraft& draft : drafts_)
    file_.config.queues.push_back(draft.spec);
  judge(classes);
  return std::move(file_);
}

Result<core::QueueConfig> read_queue_file(std::string_view text, std::string_view file_name,
                                          const std::vector<std::string>& classes) {
  QueueReader reader;
  reader.add_file(text, file_name);
  QueueFile file = std::move(reader).finish(classes);
  if (file.refused()) return file.refusals();
  return std::move(file.config);
}

}  // namespace berth::config
