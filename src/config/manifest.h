// One object of a cluster's manifest, from which fields are taken; what was never taken can be
// told.
//
//   Manifest manifest(node, "queues.yaml");
//   if (auto weight = manifest.take(spec, "weight")) … weight->word() …
//   manifest.leftovers(reasons);   // every other field with its value and why it has no equal
//
// Thread-safety: none. Views into a parsed tree that must outlive it.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"
#include "yaml/tree.h"

namespace berth::config {

// Why fields at and below a path have no equal. Paths have no list indices: "spec.flavors.name".
struct NoEqual {
  std::string_view path;
  std::string_view why;
  bool as_one = false;  // one line for all that is below, with the number of its values
};

class Manifest {
 public:
  Manifest(const yaml::Node& node, std::string_view file);

  const std::string& group() const { return group_; }      // "kueue.x-k8s.io"
  const std::string& version() const { return version_; }  // "v1beta2"
  const std::string& kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::string& space() const { return space_; }  // namespace; may be empty

  std::string title() const;  // "LocalQueue ns/name"

  const yaml::Node& node() const { return *node_; }

  std::string_view file() const { return file_; }

  // Reads group, kind and names. Errors: one is missing or no word.
  Result<void> identify();

  // What lies below a key; nullptr where the map or the key is missing.
  static const yaml::Node* inside(const yaml::Node* map, std::string_view key);

  // The value of a key, which counts as used with all that is in it; empty if it is not written.
  std::optional<Value> take(const yaml::Node* map, std::string_view key);
  void use(const yaml::Node& node) { used_.insert(&node); }

  // "FILE:LINE:COLUMN: KIND NAME: text", about the value.
  std::string remark(const Value& value, std::string_view text) const;
  // The same about the whole object.
  std::string remark(std::string_view text) const;

  // A remark for each field that was not used, in the order written. The longest path of `reasons`
  // that fits gives the reason.
  std::vector<std::string> leftovers(std::span<const NoEqual> reasons) const;
  // How many values the object has.
  std::size_t values() const;

 private:
  const yaml::Node* node_;
  std::string_view file_;
  std::string group_;
  std::string version_;
  std::string kind_;
  std::string name_;
  std::string space_;
  std::set<const yaml::Node*> used_;
};

// A number of Kubernetes ("3", "500m", "2k", "1.5e3", "4Ki") in thousandths, rounded down.
struct Thousandths {
  std::int64_t count = 0;
  bool exact = true;
};

// Errors: no number, or beyond 2^53 thousandths. Negative numbers are read.
Result<Thousandths> parse_thousandths(std::string_view text);

// "1h30m", "90s", "1.5h": a duration as Go writes it, rounded up to milliseconds.
Result<Duration> parse_go_duration(std::string_view text);

}  // namespace berth::config
