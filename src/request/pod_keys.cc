#include "request/pod_keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "request/pod_limits.h"
#include "request/units.h"

namespace berth::request {

namespace {

constexpr std::string_view kNvPrefix = "nvidia.com/container.";
constexpr std::string_view kPortionPrefix = "kai.scheduler/container.";

struct Annotation {
  const std::string& key;
  const std::string& text;
};

// Fills a field with what `parse` makes of the annotation.
template <typename T, typename Parse>
void fill(Field<T>& field, const Annotation& at, Parse parse, Findings& findings,
          std::string_view container = {}) {
  field.key = at.key;
  field.text = at.text;
  Parsed<T> parsed = parse(at.text);
  if (parsed) {
    field.value = *std::move(parsed);
  } else {
    findings.error(parsed.error().code, at.key, at.text, std::move(parsed.error().rule), container);
  }
}

Parsed<core::SharingMode> parse_mode(std::string_view text) {
  if (text == "time-slicing") return core::SharingMode::time_slicing;
  if (text == "sm-sharing") return core::SharingMode::sm_sharing;
  return std::unexpected(Complaint{ReasonCode::bad_compute_mode, "time-slicing or sm-sharing"});
}

// `gpu-memory`: a bare number is MiB; Berth also takes a quantity with a unit.
Parsed<Memory> parse_shorthand_memory(std::string_view text) {
  return has_unit(text) ? parse_quantity(text) : parse_mib(text);
}

// `gpu-memory.limit`: needs a unit, since a bare number would be bytes here and MiB in
// `gpu-memory`.
Parsed<Memory> parse_shorthand_memory_limit(std::string_view text) {
  Parsed<Memory> parsed = parse_quantity(text);
  const bool is_number = parsed || parsed.error().code == ReasonCode::memory_below_minimum;
  if (is_number && !has_unit(text) && text.find_first_of("eE") == std::string_view::npos) {
    return std::unexpected(
        Complaint{ReasonCode::bad_memory_unit, "a size with a unit, e.g. 8192Mi or 8Gi"});
  }
  return parsed;
}

Parsed<Nano> parse_share(std::string_view text) { return parse_fraction(text); }

Parsed<Nano> parse_share_limit(std::string_view text) {
  return parse_fraction(text, kLimitFractionDigits);
}

Parsed<std::string> parse_name(std::string_view text) { return std::string(text); }

Parsed<bool> parse_flag(std::string_view text) {
  if (text.empty())
    return std::unexpected(Complaint{ReasonCode::bad_value, "true, or no such key"});
  return text == "true";
}

// `<container>.<suffix>` behind a prefix. Container names have no dots.
struct ContainerKey {
  std::string name;
  std::string_view suffix;
};

ContainerKey split_key(std::string_view key, std::string_view prefix) {
  key.remove_prefix(prefix.size());
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return {std::string(key), {}};
  return {std::string(key.substr(0, dot)), key.substr(dot + 1)};
}

void read_nv_key(const Annotation& at, PodKeys& keys, Findings& findings) {
  const ContainerKey key = split_key(at.key, kNvPrefix);
  if (key.name.empty()) {
    findings.error(ReasonCode::unknown_key, at.key, at.text, "a container's name after container.");
    return;
  }
  // What the scheduler writes (annotations.md 3.2). Who may is admission's to judge.
  if (key.suffix == "gpus.devices" || key.suffix == "gpu-compute.portion") return;
  if (key.suffix == "gpu-memory.request") {
    fill(keys.containers[key.name].request, at, parse_quantity, findings, key.name);
  } else if (key.suffix == "gpu-memory.limit") {
    fill(keys.containers[key.name].limit, at, parse_quantity, findings, key.name);
  } else if (key.suffix == "gpu-compute.mode") {
    fill(keys.containers[key.name].mode, at, parse_mode, findings, key.name);
  } else if (key.suffix == "gpu-compute.request") {
    fill(keys.containers[key.name].compute, at, parse_compute_share, findings, key.name);
  } else {
    const auto meant = nearest(key.suffix, {"gpu-memory.request", "gpu-memory.limit",
                                            "gpu-compute.mode", "gpu-compute.request"});
    findings.error(ReasonCode::unknown_key, at.key, at.text,
                   meant ? fmt::format("no such key; did you mean {}{}.{}?", kNvPrefix,
                                       printable(key.name), *meant)
                         : "gpu-memory.request, gpu-memory.limit, gpu-compute.mode or "
                           "gpu-compute.request after the container's name");
  }
}

void read_portion_key(const Annotation& at, PodKeys& keys, Findings& findings) {
  const ContainerKey key = split_key(at.key, kPortionPrefix);
  if (key.suffix == "gpu-memory.portion.limit" && !key.name.empty()) {
    fill(keys.containers[key.name].portion_limit, at, parse_share_limit, findings, key.name);
  } else {
    findings.warn(ReasonCode::unknown_key, at.key, at.text, "not read by Berth");
  }
}

// The non-empty entries of a comma list, without blanks around them.
std::vector<std::string> entries_of(std::string_view text) {
  std::vector<std::string> entries;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view entry = text.substr(0, end);
    while (entry.starts_with(' '))
      entry.remove_prefix(1);
    while (entry.ends_with(' '))
      entry.remove_suffix(1);
    if (!entry.empty()) entries.emplace_back(entry);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return entries;
}

void fill_list(std::vector<std::string>& list, const Annotation& at, Findings& findings) {
  list = entries_of(at.text);
  if (list.empty()) {
    findings.error(ReasonCode::bad_value, at.key, at.text,
                   "a comma list with at least one entry; to restrict nothing leave the key out");
  }
}

void read_order_chain(const Annotation& at, PodKeys& keys, Findings& findings) {
  const std::vector<std::string> chain = entries_of(at.text);
  bool known = !chain.empty();
  for (const std::string& word : chain) {
    if (word == "binpack" || word == "spread") {
      if (keys.device_order == core::OrderHint::policy) {
        keys.device_order = word == "binpack" ? core::OrderHint::pack : core::OrderHint::spread;
      }
    } else if (word == "mutex") {
      keys.mutex = true;
    } else if (word == "numa" || word == "topology-aware") {
      findings.warn(ReasonCode::hint_ignored, at.key, at.text,
                    fmt::format("{} does not order devices here; to require one NUMA node set "
                                "nvidia.com/numa-bind",
                                word));
    } else {
      known = false;
    }
  }
  if (!known) {
    findings.error(ReasonCode::bad_value, at.key, at.text,
                   "a comma list of binpack, spread, topology-aware, mutex and numa");
  }
}

void read_node_order(const Annotation& at, PodKeys& keys, Findings& findings) {
  if (at.text == "binpack") {
    keys.node_order = core::OrderHint::pack;
  } else if (at.text == "spread") {
    keys.node_order = core::OrderHint::spread;
  } else {
    findings.error(ReasonCode::bad_value, at.key, at.text, "binpack or spread");
  }
}

void read_backend(const Annotation& at, PodKeys& keys, Findings& findings) {
  if (at.text == "hami-core") {
    keys.backend = core::Backend::guard;
  } else if (at.text == "mig") {
    keys.backend = core::Backend::mig;
  } else if (at.text == "mps") {
    keys.backend = core::Backend::mps;
  } else {
    findings.error(ReasonCode::bad_value, at.key, at.text, "hami-core, mig or mps");
  }
}

using KeyReader = void (*)(const Annotation&, PodKeys&, Findings&);

struct KnownKey {
  std::string_view key;
  KeyReader read;
};

constexpr std::array<KnownKey, 15> kKnownKeys{{
    {"gpu-fraction", [](const Annotation& at, PodKeys& keys,
                        Findings& f) { fill(keys.fraction, at, parse_share, f); }},
    {"gpu-fraction.limit",
     [](const Annotation& at, PodKeys& keys, Findings& f) {
       fill(keys.fraction_limit, at, parse_share_limit, f);
     }},
    {"gpu-memory", [](const Annotation& at, PodKeys& keys,
                      Findings& f) { fill(keys.memory, at, parse_shorthand_memory, f); }},
    {"gpu-memory.limit",
     [](const Annotation& at, PodKeys& keys, Findings& f) {
       fill(keys.memory_limit, at, parse_shorthand_memory_limit, f);
     }},
    {"gpu-fraction-num-devices", [](const Annotation& at, PodKeys& keys,
                                    Findings& f) { fill(keys.num_devices, at, parse_count, f); }},
    {"gpu-fraction-container-name", [](const Annotation& at, PodKeys& keys,
                                       Findings& f) { fill(keys.target, at, parse_name, f); }},
    {"mps",
     [](const Annotation& at, PodKeys& keys, Findings& f) { fill(keys.mps, at, parse_flag, f); }},
    {"nvidia.com/use-gputype", [](const Annotation& at, PodKeys& keys,
                                  Findings& f) { fill_list(keys.filter.use_types, at, f); }},
    {"nvidia.com/nouse-gputype", [](const Annotation& at, PodKeys& keys,
                                    Findings& f) { fill_list(keys.filter.avoid_types, at, f); }},
    {"nvidia.com/use-gpuuuid", [](const Annotation& at, PodKeys& keys,
                                  Findings& f) { fill_list(keys.filter.use_uuids, at, f); }},
    {"nvidia.com/nouse-gpuuuid", [](const Annotation& at, PodKeys& keys,
                                    Findings& f) { fill_list(keys.filter.avoid_uuids, at, f); }},
    {"nvidia.com/numa-bind",
     [](const Annotation& at, PodKeys& keys, Findings& f) {
       keys.numa_bind = at.text == "true";
       if (at.text != "true" && at.text != "false") {
         f.error(ReasonCode::bad_value, at.key, at.text, "true, or no such key");
       }
     }},
    {"nvidia.com/vgpu-mode", read_backend},
    {"hami.io/node-scheduler-policy", read_node_order},
    {"hami.io/gpu-scheduler-policy", read_order_chain},
}};

// Keys that ask for a GPU elsewhere, or look as if they should.
void warn_of_foreign_key(const Annotation& at, Findings& findings) {
  const std::string_view key = at.key;
  if (is_unsupported_family(key) || key == "runai/shared-gpu-configmap" ||
      key == "kai.scheduler/gpu-compute-sharing-mode") {
    findings.warn(ReasonCode::unsupported_family, key, at.text, "not read by Berth");
  } else if (is_gpu_resource(key)) {
    findings.warn(ReasonCode::misplaced_key, key, at.text,
                  "has no effect as an annotation; write it in a container's resources.limits");
  } else if (key.starts_with("gpu-") || key.starts_with("gpu_")) {
    std::vector<std::string_view> known;
    known.reserve(kKnownKeys.size());
    for (const KnownKey& candidate : kKnownKeys)
      known.push_back(candidate.key);
    const auto meant = nearest(key, known);
    findings.warn(
        ReasonCode::unknown_key, key, at.text,
        meant ? fmt::format("not read by Berth; did you mean {}?", *meant) : "not read by Berth");
  }
}

}  // namespace

PodKeys read_pod_keys(const std::map<std::string, std::string>& annotations, Findings& findings) {
  PodKeys keys;
  for (const auto& [key, text] : annotations) {
    const Annotation at{key, text};
    const auto* known = std::find_if(kKnownKeys.begin(), kKnownKeys.end(),
                                     [&](const KnownKey& k) { return k.key == at.key; });
    if (known != kKnownKeys.end()) {
      known->read(at, keys, findings);
    } else if (key.starts_with(kNvPrefix)) {
      read_nv_key(at, keys, findings);
    } else if (key.starts_with(kPortionPrefix)) {
      read_portion_key(at, keys, findings);
    } else {
      warn_of_foreign_key(at, findings);
    }
  }
  return keys;
}

}  // namespace berth::request
