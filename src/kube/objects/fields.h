// Reading of single fields with the first fault remembered. Private to src/kube/objects.
//
//   Fields fields("Pod");
//   pod.phase = fields.text(status["phase"], "status.phase");
//   if (fields.failed()) return fields.error();
//
// Paths are names for messages, without indices: "spec.containers[].name".
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "json/dom.h"
#include "kube/objects/objects.h"

namespace berth::kube {

class Fields {
 public:
  explicit Fields(std::string_view kind) : kind_(kind) {}

  // Absent and null read as empty, 0, false; of another kind: a fault, and the same.
  std::string text(json::Element from, std::string_view path);
  std::int64_t integer(json::Element from, std::string_view path, std::int64_t absent = 0);
  bool flag(json::Element from, std::string_view path, bool absent = false);
  // A quantity: a string, or a number as people write it in a manifest.
  std::string quantity(json::Element from, std::string_view path);
  // 0 when absent; a text that is no time is a fault.
  std::int64_t time_ms(json::Element from, std::string_view path);

  std::vector<std::string> texts(json::Element from, std::string_view path);
  Labels labels(json::Element from, std::string_view path);
  Labels quantities(json::Element from, std::string_view path);

  // For a loop over a list or an object: itself, or nothing and a fault.
  json::Element list(json::Element from, std::string_view path);
  json::Element object(json::Element from, std::string_view path);

  void fault(std::string_view path, std::string_view what);
  void set_name(const Meta& meta);

  bool failed() const { return !message_.empty(); }
  Error error() const;

 private:
  void wrong(json::Element from, std::string_view path, std::string_view expected);

  std::string kind_;
  std::string name_;
  std::string message_;
};

Meta read_meta_fields(json::Element object, Fields& fields);

// `absent_matches_nothing`: where Kubernetes means "no object" by no selector.
Selector read_label_selector(json::Element from, std::string_view path, bool absent_matches_nothing,
                             Fields& fields);
// `nodeSelectorTerms`: any of.
std::vector<Selector> read_node_terms(json::Element list, std::string_view path, Fields& fields);
std::vector<Condition> read_conditions(json::Element status, Fields& fields);

// Required affinity and hard spread of a pod; what nobody can evaluate goes to `unsupported`.
void read_placement_rules(json::Element spec, Pod& pod, Fields& fields);

}  // namespace berth::kube
