// The GPU annotations of a pod, sorted out and parsed one by one. Private to src/request.
//
// Nothing here looks at two keys together: that is pod.cc's business. A field that is present but
// could not be parsed has been complained about already and must not cause a second complaint.
// Thread-safety: values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "core/model/request.h"
#include "request/pod.h"
#include "request/reason.h"

namespace berth::request {

// Collects what is wrong and what is worth saying.
class Findings {
 public:
  void error(ReasonCode code, std::string_view key, std::string_view value, std::string rule,
             std::string_view container = {}) {
    errors.push_back(make(code, key, value, std::move(rule), container));
  }

  void warn(ReasonCode code, std::string_view key, std::string_view value, std::string rule,
            std::string_view container = {}) {
    warnings.push_back(make(code, key, value, std::move(rule), container));
  }

  std::vector<Finding> errors;
  std::vector<Finding> warnings;

 private:
  static Finding make(ReasonCode code, std::string_view key, std::string_view value,
                      std::string rule, std::string_view container) {
    return {.code = code,
            .key = std::string(key),
            .value = std::string(value),
            .rule = std::move(rule),
            .container = std::string(container)};
  }
};

// One key of the pod: absent, present with a value, or present and wrong.
template <typename T>
struct Field {
  std::string key;  // empty = absent
  std::string text;
  std::optional<T> value;

  bool present() const { return !key.empty(); }
};

// The keys `nvidia.com/container.<name>.…` and the portion limit of one container.
struct NvKeys {
  Field<Memory> request;
  Field<Memory> limit;
  Field<core::SharingMode> mode;
  Field<Milli> compute;
  Field<Nano> portion_limit;

  bool has_memory() const { return request.present() || limit.present(); }

  // Keys of NvFractions proper; the portion limit belongs to `gpu-fraction`.
  bool is_nvfractions() const { return has_memory() || mode.present() || compute.present(); }
};

struct PodKeys {
  std::map<std::string, NvKeys> containers;  // by the name in the key, known or not

  Field<Nano> fraction;
  Field<Nano> fraction_limit;
  Field<Memory> memory;
  Field<Memory> memory_limit;
  Field<int> num_devices;
  Field<std::string> target;
  Field<bool> mps;

  // HAMi's constraints, for every container that asks for a GPU.
  core::DeviceFilter filter;
  bool numa_bind = false;
  core::Backend backend = core::Backend::any;
  core::OrderHint node_order = core::OrderHint::policy;
  core::OrderHint device_order = core::OrderHint::policy;
  bool mutex = false;

  bool has_shorthand() const {
    return fraction.present() || memory.present() || fraction_limit.present() ||
           memory_limit.present() || num_devices.present();
  }
};

PodKeys read_pod_keys(const std::map<std::string, std::string>& annotations, Findings& findings);

}  // namespace berth::request
