// Queues of KAI: scheduling.run.ai/v2, cluster-wide, with quotas of all GPUs together.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "config/import_parts.h"

namespace berth::config {

namespace {

constexpr std::string_view kHost =
    "only devices have quotas here; CPU and memory of hosts are held to what the nodes have";

std::vector<NoEqual> reasons() {
  return with_common_reasons({
      {"spec.displayName", "a queue has one name", false},
      {"spec.resources.cpu", kHost, false},
      {"spec.resources.memory", kHost, false},
  });
}

class KaiQueue {
 public:
  KaiQueue(Manifest& manifest, ImportNotes& notes) : manifest_(manifest), notes_(notes) {}

  QueuePart read() {
    part_.manifest = &manifest_;
    part_.spec.name = manifest_.name();
    take_created(notes_, manifest_, part_.spec);
    const yaml::Node* spec = Manifest::inside(&manifest_.node(), "spec");
    if (const auto parent = manifest_.take(spec, "parentQueue");
        parent && !parent->node().is_null() && !parent->node().text.empty()) {
      part_.spec.parent = notes_.check(manifest_, *parent, parent->word()).value_or("root");
    }
    if (const auto priority = manifest_.take(spec, "priority");
        priority && !priority->node().is_null()) {
      part_.spec.priority = notes_
                                .check(manifest_, *priority,
                                       priority->number(-core::kMostPriority, core::kMostPriority))
                                .value_or(100);
    }
    part_.spec.min_runtime.preempt = duration(spec, "preemptMinRuntime");
    part_.spec.min_runtime.reclaim = duration(spec, "reclaimMinRuntime");
    read_gpu(Manifest::inside(Manifest::inside(spec, "resources"), "gpu"));
    return std::move(part_);
  }

 private:
  Duration duration(const yaml::Node* spec, std::string_view key) {
    const auto value = manifest_.take(spec, key);
    if (!value || value->node().is_null()) return Duration{0};
    const auto text = notes_.check(manifest_, *value, value->word());
    if (!text) return Duration{0};
    if (text->starts_with('-')) {
      notes_.remarks.push_back(
          manifest_.remark(*value,
                           "there is no protection without end: written as 0s; make the work "
                           "non-preemptible instead"));
      return Duration{0};
    }
    return notes_.check(manifest_, *value, parse_go_duration(*text)).value_or(Duration{0});
  }

  void read_gpu(const yaml::Node* gpu) {
    core::QueueDimension dimension;
    if (const auto quota = amount(gpu, "quota")) dimension.deserved = *quota;
    if (const auto limit = amount(gpu, "limit")) {
      dimension.limit = *limit;
    } else {
      notes_.remarks.push_back(
          manifest_.remark("spec.resources.gpu.limit is not written: taken as unlimited"));
    }
    if (const auto weight = take_thousandths(notes_, manifest_, gpu, "overQuotaWeight")) {
      if (*weight < 0) {
        notes_.errors.push_back(manifest_.remark("overQuotaWeight is below zero"));
      }
      part_.weight = *weight;
    } else {
      notes_.remarks.push_back(
          manifest_.remark("spec.resources.gpu.overQuotaWeight is not written: taken as 1"));
    }
    part_.spec.dimensions.push_back(dimension);
  }

  // Of devices; -1 = unlimited.
  std::optional<std::int64_t> amount(const yaml::Node* gpu, std::string_view key) {
    const auto read = take_thousandths(notes_, manifest_, gpu, key);
    if (!read || *read >= 0) return read;
    if (*read == -1000) return core::kUnlimited;
    notes_.errors.push_back(manifest_.remark(
        fmt::format("spec.resources.gpu.{}: an amount from 0, or -1 for unlimited", key)));
    return std::nullopt;
  }

  Manifest& manifest_;
  ImportNotes& notes_;
  QueuePart part_;
};

}  // namespace

void import_kai(const std::vector<Manifest*>& manifests, ImportNotes& notes,
                std::vector<QueuePart>& parts) {
  for (Manifest* manifest : manifests) {
    if (manifest->kind() != "Queue" || manifest->version() != "v2") {
      notes.remarks.push_back(manifest->remark(
          fmt::format("not a Queue of v2: left out, with its {} values", manifest->values())));
      continue;
    }
    parts.push_back(KaiQueue(*manifest, notes).read());
    for (std::string& remark : manifest->leftovers(reasons()))
      notes.remarks.push_back(std::move(remark));
  }
}

}  // namespace berth::config
