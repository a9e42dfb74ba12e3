// Pods for tests, built word by word.
//
//   Pod().with("gpu-fraction", "0.5").limit("main", "cpu", "4").read();
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "request/pod.h"

namespace berth::request::testing_support {

inline const std::string kR = "nvidia.com/container.main.gpu-memory.request";
inline const std::string kL = "nvidia.com/container.main.gpu-memory.limit";
inline const std::string kMode = "nvidia.com/container.main.gpu-compute.mode";
inline const std::string kCompute = "nvidia.com/container.main.gpu-compute.request";
inline const std::string kPortion = "kai.scheduler/container.main.gpu-memory.portion.limit";

inline std::string key_of(const std::string& container, const std::string& suffix) {
  return "nvidia.com/container." + container + "." + suffix;
}

class Pod {
 public:
  Pod() {
    words_.namespace_name = "team";
    words_.name = "train";
    container("main");
  }

  Pod& container(const std::string& name, core::ContainerKind kind = core::ContainerKind::app) {
    ContainerWords& words = words_.containers.emplace_back();
    words.name = name;
    words.kind = kind;
    return *this;
  }

  Pod& with(const std::string& key, const std::string& value) {
    words_.annotations[key] = value;
    return *this;
  }

  Pod& limit(const std::string& key, const std::string& value) { return limit("main", key, value); }

  Pod& limit(const std::string& name, const std::string& key, const std::string& value) {
    for (ContainerWords& words : words_.containers) {
      if (words.name == name) words.limits[key] = value;
    }
    return *this;
  }

  PodWords& words() { return words_; }

  PodOutcome read(const PodRules& rules = {}) const { return read_pod(words_, rules); }

  std::vector<std::string> error_codes(const PodRules& rules = {}) const {
    return codes(read(rules).errors);
  }

  std::vector<std::string> warning_codes() const { return codes(read().warnings); }

  static std::vector<std::string> codes(const std::vector<Finding>& findings) {
    std::vector<std::string> names;
    names.reserve(findings.size());
    for (const Finding& finding : findings)
      names.emplace_back(reason_name(finding.code));
    return names;
  }

 private:
  PodWords words_;
};

// The ask of container `main` of a pod that must be accepted.
inline core::DeviceAsk ask_of(const Pod& pod, const std::string& name = "main") {
  const PodOutcome outcome = pod.read();
  for (const Finding& finding : outcome.errors)
    ADD_FAILURE() << finding.text();
  if (!outcome.ok()) return {};
  for (const core::ContainerAsk& container : outcome.request->containers()) {
    if (container.name == name) return container.gpu;
  }
  ADD_FAILURE() << "no container " << name;
  return {};
}

struct Grant {
  std::int64_t request = 0;
  std::int64_t limit = 0;
  bool operator==(const Grant&) const = default;
};

inline Grant grant_on(const core::DeviceAsk& ask, std::int64_t usable_mib = 81559,
                      int replicas = 0) {
  return {core::request_mib_on(ask, usable_mib, replicas),
          core::limit_mib_on(ask, usable_mib, replicas)};
}

}  // namespace berth::request::testing_support
