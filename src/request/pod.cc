#include "request/pod.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "request/phases.h"
#include "request/pod_keys.h"
#include "request/pod_limits.h"
#include "request/units.h"

namespace berth::request {

namespace {

class PodReader {
 public:
  PodReader(const PodWords& pod, const PodRules& rules)
      : pod_(pod), rules_(rules), keys_(read_pod_keys(pod.annotations, findings_)) {}

  PodOutcome run() {
    check_names();
    find_target();
    check_shorthand_together();
    std::vector<core::ContainerAsk> asks;
    for (const ContainerWords& container : pod_.containers) {
      core::ContainerAsk& ask = asks.emplace_back();
      ask.name = container.name;
      ask.kind = container.kind;
      ask.gpu = ask_of(container);
    }
    check_pod_as_a_whole(asks);
    sort_by_start(asks, [](const core::ContainerAsk& c) { return c.kind; });
    return finish(std::move(asks));
  }

 private:
  template <typename T>
  void error(ReasonCode code, const Field<T>& field, std::string rule,
             std::string_view container = {}) {
    findings_.error(code, field.key, field.text, std::move(rule), container);
  }

  template <typename T>
  void warn(ReasonCode code, const Field<T>& field, std::string rule,
            std::string_view container = {}) {
    findings_.warn(code, field.key, field.text, std::move(rule), container);
  }

  const ContainerWords* find(std::string_view name) const {
    const auto found = std::find_if(pod_.containers.begin(), pod_.containers.end(),
                                    [&](const ContainerWords& c) { return c.name == name; });
    return found == pod_.containers.end() ? nullptr : &*found;
  }

  void check_names();
  void find_target();
  void check_shorthand_together();
  core::DeviceAsk ask_of(const ContainerWords& container);
  core::DeviceAsk share_of(const std::string& name, const NvKeys& nv, bool is_target);
  core::DeviceAsk nv_share(const std::string& name, const NvKeys& nv, bool is_target);
  void check_beside_shorthand(const std::string& name, const NvKeys& nv);
  core::DeviceAsk fraction_share(const std::string& name, const NvKeys& nv);
  core::DeviceAsk memory_share();
  void add_mode(const std::string& name, const NvKeys& nv, core::DeviceAsk& ask);
  void add_constraints(core::DeviceAsk& ask) const;
  void note_share(const std::string& container, std::string_view key, std::string_view text);
  void check_pod_as_a_whole(const std::vector<core::ContainerAsk>& asks);
  core::RequestSpec resources();
  PodOutcome finish(std::vector<core::ContainerAsk> asks);

  const PodWords& pod_;
  const PodRules& rules_;
  Findings findings_;
  PodKeys keys_;

  const ContainerWords* target_ = nullptr;  // of the shorthands; null: none, or unclear
  std::vector<std::string> shares_;         // containers
  std::set<std::string> annotated_;         // containers whose share comes from annotations
  std::map<std::string, LimitAsk> limits_;
  std::map<std::string, int> task_priorities_;
};

void PodReader::check_names() {
  std::set<std::string_view> names;
  for (const ContainerWords& container : pod_.containers) {
    if (container.name.empty() || !names.insert(container.name).second) {
      findings_.error(ReasonCode::duplicate_container, "containers", container.name,
                      "every container has a name of its own");
    }
  }
  for (const auto& entry : keys_.containers) {
    const std::string& name = entry.first;
    const NvKeys& nv = entry.second;
    if (find(name) != nullptr) continue;
    const auto refuse = [&](const auto& field) {
      if (field.present()) {
        error(ReasonCode::unknown_container, field,
              fmt::format("the name of a container of this pod, not {}", printable(name)));
      }
    };
    refuse(nv.request);
    refuse(nv.limit);
    refuse(nv.mode);
    refuse(nv.compute);
    refuse(nv.portion_limit);
  }
}

// Rule 2 of annotations.md 1.3.
void PodReader::find_target() {
  std::vector<const ContainerWords*> with_keys;
  for (const auto& [name, nv] : keys_.containers) {
    const ContainerWords* container = find(name);
    if (container != nullptr && nv.is_nvfractions()) with_keys.push_back(container);
  }
  if (with_keys.size() > 1) {
    const NvKeys& second = keys_.containers.at(with_keys[1]->name);
    const std::string& key = second.request.present() ? second.request.key
                             : second.limit.present() ? second.limit.key
                             : second.mode.present()  ? second.mode.key
                                                      : second.compute.key;
    findings_.warn(ReasonCode::not_portable_to_kai, key, pod_.annotations.at(key),
                   "KAI takes such keys for one container of a pod only", with_keys[1]->name);
  }
  if (keys_.target.present()) {
    target_ = find(keys_.target.text);
    if (target_ == nullptr) {
      error(ReasonCode::unknown_container, keys_.target, "the name of a container of this pod");
    } else if (!with_keys.empty() &&
               std::find(with_keys.begin(), with_keys.end(), target_) == with_keys.end()) {
      error(ReasonCode::target_mismatch, keys_.target,
            fmt::format("{}, which has keys of its own", with_keys[0]->name));
      target_ = nullptr;
    }
    return;
  }
  if (!keys_.has_shorthand()) return;
  if (with_keys.size() > 1) {
    const std::string& key = keys_.fraction.present()         ? keys_.fraction.key
                             : keys_.memory.present()         ? keys_.memory.key
                             : keys_.fraction_limit.present() ? keys_.fraction_limit.key
                             : keys_.memory_limit.present()   ? keys_.memory_limit.key
                                                              : keys_.num_devices.key;
    findings_.error(ReasonCode::ambiguous_target, key, pod_.annotations.at(key),
                    "gpu-fraction-container-name to say which container is meant: several have "
                    "keys of their own");
    return;
  }
  if (with_keys.size() == 1) {
    target_ = with_keys[0];
    return;
  }
  const auto app =
      std::find_if(pod_.containers.begin(), pod_.containers.end(),
                   [](const ContainerWords& c) { return c.kind == core::ContainerKind::app; });
  if (app != pod_.containers.end()) {
    target_ = &*app;
  } else if (!pod_.containers.empty()) {
    target_ = &pod_.containers.front();
  } else {
    findings_.error(ReasonCode::unknown_container, "containers", "", "at least one container");
  }
}

// Shorthands that need, or exclude, one another whatever container they are for.
void PodReader::check_shorthand_together() {
  if (keys_.fraction.present() && keys_.memory.present()) {
    error(ReasonCode::fraction_and_memory, keys_.fraction, "either gpu-fraction or gpu-memory");
  }
  if (keys_.fraction_limit.present() && !keys_.fraction.present()) {
    error(ReasonCode::limit_without_request, keys_.fraction_limit, "only beside gpu-fraction");
  }
  if (keys_.memory_limit.present() && !keys_.memory.present()) {
    error(ReasonCode::limit_without_request, keys_.memory_limit, "only beside gpu-memory");
  }
  for (const auto& [name, nv] : keys_.containers) {
    if (!nv.portion_limit.present()) continue;
    if (!keys_.fraction.present()) {
      error(ReasonCode::limit_without_request, nv.portion_limit, "only beside gpu-fraction", name);
    } else if (target_ != nullptr && target_->name != name && find(name) != nullptr) {
      error(ReasonCode::target_mismatch, nv.portion_limit,
            fmt::format("the container that gpu-fraction is for, which is {}", target_->name),
            name);
    }
  }
  if (target_ == nullptr) return;  // complained about
  const bool target_has_memory =
      keys_.containers.contains(target_->name) && keys_.containers.at(target_->name).has_memory();
  if (keys_.num_devices.present() && !keys_.fraction.present() && !keys_.memory.present() &&
      !target_has_memory) {
    error(ReasonCode::count_without_share, keys_.num_devices,
          "only beside gpu-fraction or gpu-memory");
  }
}

// What a container asks for, by the order of rule 3 of annotations.md 1.3.
core::DeviceAsk PodReader::ask_of(const ContainerWords& container) {
  static const NvKeys none;
  const auto found = keys_.containers.find(container.name);
  const NvKeys& nv = found == keys_.containers.end() ? none : found->second;
  const bool is_target = target_ == &container;
  const bool annotated =
      nv.has_memory() || (is_target && (keys_.fraction.present() || keys_.memory.present()));

  LimitAsk& limits =
      limits_.insert_or_assign(container.name, read_limits(container, rules_, findings_))
          .first->second;
  if (limits.priority) task_priorities_[container.name] = *limits.priority;
  if (annotated && limits.family != LimitFamily::none) {
    const bool whole = limits.family == LimitFamily::whole;
    findings_.error(whole ? ReasonCode::whole_and_share : ReasonCode::mixed_families, limits.key,
                    limits.text, "not beside an annotation that asks for a share of a device",
                    container.name);
  }
  core::DeviceAsk ask;
  if (annotated) {
    annotated_.insert(container.name);
    ask = share_of(container.name, nv, is_target);
  } else {
    ask = limits.ask;
    const bool shares = limits.family == LimitFamily::hami || limits.family == LimitFamily::shared;
    if (shares) note_share(container.name, limits.key, limits.text);
    const std::string rule = "has no effect: no memory is asked for by an annotation";
    if (nv.mode.present()) {
      warn(ReasonCode::mode_without_memory, nv.mode, rule, container.name);
    }
    if (nv.compute.present()) {
      warn(ReasonCode::mode_without_memory, nv.compute, rule, container.name);
    }
    if (limits.family == LimitFamily::hami) add_mode(container.name, none, ask);
  }
  if (ask.wants_gpu()) add_constraints(ask);
  return ask;
}

// The share that annotations ask for; kind none where a value is wrong.
core::DeviceAsk PodReader::share_of(const std::string& name, const NvKeys& nv, bool is_target) {
  core::DeviceAsk ask;
  if (nv.has_memory()) {
    ask = nv_share(name, nv, is_target);
    const auto& by = nv.request.present() ? nv.request : nv.limit;
    note_share(name, by.key, by.text);
  } else if (keys_.fraction.present()) {
    ask = fraction_share(name, nv);
    note_share(name, keys_.fraction.key, keys_.fraction.text);
  } else {
    ask = memory_share();
    note_share(name, keys_.memory.key, keys_.memory.text);
  }
  if (is_target) ask.count = keys_.num_devices.value.value_or(1);
  add_mode(name, nv, ask);
  return ask;
}

core::DeviceAsk PodReader::nv_share(const std::string& name, const NvKeys& nv, bool is_target) {
  if (is_target) check_beside_shorthand(name, nv);
  const Field<Memory>& own = nv.request.present() ? nv.request : nv.limit;
  const bool from_shorthand = is_target && !nv.request.present() && keys_.memory.present();
  const Field<Memory>& request = from_shorthand ? keys_.memory : own;
  const bool limit_from_shorthand =
      is_target && !nv.limit.present() && keys_.memory_limit.present();
  const Field<Memory>& limit = limit_from_shorthand ? keys_.memory_limit : nv.limit;
  if (!request.value) return {};
  core::DeviceAsk ask = core::DeviceAsk::memory_mib(request.value->ceil_mib());
  if (!limit.value) return ask;
  if (*limit.value < *request.value) {
    error(ReasonCode::limit_below_request, limit,
          fmt::format("at least the request, which is {}", printable(request.text)), name);
  } else if (limit.value->ceil_mib() > ask.mib) {
    ask.limit_mib = limit.value->ceil_mib();
  }
  return ask;
}

// A18 to A20: shorthands beside per-container memory on the same container.
void PodReader::check_beside_shorthand(const std::string& name, const NvKeys& nv) {
  if (keys_.fraction.present()) {
    if (nv.limit.present()) {
      error(ReasonCode::limit_conflict, nv.limit, "not beside gpu-fraction", name);
    } else {
      warn(ReasonCode::fraction_ignored, keys_.fraction,
           fmt::format("{} says how much", nv.request.key), name);
    }
  }
  if (!keys_.memory.present()) return;
  if (nv.limit.present()) {
    const bool same = keys_.memory_limit.value && keys_.memory_limit.value == nv.limit.value;
    const bool unreadable =
        !nv.limit.value || (keys_.memory_limit.present() && !keys_.memory_limit.value);
    if (!same && !unreadable) {
      error(ReasonCode::limit_conflict, nv.limit,
            "beside gpu-memory only with a gpu-memory.limit of the same size", name);
    }
  }
  if (nv.request.value && keys_.memory.value && nv.request.value != keys_.memory.value &&
      // What admission itself writes for a size that is not whole MiB.
      nv.request.value != Memory::mib(keys_.memory.value->ceil_mib())) {
    error(ReasonCode::memory_disagrees, nv.request,
          fmt::format("the same size as gpu-memory, which is {}Mi", keys_.memory.value->ceil_mib()),
          name);
  }
}

core::DeviceAsk PodReader::fraction_share(const std::string& name, const NvKeys& nv) {
  const Field<Nano>& shorthand = keys_.fraction_limit;
  const Field<Nano>& portion = nv.portion_limit;
  if (shorthand.value && portion.value && shorthand.value != portion.value) {
    error(ReasonCode::limit_conflict, shorthand,
          fmt::format("the same as {}, which is {}", portion.key, printable(portion.text)), name);
  }
  if (!keys_.fraction.value) return {};
  core::DeviceAsk ask = core::DeviceAsk::fraction_nano(keys_.fraction.value->count());
  for (const Field<Nano>* limit : {&shorthand, &portion}) {
    if (!limit->value) continue;
    if (*limit->value <= *keys_.fraction.value) {
      error(ReasonCode::limit_below_request, *limit,
            fmt::format("more than gpu-fraction, which is {}", printable(keys_.fraction.text)),
            name);
    } else {
      ask.limit_nano = limit->value->count();
    }
  }
  return ask;
}

core::DeviceAsk PodReader::memory_share() {
  const Field<Memory>& limit = keys_.memory_limit;
  if (!keys_.memory.value) return {};
  if (!is_digits(keys_.memory.text)) {
    warn(ReasonCode::not_portable_to_kai, keys_.memory, "KAI takes whole MiB without a unit only");
  }
  core::DeviceAsk ask = core::DeviceAsk::memory_mib(keys_.memory.value->ceil_mib());
  if (!limit.value) return ask;
  if (*limit.value < *keys_.memory.value) {
    error(ReasonCode::limit_below_request, limit,
          fmt::format("at least gpu-memory, which is {}Mi", ask.mib));
  } else if (limit.value->ceil_mib() > ask.mib) {
    ask.limit_mib = limit.value->ceil_mib();
  }
  return ask;
}

void PodReader::add_mode(const std::string& name, const NvKeys& nv, core::DeviceAsk& ask) {
  const bool mps = keys_.mps.value.value_or(false) || keys_.backend == core::Backend::mps;
  const auto fallback = mps ? core::SharingMode::sm_sharing : core::SharingMode::time_slicing;
  ask.mode = nv.mode.value.value_or(fallback);
  if (!nv.compute.value) return;
  if (ask.mode == core::SharingMode::sm_sharing) {
    ask.compute_milli = static_cast<int>(nv.compute.value->count());
  } else if (!nv.mode.present() || nv.mode.value) {
    warn(ReasonCode::compute_ignored, nv.compute, "has an effect in mode sm-sharing only", name);
  }
}

void PodReader::add_constraints(core::DeviceAsk& ask) const {
  ask.filter = keys_.filter;
  ask.numa_bind = keys_.numa_bind;
  ask.mutex = keys_.mutex;
  ask.backend = ask.is_share() ? keys_.backend : core::Backend::any;
  ask.node_order = keys_.node_order;
  ask.device_order = keys_.device_order;
}

// What holds for every container with a share (A35, A51).
void PodReader::note_share(const std::string& container, std::string_view key,
                           std::string_view text) {
  shares_.push_back(container);
  if (!rules_.sharing_enabled) {
    findings_.error(ReasonCode::sharing_disabled, key, text,
                    fmt::format("no share of a device in pod {}/{}: sharing is disabled here",
                                printable(pod_.namespace_name), printable(pod_.name)),
                    container);
  }
  if (container.size() > core::kLongestKeyName) {
    findings_.warn(ReasonCode::name_too_long_for_fractiond, "name", container,
                   fmt::format("nodes where fractiond enforces shares are left out: they take "
                               "names of at most {} characters",
                               core::kLongestKeyName),
                   container);
  }
}

void PodReader::check_pod_as_a_whole(const std::vector<core::ContainerAsk>& asks) {
  if (keys_.mps.value.value_or(false) && shares_.empty()) {
    error(ReasonCode::mps_without_share, keys_.mps, "only beside a share of a device");
  }
  for (const core::ContainerAsk& ask : asks) {
    const LimitAsk& limits = limits_.at(ask.name);
    if (annotated_.empty() || annotated_.contains(ask.name) || limits.gpu_count.empty()) continue;
    findings_.warn(ReasonCode::not_portable_to_kai, "nvidia.com/gpu", limits.gpu_count,
                   "KAI takes no nvidia.com/gpu in a pod that asks for a share elsewhere",
                   ask.name);
  }
}

// CPU, RAM and node constraints. A container's request is its limit where it says no request, which
// is what the API server makes of it.
core::RequestSpec PodReader::resources() {
  std::vector<const ContainerWords*> containers;
  containers.reserve(pod_.containers.size());
  for (const ContainerWords& container : pod_.containers)
    containers.push_back(&container);
  sort_by_start(containers, [](const ContainerWords* c) { return c->kind; });
  const auto amount = [&](const ContainerWords& container, const std::string& key, auto parse) {
    const auto& from = container.requests.contains(key) ? container.requests : container.limits;
    const auto found = from.find(key);
    if (found == from.end()) return std::int64_t{0};
    const auto parsed = parse(found->second);
    if (parsed) return parsed->count();
    findings_.error(parsed.error().code, key, found->second, parsed.error().rule, container.name);
    return std::int64_t{0};
  };
  std::vector<PhaseUse> cpu, ram;
  for (const ContainerWords* container : containers) {
    cpu.push_back({container->kind, amount(*container, "cpu", parse_cpu)});
    ram.push_back({container->kind, amount(*container, "memory", parse_ram)});
  }
  core::RequestSpec spec;
  spec.cpu = Milli{peak_use(cpu)};
  spec.ram = Memory::bytes(peak_use(ram));
  spec.nodes.names = pod_.node_names;
  if (!pod_.preset_node.empty()) spec.nodes.names = {pod_.preset_node};
  for (const auto& [key, value] : pod_.node_selector) {
    core::LabelRule rule;
    rule.key = key;
    rule.values = {value};
    spec.nodes.labels.push_back(std::move(rule));
  }
  spec.nodes.labels.insert(spec.nodes.labels.end(), pod_.node_affinity.begin(),
                           pod_.node_affinity.end());
  spec.nodes.tolerations = pod_.tolerations;
  return spec;
}

PodOutcome PodReader::finish(std::vector<core::ContainerAsk> asks) {
  core::RequestSpec spec = resources();
  spec.containers = std::move(asks);
  PodOutcome outcome;
  if (findings_.errors.empty()) {
    Result<core::Request> request = core::Request::create(std::move(spec));
    if (request.ok()) {
      outcome.request = *std::move(request);
    } else {  // sums over containers, or too many of them
      findings_.error(ReasonCode::bad_value, "spec", pod_.name, request.error().message());
    }
  }
  sort_findings(findings_.errors);
  sort_findings(findings_.warnings);
  outcome.errors = std::move(findings_.errors);
  outcome.warnings = std::move(findings_.warnings);
  outcome.share_containers = std::move(shares_);
  if (target_ != nullptr) outcome.shorthand_target = target_->name;
  outcome.task_priorities = std::move(task_priorities_);
  return outcome;
}

}  // namespace

PodOutcome read_pod(const PodWords& pod, const PodRules& rules) {
  ASSERT(rules.gpumem_factor_mib > 0, rules.gpumem_factor_mib);
  return PodReader(pod, rules).run();
}

}  // namespace berth::request
