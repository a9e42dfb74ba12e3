#include "request/words.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "request/admission.h"
#include "request/phases.h"
#include "request/units.h"
#include "request/word_draft.h"

namespace berth::request {

namespace {

std::string value_text(const Word& word) {
  if (word.shape == Word::Shape::text) return word.value;
  std::string text;
  for (const Word& item : word.items) {
    if (!text.empty()) text += ", ";
    text += item.key.empty() ? value_text(item) : item.key;
    if (text.size() > 100) break;  // messages shorten it anyway
  }
  return (word.shape == Word::Shape::list ? "[" : "{") + text +
         (word.shape == Word::Shape::list ? "]" : "}");
}

bool is_pod_form(const TaskDraft& task) {
  return task.annotations_word != nullptr ||
         std::any_of(task.containers.begin(), task.containers.end(),
                     [](const ContainerDraft& c) { return c.limits_word != nullptr; });
}

// Words that size or steer a GPU; the pod form has annotations and limits for them.
bool is_gpu_word(std::string_view name) {
  static const std::set<std::string_view> others{"cpu",      "ram",       "limits", "annotations",
                                                 "name",     "kind",      "node",   "node_labels",
                                                 "tolerate", "containers"};
  return !others.contains(name);
}

class Reader {
 public:
  Reader(std::span<const Word> words, const PodRules& rules) : words_(words), rules_(rules) {}

  WordsOutcome run() {
    ContainerDraft main;
    read_all(words_, WordScope::task, main);
    if (const auto containers = main.seen.find("containers"); containers != main.seen.end()) {
      read_containers(*containers->second, main);
    } else {
      task_.containers.push_back(std::move(main));
    }
    sort_by_start(task_.containers, [](const ContainerDraft& c) { return c.kind; });
    if (is_pod_form(task_)) {
      build_from_pod();
    } else {
      build();
    }
    return finish();
  }

 private:
  void complain(const Word& word, Complaint complaint, const std::string& container = {}) {
    outcome_.errors.push_back({.code = complaint.code,
                               .key = word.key,
                               .value = value_text(word),
                               .rule = std::move(complaint.rule),
                               .container = container,
                               .position = word.position});
  }

  void warn(const Word& word, ReasonCode code, std::string rule) {
    outcome_.warnings.push_back({.code = code,
                                 .key = word.key,
                                 .value = value_text(word),
                                 .rule = std::move(rule),
                                 .position = word.position});
  }

  // The rule of a word, if it may stand in a place of this scope.
  const WordRule* rule_for(const Word& word, WordScope place) {
    const WordRule* rule = find_word(word.key);
    if (rule != nullptr && (rule->scope == place || rule->scope == WordScope::gpu)) return rule;
    if (rule != nullptr) {
      complain(word, {ReasonCode::misplaced_key, place == WordScope::task
                                                     ? "stands in an entry of containers only"
                                                     : "stands beside containers, not in it"});
      return nullptr;
    }
    std::vector<std::string_view> known;
    for (const WordRule& candidate : word_rules()) {
      if (candidate.scope == place || candidate.scope == WordScope::gpu) {
        known.push_back(candidate.name);
      }
    }
    const auto meant = nearest(word.key, known);
    complain(word, {ReasonCode::unknown_key,
                    meant ? fmt::format("no such word; did you mean {}?", *meant)
                          : "no word of a request; they are listed in docs/scenarios.md"});
    return nullptr;
  }

  void read_all(std::span<const Word> words, WordScope place, ContainerDraft& container) {
    for (const Word& word : words) {
      const WordRule* rule = rule_for(word, place);
      if (rule == nullptr) continue;
      if (!container.seen.emplace(rule->name, &word).second) {
        complain(word, {ReasonCode::bad_value, "said twice; say it once"});
        continue;
      }
      if (auto complaint = reader_of(*rule)(word, {task_, container})) {
        complain(word, *std::move(complaint));
      }
    }
  }

  void read_containers(const Word& word, const ContainerDraft& main) {
    if (word.shape != Word::Shape::list || word.items.empty()) {
      complain(word, {ReasonCode::bad_value, "a list with one map of words per container"});
      return;
    }
    if (word.items.size() > core::kMaxContainers) {
      complain(word,
               {ReasonCode::bad_value, fmt::format("at most {} containers", core::kMaxContainers)});
      return;
    }
    for (const auto& [name, seen] : main.seen) {
      if (find_word(name)->scope != WordScope::gpu) continue;
      complain(*seen, {ReasonCode::misplaced_key,
                       "with containers, say it in the entry of the container that is meant"});
    }
    std::set<std::string> names;
    for (const Word& entry : word.items) {
      if (entry.shape != Word::Shape::map) {
        complain(entry,
                 {ReasonCode::bad_value, "a map of words, e.g. {name: main, gpu_memory: 4GiB}"});
        continue;
      }
      ContainerDraft container;
      read_all(entry.items, WordScope::container, container);
      if (!names.insert(container.name).second) {
        const auto said = container.seen.find("name");
        complain(said == container.seen.end() ? entry : *said->second,
                 {ReasonCode::duplicate_container,
                  "names of containers differ; the default name is main"});
      }
      task_.containers.push_back(std::move(container));
    }
  }

  // The word that a complaint about `name` is about. Requires: it was said.
  const Word& said(const ContainerDraft& container, std::string_view name) const {
    const auto found = container.seen.find(name);
    ASSERT(found != container.seen.end(), name);
    return *found->second;
  }

  core::ContainerAsk build_ask(const ContainerDraft& draft);
  bool check_one_size(const ContainerDraft& draft);
  void check_count(const ContainerDraft& draft);
  void size_memory(const ContainerDraft& draft, core::DeviceAsk& ask);
  void size_fraction(const ContainerDraft& draft, core::DeviceAsk& ask);
  void warn_of_idle_words(const ContainerDraft& draft);

  core::RequestSpec resources() const;
  void build();
  void build_from_pod();
  PodWords pod_words();
  void set_positions(std::vector<Finding>& findings) const;
  void make(core::RequestSpec spec);
  WordsOutcome finish();

  std::span<const Word> words_;
  const PodRules& rules_;
  TaskDraft task_;
  WordsOutcome outcome_;
};

// At most one of the words that say a size may ask for something.
bool Reader::check_one_size(const ContainerDraft& draft) {
  std::vector<std::string_view> sizes;
  if (draft.memory && *draft.memory > Memory()) sizes.emplace_back("gpu_memory");
  if (draft.fraction) sizes.emplace_back("gpu_fraction");
  if (draft.shared.value_or(0) > 0) sizes.emplace_back("gpu_shared");
  if (draft.whole.value_or(0) > 0) sizes.emplace_back("whole");
  if (draft.mig) sizes.emplace_back("mig");
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const bool both_shares = sizes[0] == "gpu_memory" && sizes[i] == "gpu_fraction";
    complain(said(draft, sizes[i]),
             {both_shares ? ReasonCode::fraction_and_memory : ReasonCode::mixed_families,
              fmt::format("not together with {}: one container asks in one way", sizes[0])});
  }
  return sizes.size() == 1;
}

void Reader::check_count(const ContainerDraft& draft) {
  if (!draft.count) return;
  const Word& word = said(draft, "gpus");
  if (draft.whole) {
    complain(word, {ReasonCode::mixed_families, "whole already says how many devices"});
  } else if (draft.shared.value_or(0) > 0 && *draft.count > 1) {
    complain(word, {ReasonCode::shared_count_above_one, "1 with gpu_shared"});
  } else if (!draft.seen.contains("gpu_memory") && !draft.seen.contains("gpu_fraction") &&
             !draft.seen.contains("mig") && !draft.seen.contains("gpu_shared")) {
    complain(word, {ReasonCode::count_without_share,
                    "beside gpu_memory, gpu_fraction or mig; for devices for itself alone write "
                    "whole: 2"});
  }
}

void Reader::size_memory(const ContainerDraft& draft, core::DeviceAsk& ask) {
  ask.kind = core::AskKind::memory;
  ask.mib = draft.memory->ceil_mib();
  if (!draft.memory_limit) return;
  if (*draft.memory_limit < *draft.memory) {
    complain(said(draft, "gpu_memory_limit"),
             {ReasonCode::limit_below_request,
              fmt::format("at least gpu_memory, which is {}", lease_size_text(*draft.memory))});
  } else if (*draft.memory_limit > *draft.memory) {
    ask.limit_mib = draft.memory_limit->ceil_mib();
  }
}

void Reader::size_fraction(const ContainerDraft& draft, core::DeviceAsk& ask) {
  ask.kind = core::AskKind::fraction;
  ask.nano = draft.fraction->count();
  if (!draft.fraction_limit) return;
  if (*draft.fraction_limit < *draft.fraction) {
    complain(said(draft, "gpu_fraction_limit"),
             {ReasonCode::limit_below_request,
              fmt::format("at least gpu_fraction, which is {}", fraction_text(*draft.fraction))});
  } else if (*draft.fraction_limit > *draft.fraction) {
    ask.limit_nano = draft.fraction_limit->count();
  }
}

// Words that only steer a GPU do nothing in a container that asks for none.
void Reader::warn_of_idle_words(const ContainerDraft& draft) {
  for (const auto& [name, word] : draft.seen) {
    const bool sizes = name == "gpu_memory" || name == "whole" || name == "gpu_shared" ||
                       name == "gpus" || name.ends_with("_limit");
    if (is_gpu_word(name) && !sizes) {
      warn(*word, ReasonCode::mode_without_memory, "has no effect: nothing here asks for a GPU");
    }
  }
}

core::ContainerAsk Reader::build_ask(const ContainerDraft& draft) {
  core::ContainerAsk container;
  container.name = draft.name;
  container.kind = draft.kind;
  const bool any = check_one_size(draft);
  check_count(draft);
  const bool memory = draft.memory && *draft.memory > Memory();
  if (draft.memory_limit && !memory) {
    complain(said(draft, "gpu_memory_limit"),
             {ReasonCode::limit_without_request, "only beside a gpu_memory above 0"});
  }
  if (draft.fraction_limit && !draft.fraction) {
    complain(said(draft, "gpu_fraction_limit"),
             {ReasonCode::limit_without_request, "only beside gpu_fraction"});
  }
  if (draft.shared.value_or(0) > 1) {
    complain(said(draft, "gpu_shared"),
             {ReasonCode::shared_count_above_one, "1: a container holds at most one part"});
  }
  if (!any) {
    warn_of_idle_words(draft);
    return container;
  }
  core::DeviceAsk& ask = container.gpu;
  ask = draft.ask;
  ask.count = draft.count.value_or(1);
  if (memory) size_memory(draft, ask);
  if (draft.fraction) size_fraction(draft, ask);
  if (draft.shared.value_or(0) > 0) ask.kind = core::AskKind::replica;
  if (draft.whole.value_or(0) > 0) {
    ask.kind = core::AskKind::whole;
    ask.count = *draft.whole;
  }
  if (draft.mig) {
    ask.kind = core::AskKind::mig;
    ask.mig_profile = *draft.mig;
  }
  return container;
}

// Everything but containers: CPU and RAM of the largest phase, and node constraints.
core::RequestSpec Reader::resources() const {
  std::vector<PhaseUse> cpu, ram;
  for (const ContainerDraft& draft : task_.containers) {
    cpu.push_back({draft.kind, draft.cpu.value_or(Milli()).count()});
    ram.push_back({draft.kind, draft.ram.value_or(Memory()).in_bytes()});
  }
  core::RequestSpec spec;
  spec.cpu = Milli{peak_use(cpu)};
  spec.ram = Memory::bytes(peak_use(ram));
  spec.nodes = task_.nodes;
  return spec;
}

void Reader::build() {
  core::RequestSpec spec = resources();
  for (const ContainerDraft& draft : task_.containers) {
    spec.containers.push_back(build_ask(draft));
  }
  make(std::move(spec));
}

PodWords Reader::pod_words() {
  PodWords pod;
  const auto copy = [&](const std::vector<const Word*>& entries, auto& into) {
    for (const Word* entry : entries) {
      if (entry->shape != Word::Shape::text) {
        complain(*entry, {ReasonCode::bad_value, "one text"});
      } else if (!into.emplace(entry->key, entry->value).second) {
        complain(*entry, {ReasonCode::bad_value, "said twice; say it once"});
      }
    }
  };
  copy(task_.annotations, pod.annotations);
  for (const ContainerDraft& draft : task_.containers) {
    ContainerWords& container = pod.containers.emplace_back();
    container.name = draft.name;
    container.kind = draft.kind;
    copy(draft.limits, container.limits);
    for (const auto& [name, word] : draft.seen) {
      if (!is_gpu_word(name)) continue;
      complain(*word, {ReasonCode::mixed_families,
                       "not beside annotations or limits: a request is said in one way"});
    }
  }
  return pod;
}

// Gives findings of the pod grammar the position of the word they are about.
void Reader::set_positions(std::vector<Finding>& findings) const {
  using Place = std::pair<std::string_view, std::string_view>;  // container, key
  std::map<Place, const Word*> entries;
  const Word* fallback = task_.annotations_word;
  for (const ContainerDraft& draft : task_.containers) {
    if (fallback == nullptr) fallback = draft.limits_word;
    for (const Word* entry : draft.limits)
      entries.emplace(Place(draft.name, entry->key), entry);
  }
  std::map<std::string_view, const Word*> annotations;
  for (const Word* entry : task_.annotations)
    annotations.emplace(entry->key, entry);

  for (Finding& finding : findings) {
    const Word* word = fallback;
    if (const auto found = annotations.find(finding.key); found != annotations.end()) {
      word = found->second;
    } else if (const auto limit = entries.find(Place(finding.container, finding.key));
               limit != entries.end()) {
      word = limit->second;
    }
    if (word != nullptr) finding.position = word->position;
  }
}

void Reader::build_from_pod() {
  PodOutcome pod = admit_create(pod_words(), rules_);
  set_positions(pod.errors);
  set_positions(pod.warnings);
  outcome_.errors.insert(outcome_.errors.end(), pod.errors.begin(), pod.errors.end());
  outcome_.warnings.insert(outcome_.warnings.end(), pod.warnings.begin(), pod.warnings.end());
  if (!pod.ok()) return;
  core::RequestSpec spec = resources();
  // `cpu` and `memory` among the limits count where no word says more.
  if (spec.cpu == Milli()) spec.cpu = pod.request->cpu();
  if (spec.ram == Memory()) spec.ram = pod.request->ram();
  spec.containers = pod.request->containers();
  make(std::move(spec));
}

void Reader::make(core::RequestSpec spec) {
  if (!outcome_.errors.empty()) return;
  Result<core::Request> request = core::Request::create(std::move(spec));
  if (request.ok()) {
    outcome_.request = *std::move(request);
    return;
  }
  // The words' own rules are stricter but for sums over containers.
  Finding finding{.key = "request", .value = "", .rule = request.error().message()};
  if (!words_.empty()) finding.position = words_.front().position;
  outcome_.errors.push_back(std::move(finding));
}

WordsOutcome Reader::finish() {
  sort_by_position(outcome_.errors);
  sort_by_position(outcome_.warnings);
  return std::move(outcome_);
}

}  // namespace

Word Word::text(std::string key, std::string value, std::size_t position) {
  return {.key = std::move(key), .value = std::move(value), .items = {}, .position = position};
}

Word Word::list(std::string key, std::vector<Word> items, std::size_t position) {
  return {.key = std::move(key),
          .shape = Shape::list,
          .value = {},
          .items = std::move(items),
          .position = position};
}

Word Word::map(std::string key, std::vector<Word> items, std::size_t position) {
  return {.key = std::move(key),
          .shape = Shape::map,
          .value = {},
          .items = std::move(items),
          .position = position};
}

WordsOutcome read_words(std::span<const Word> words, const PodRules& rules) {
  return Reader(words, rules).run();
}

Result<core::Request> request_from_words(std::span<const Word> words) {
  WordsOutcome outcome = read_words(words);
  if (!outcome.ok()) return to_error(outcome.errors);
  return *std::move(outcome.request);
}

}  // namespace berth::request
