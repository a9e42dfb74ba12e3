#include "config/import.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/wide.h"
#include "config/import_parts.h"
#include "config/instant.h"

namespace berth::config {

namespace {

constexpr std::string_view kKueueGroup = "kueue.x-k8s.io";
constexpr std::string_view kKaiGroup = "scheduling.run.ai";

// The objects of all files, those of lists too. Owns what they look at.
class ManifestSet {
 public:
  void add(const ManifestText& manifest, ImportNotes& notes) {
    auto documents = yaml::parse(manifest.text, manifest.file);
    if (!documents.ok()) {
      notes.errors.push_back(documents.error().message());
      return;
    }
    trees_.push_back(*std::move(documents));
    files_.push_back(manifest.file);
    for (const yaml::Node& document : trees_.back()) {
      if (!document.is_null()) add_object(document, notes);
    }
  }

  std::deque<Manifest>& manifests() { return manifests_; }

 private:
  void add_object(const yaml::Node& node, ImportNotes& notes) {
    Manifest manifest(node, files_.back());
    if (const auto identified = manifest.identify(); !identified.ok()) {
      notes.errors.push_back(identified.error().message());
      return;
    }
    const yaml::Node* items = Manifest::inside(&node, "items");
    if (!manifest.kind().ends_with("List") || items == nullptr) {
      manifests_.push_back(std::move(manifest));
      return;
    }
    manifest.use(*items);
    const std::vector<NoEqual> reasons = with_common_reasons({});
    for (std::string& remark : manifest.leftovers(reasons))
      notes.remarks.push_back(std::move(remark));
    for (const yaml::Node& item : items->items)
      add_object(item, notes);
  }

  std::deque<std::vector<yaml::Node>> trees_;
  std::deque<std::string> files_;
  std::deque<Manifest> manifests_;
};

// One object is described once.
void check_twins(const std::deque<Manifest>& manifests, ImportNotes& notes) {
  std::map<std::string, const Manifest*> seen;
  for (const Manifest& manifest : manifests) {
    const auto [first, fresh] =
        seen.try_emplace(manifest.group() + "/" + manifest.title(), &manifest);
    if (fresh) continue;
    notes.errors.push_back(
        manifest.remark(fmt::format("described twice, first in {}:{}; keep one",
                                    first->second->file(), first->second->node().line)));
  }
}

std::vector<Manifest*> of_group(std::deque<Manifest>& manifests, std::string_view group) {
  std::vector<Manifest*> found;
  for (Manifest& manifest : manifests) {
    if (manifest.group() == group) found.push_back(&manifest);
  }
  return found;
}

// What the queues mean together, said of the object that each comes from.
void judge(const core::QueueConfig& config, const std::vector<QueuePart>& parts,
           ImportNotes& notes) {
  for (const core::QueueProblem& problem : core::check_queues(config, {})) {
    const auto part = std::ranges::find(parts, problem.queue,
                                        [](const QueuePart& each) { return each.spec.name; });
    const std::string text = fmt::format("queue {}: {}", problem.queue, problem.text);
    const bool known = part != parts.end() && part->manifest != nullptr;
    (problem.holds ? notes.remarks : notes.errors)
        .push_back((known ? part->manifest->remark(text) : text) +
                   (problem.holds ? " (until then it is on hold)" : ""));
  }
}

}  // namespace

std::vector<NoEqual> with_common_reasons(std::vector<NoEqual> own) {
  constexpr std::string_view kBooks = "bookkeeping of the cluster, no configuration";
  for (const NoEqual& reason : {
           NoEqual{"status", "state that a controller keeps, no configuration", true},
           NoEqual{"metadata", kBooks, false},
           NoEqual{"metadata.managedFields", kBooks, true},
           NoEqual{"metadata.labels", "queues of a file have no labels", false},
           NoEqual{"metadata.annotations", "queues of a file have no annotations", false},
       }) {
    own.push_back(reason);
  }
  return own;
}

std::optional<std::int64_t> take_thousandths(ImportNotes& notes, Manifest& manifest,
                                             const yaml::Node* map, std::string_view key) {
  const auto value = manifest.take(map, key);
  if (!value || value->node().is_null()) return std::nullopt;
  const auto text = notes.check(manifest, *value, value->word());
  if (!text) return std::nullopt;
  const auto read = notes.check(manifest, *value, parse_thousandths(*text));
  if (!read) return std::nullopt;
  if (!read->exact) {
    notes.remarks.push_back(manifest.remark(
        *value,
        fmt::format("rounded down to {} thousandths, the unit of a queue file", read->count)));
  }
  return read->count;
}

void take_created(ImportNotes& notes, Manifest& manifest, core::QueueSpec& spec) {
  const auto value =
      manifest.take(Manifest::inside(&manifest.node(), "metadata"), "creationTimestamp");
  if (!value || value->node().is_null()) return;
  const auto text = notes.check(manifest, *value, value->word());
  if (!text) return;
  if (const auto time = notes.check(manifest, *value, parse_instant(*text))) spec.created = *time;
}

void set_weights(ImportNotes& notes, std::vector<QueuePart>& parts) {
  std::map<std::string, std::vector<QueuePart*>> siblings;
  for (QueuePart& part : parts)
    siblings[part.spec.parent].push_back(&part);
  for (const auto& [parent, group] : siblings) {
    std::int64_t most = 0;
    std::int64_t divisor = 0;
    bool whole = true;
    for (const QueuePart* part : group) {
      most = std::max(most, part->weight);
      divisor = std::gcd(divisor, part->weight);
      whole = whole && part->weight % 1000 == 0;
    }
    if (whole && most <= core::kMostWeight * 1000) divisor = 1000;
    for (QueuePart* part : group) {
      if (part->weight == 0 || divisor == 0) {
        part->weight = 0;
      } else if (most / divisor <= core::kMostWeight) {
        part->weight /= divisor;
      } else {
        const Int128 scaled = Int128{part->weight} * core::kMostWeight / most;
        part->weight = std::max<std::int64_t>(1, static_cast<std::int64_t>(scaled));
        const std::string text = fmt::format(
            "the weights below {} do not fit into 0 to {} in proportion: this one is "
            "rounded to {}",
            parent, core::kMostWeight, part->weight);
        notes.remarks.push_back(part->manifest == nullptr ? text : part->manifest->remark(text));
      }
      for (core::QueueDimension& dimension : part->spec.dimensions)
        dimension.weight = part->weight;
    }
  }
}

Result<Import> import_manifests(const std::vector<ManifestText>& texts) {
  ImportNotes notes;
  ManifestSet set;
  for (const ManifestText& text : texts)
    set.add(text, notes);
  check_twins(set.manifests(), notes);
  std::vector<QueuePart> parts;
  import_kueue(of_group(set.manifests(), kKueueGroup), notes, parts);
  const bool has_kueue = !parts.empty();
  import_kai(of_group(set.manifests(), kKaiGroup), notes, parts);
  for (const Manifest& manifest : set.manifests()) {
    if (manifest.group() == kKueueGroup || manifest.group() == kKaiGroup) continue;
    notes.remarks.push_back(manifest.remark(
        fmt::format("no object of Kueue or KAI: left out, with its {} values", manifest.values())));
  }
  const bool has_kai = std::ranges::any_of(parts, [](const QueuePart& part) {
    return part.manifest != nullptr && part.manifest->group() == kKaiGroup;
  });
  if (parts.empty() && notes.errors.empty()) {
    notes.errors.emplace_back(
        "no queue to import: give manifests of Kueue (ClusterQueue) or KAI (Queue of "
        "scheduling.run.ai/v2), for instance from kubectl get -o yaml");
  }
  if (has_kai && has_kueue) {
    notes.remarks.emplace_back(
        "queues of Kueue and of KAI in one tree: priorityRule is kai for both, so that work of "
        "priority 100 and above is not preemptible");
  }
  set_weights(notes, parts);
  Import import;
  import.config.priority_rule = has_kai ? core::PriorityRule::kai : core::PriorityRule::as_said;
  std::ranges::sort(parts, {}, [](const QueuePart& part) { return part.spec.name; });
  for (const QueuePart& part : parts)
    import.config.queues.push_back(part.spec);
  if (notes.errors.empty()) judge(import.config, parts, notes);
  if (!notes.errors.empty()) {
    return invalid_argument(fmt::format("{}", fmt::join(notes.errors, "\n")));
  }
  import.remarks = std::move(notes.remarks);
  return import;
}

}  // namespace berth::config
