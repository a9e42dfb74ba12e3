#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "request/mig_profile.h"
#include "request/units.h"
#include "request/word_draft.h"

namespace berth::request {

namespace {

using Answer = std::optional<Complaint>;

Answer bad_value(std::string rule) { return Complaint{ReasonCode::bad_value, std::move(rule)}; }

Answer not_a_text() { return bad_value("one text, not a list or a map"); }

// Parses the word's text with `parse` and keeps the value.
template <typename T, typename Parse, typename Into>
Answer read_text(const Word& word, Parse parse, Into& into) {
  if (word.shape != Word::Shape::text) return not_a_text();
  Parsed<T> parsed = parse(word.value);
  if (!parsed) return parsed.error();
  into = *std::move(parsed);
  return std::nullopt;
}

Answer read_list(const Word& word, std::vector<std::string>& into) {
  Parsed<std::vector<std::string>> texts = texts_of(word);
  if (!texts) return texts.error();
  into = *std::move(texts);
  return std::nullopt;
}

Answer read_bool(const Word& word, bool& into) {
  if (word.shape != Word::Shape::text) return not_a_text();
  if (word.value != "true" && word.value != "false") return bad_value("true or false");
  into = word.value == "true";
  return std::nullopt;
}

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

template <typename T, std::size_t N>
Answer read_choice(const Word& word, const std::array<Choice<T>, N>& choices, T& into,
                   ReasonCode code = ReasonCode::bad_value) {
  std::string names;
  for (const Choice<T>& choice : choices) {
    if (word.shape == Word::Shape::text && word.value == choice.name) {
      into = choice.value;
      return std::nullopt;
    }
    names += names.empty() ? "" : ", ";
    names += choice.name;
  }
  return Complaint{code, "one of " + names};
}

constexpr std::array<Choice<core::SharingMode>, 2> kModes{
    {{"time-slicing", core::SharingMode::time_slicing},
     {"sm-sharing", core::SharingMode::sm_sharing}}};
constexpr std::array<Choice<core::LinkRule>, 2> kLinkRules{
    {{"required", core::LinkRule::required}, {"preferred", core::LinkRule::preferred}}};
constexpr std::array<Choice<core::OrderHint>, 2> kOrders{
    {{"pack", core::OrderHint::pack}, {"spread", core::OrderHint::spread}}};
constexpr std::array<Choice<core::ContainerKind>, 3> kKinds{
    {{"app", core::ContainerKind::app},
     {"init", core::ContainerKind::init},
     {"sidecar", core::ContainerKind::sidecar}}};

// A count of which 0 says "none".
Parsed<int> parse_count_or_none(std::string_view text) {
  if (is_digits(text) && text.find_first_not_of('0') == std::string_view::npos) return 0;
  return parse_count(text);
}

Parsed<std::string> parse_profile(std::string_view text) {
  const Parsed<MigProfile> profile = parse_mig_profile(text);
  if (!profile) return std::unexpected(profile.error());
  return profile->text();
}

Answer read_gpu_memory(const Word& word, DraftTarget to) {
  return read_text<Memory>(word, parse_lease_size, to.container.memory);
}

Answer read_gpu_memory_limit(const Word& word, DraftTarget to) {
  return read_text<Memory>(word, parse_lease_size, to.container.memory_limit);
}

Parsed<Nano> parse_word_fraction(std::string_view text) { return parse_fraction(text); }

Answer read_gpu_fraction(const Word& word, DraftTarget to) {
  return read_text<Nano>(word, parse_word_fraction, to.container.fraction);
}

Answer read_gpu_fraction_limit(const Word& word, DraftTarget to) {
  return read_text<Nano>(word, parse_word_fraction, to.container.fraction_limit);
}

Answer read_gpu_shared(const Word& word, DraftTarget to) {
  return read_text<int>(word, parse_count_or_none, to.container.shared);
}

Answer read_whole(const Word& word, DraftTarget to) {
  return read_text<int>(word, parse_count_or_none, to.container.whole);
}

Answer read_mig(const Word& word, DraftTarget to) {
  return read_text<std::string>(word, parse_profile, to.container.mig);
}

Answer read_gpus(const Word& word, DraftTarget to) {
  return read_text<int>(word, parse_count, to.container.count);
}

Answer read_mode(const Word& word, DraftTarget to) {
  return read_choice(word, kModes, to.container.ask.mode, ReasonCode::bad_compute_mode);
}

Answer read_compute(const Word& word, DraftTarget to) {
  if (word.shape != Word::Shape::text) return not_a_text();
  const Parsed<int> milli = parse_count(word.value);
  if (!milli || *milli > kWholeMilli.count()) {
    return Complaint{ReasonCode::bad_compute_share,
                     "thousandths of a device's compute from 1 to 1000, e.g. 250"};
  }
  to.container.ask.compute_milli = *milli;
  return std::nullopt;
}

Answer read_models(const Word& word, DraftTarget to) {
  return read_list(word, to.container.ask.filter.models);
}

Answer read_use_types(const Word& word, DraftTarget to) {
  return read_list(word, to.container.ask.filter.use_types);
}

Answer read_avoid_types(const Word& word, DraftTarget to) {
  return read_list(word, to.container.ask.filter.avoid_types);
}

Answer read_use_uuids(const Word& word, DraftTarget to) {
  return read_list(word, to.container.ask.filter.use_uuids);
}

Answer read_avoid_uuids(const Word& word, DraftTarget to) {
  return read_list(word, to.container.ask.filter.avoid_uuids);
}

Answer read_numa(const Word& word, DraftTarget to) {
  return read_bool(word, to.container.ask.numa_bind);
}

Answer read_mutex(const Word& word, DraftTarget to) {
  return read_bool(word, to.container.ask.mutex);
}

Answer read_node_order(const Word& word, DraftTarget to) {
  return read_choice(word, kOrders, to.container.ask.node_order);
}

Answer read_device_order(const Word& word, DraftTarget to) {
  return read_choice(word, kOrders, to.container.ask.device_order);
}

Answer read_links(const Word& word, DraftTarget to) {
  return read_choice(word, kLinkRules, to.container.ask.links);
}

Answer read_cpu(const Word& word, DraftTarget to) {
  return read_text<Milli>(word, parse_cpu, to.container.cpu);
}

Answer read_ram(const Word& word, DraftTarget to) {
  Answer answer = read_text<Memory>(word, parse_lease_size, to.container.ram);
  if (answer) answer->code = ReasonCode::bad_ram;
  return answer;
}

Answer read_limits(const Word& word, DraftTarget to) {
  if (word.shape != Word::Shape::map) return bad_value("a map of resource names to quantities");
  to.container.limits_word = &word;
  for (const Word& entry : word.items)
    to.container.limits.push_back(&entry);
  return std::nullopt;
}

Answer read_name(const Word& word, DraftTarget to) {
  if (word.shape != Word::Shape::text || word.value.empty() || word.value.size() > 63) {
    return bad_value("a container name of 1 to 63 characters");
  }
  to.container.name = word.value;
  return std::nullopt;
}

Answer read_kind(const Word& word, DraftTarget to) {
  return read_choice(word, kKinds, to.container.kind);
}

Answer read_node(const Word& word, DraftTarget to) { return read_list(word, to.task.nodes.names); }

// A map says equality (a list of values: any of them), a list says selectors.
Answer read_node_labels(const Word& word, DraftTarget to) {
  if (word.shape == Word::Shape::map) {
    for (const Word& entry : word.items) {
      core::LabelRule rule;
      rule.key = entry.key;
      if (entry.shape == Word::Shape::text) {
        rule.values = {entry.value};
      } else if (const Answer answer = read_list(entry, rule.values)) {
        return answer;
      }
      to.task.nodes.labels.push_back(std::move(rule));
    }
    return std::nullopt;
  }
  // A text is one selector, since a comma may stand inside its brackets.
  std::vector<std::string> selectors{word.value};
  if (word.shape == Word::Shape::list) {
    if (const Answer answer = read_list(word, selectors)) return answer;
  }
  for (const std::string& selector : selectors) {
    Parsed<core::LabelRule> rule = parse_label_rule(selector);
    if (!rule) return rule.error();
    to.task.nodes.labels.push_back(*std::move(rule));
  }
  return std::nullopt;
}

Answer read_tolerate(const Word& word, DraftTarget to) {
  std::vector<std::string> texts;
  if (const Answer answer = read_list(word, texts)) return answer;
  for (const std::string& text : texts) {
    Parsed<core::Toleration> toleration = parse_toleration(text);
    if (!toleration) return toleration.error();
    to.task.nodes.tolerations.push_back(*std::move(toleration));
  }
  return std::nullopt;
}

Answer read_annotations(const Word& word, DraftTarget to) {
  if (word.shape != Word::Shape::map) return bad_value("a map of annotation keys to texts");
  to.task.annotations_word = &word;
  for (const Word& entry : word.items)
    to.task.annotations.push_back(&entry);
  return std::nullopt;
}

// `containers` is read by words.cc, which knows how to read their words.
Answer read_nothing(const Word&, DraftTarget) { return std::nullopt; }

struct Entry {
  WordRule rule;
  WordReader read = nullptr;
};

constexpr auto kTask = WordScope::task;
constexpr auto kContainer = WordScope::container;
constexpr auto kGpu = WordScope::gpu;

constexpr Entry kEntries[] = {
    {{"gpu_memory", kGpu, "size", "gpu_memory: 4GiB", "memory on each device; 0 asks for no GPU"},
     read_gpu_memory},
    {{"gpu_memory_limit", kGpu, "size", "gpu_memory_limit: 8GiB",
      "how far it may burst where memory is free; at least gpu_memory, which is the default"},
     read_gpu_memory_limit},
    {{"gpu_fraction", kGpu, "fraction", "gpu_fraction: 0.25",
      "share of each device's usable memory, between 0 and 1"},
     read_gpu_fraction},
    {{"gpu_fraction_limit", kGpu, "fraction", "gpu_fraction_limit: 0.5",
      "how far the share may burst; at least gpu_fraction, which is the default"},
     read_gpu_fraction_limit},
    {{"gpu_shared", kGpu, "0 or 1", "gpu_shared: 1",
      "one of the equal parts into which the node's administrator divides each device"},
     read_gpu_shared},
    {{"whole", kGpu, "count", "whole: 2", "that many devices for itself alone; 0 asks for no GPU"},
     read_whole},
    {{"mig", kGpu, "MIG profile", "mig: 1g.5gb", "an instance of exactly this profile"}, read_mig},
    {{"gpus", kGpu, "count", "gpus: 2",
      "number of distinct devices of one node for gpu_memory, gpu_fraction and mig; default 1"},
     read_gpus},
    {{"mode", kGpu, "time-slicing or sm-sharing", "mode: sm-sharing",
      "how those who share a device share its compute; default time-slicing"},
     read_mode},
    {{"compute", kGpu, "milli", "compute: 250", "thousandths of each device's compute, 1 to 1000"},
     read_compute},
    {{"models", kGpu, "list of texts", "models: [NVIDIA A100-SXM4-80GB]",
      "only devices of exactly one of these models"},
     read_models},
    {{"use_types", kGpu, "list of texts", "use_types: [A100, H100]",
      "only devices whose model contains one of these, in any case"},
     read_use_types},
    {{"avoid_types", kGpu, "list of texts", "avoid_types: [T4]",
      "no device whose model contains one of these, in any case"},
     read_avoid_types},
    {{"use_uuids", kGpu, "list of texts", "use_uuids: [GPU-1]", "only these devices"},
     read_use_uuids},
    {{"avoid_uuids", kGpu, "list of texts", "avoid_uuids: [GPU-1]", "none of these devices"},
     read_avoid_uuids},
    {{"numa", kGpu, "true or false", "numa: true", "all its devices on one NUMA node"}, read_numa},
    {{"mutex", kGpu, "true or false", "mutex: true",
      "only a device that nobody holds yet; others may join later"},
     read_mutex},
    {{"node_order", kGpu, "pack or spread", "node_order: spread",
      "order of nodes instead of the policy's"},
     read_node_order},
    {{"device_order", kGpu, "pack or spread", "device_order: pack",
      "order of devices instead of the policy's"},
     read_device_order},
    {{"links", kGpu, "required or preferred", "links: required",
      "all its devices in one link set: joined by NVSwitch, or pair by pair by NVLink"},
     read_links},
    {{"cpu", kGpu, "cores", "cpu: 500m", "CPU cores: 4, 0.5 or 500m"}, read_cpu},
    {{"ram", kGpu, "size", "ram: 16GiB", "main memory"}, read_ram},
    {{"limits", kGpu, "map", "limits: {nvidia.com/gpu: 1}",
      "a container's resource limits exactly as in a pod, instead of the words above"},
     read_limits},
    {{"annotations", kTask, "map", "annotations: {gpu-fraction: 0.5}",
      "annotations exactly as on a pod, instead of the words above"},
     read_annotations},
    {{"node", kTask, "list of texts", "node: n1", "only these nodes"}, read_node},
    {{"node_labels", kTask, "map, or list of selectors", "node_labels: {zone: a}",
      "only nodes with these labels; selectors as kubectl takes them: zone in (a, b), !old, cores "
      "> 8"},
     read_node_labels},
    {{"tolerate", kTask, "list of texts", "tolerate: [gpu=yes:NoSchedule]",
      "taints it puts up with: key, key=value, key:Effect, key=value:Effect; * is every taint"},
     read_tolerate},
    {{"containers", kTask, "list of maps", "containers: [{name: main, gpu_memory: 4GiB}]",
      "several containers with words of their own, decided together"},
     read_nothing},
    {{"name", kContainer, "text", "name: main", "name of the container"}, read_name},
    {{"kind", kContainer, "app, init or sidecar", "kind: init",
      "init containers end before the apps start, sidecars run beside all that follows"},
     read_kind},
};

constexpr auto kRules = [] {
  std::array<WordRule, std::size(kEntries)> rules{};
  for (std::size_t i = 0; i < rules.size(); ++i)
    rules[i] = kEntries[i].rule;
  return rules;
}();

}  // namespace

std::span<const WordRule> word_rules() { return kRules; }

const WordRule* find_word(std::string_view name) {
  const auto* found =
      std::find_if(kRules.begin(), kRules.end(), [&](const WordRule& r) { return r.name == name; });
  return found == kRules.end() ? nullptr : &*found;
}

WordReader reader_of(const WordRule& rule) {
  const auto index = static_cast<std::size_t>(&rule - kRules.data());
  ASSERT(index < kRules.size(), index);
  return kEntries[index].read;
}

}  // namespace berth::request
