// Mutation: what a pod needs before the scheduler sees it (annotations.md 2.4, 3.3).
#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include "json/text.h"
#include "kube/objects/read.h"
#include "kube/webhook/review_parts.h"
#include "request/slot.h"
#include "request/units.h"

namespace berth::kube {

using json::Element;
using request::ContainerWords;

namespace {

constexpr std::string_view kVisible = "NVIDIA_VISIBLE_DEVICES";
constexpr std::size_t kMostKeyName = 63;  // of an annotation's key, behind the slash

// A key as a step of a JSON Pointer.
std::string pointer_step(std::string_view key) {
  std::string step;
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

class Patch {
 public:
  json::Text& operation(std::string_view op, std::string_view path) {
    return text_.open_object().key("op").put(op).key("path").put(path).key("value");
  }

  void end() {
    text_.close_object();
    empty_ = false;
  }

  std::string take() {
    if (empty_) {
      return "";
    }
    return "[" + text_.take() + "]";
  }

 private:
  json::Text text_;
  bool empty_ = true;
};

// A variable that a container has to have: a reference to an annotation, or a value.
struct WantedEnv {
  std::string_view name;
  std::string reference = {};
  std::string value = {};
};

class PodPatch {
 public:
  PodPatch(const Pod& pod, Element object, const request::PodOutcome& outcome,
           const ReviewRules& rules)
      : pod_(pod), object_(object), outcome_(outcome), rules_(rules) {}

  std::string run() {
    write_annotations();
    std::size_t init = 0;
    std::size_t app = 0;
    bool asks = false;
    for (const ContainerWords& container : pod_.words.containers) {
      const bool is_app = container.kind == core::ContainerKind::app;
      const std::string path = is_app ? fmt::format("/spec/containers/{}", app++)
                                      : fmt::format("/spec/initContainers/{}", init++);
      const core::DeviceAsk* ask = ask_of(container.name);
      asks = asks || (ask != nullptr && ask->wants_gpu());
      write_env(container, path, wanted_of(container, ask));
    }
    if (asks && pod_.runtime_class.empty() && !rules_.runtime_class.empty()) {
      patch_.operation("add", "/spec/runtimeClassName").put(rules_.runtime_class);
      patch_.end();
    }
    return patch_.take();
  }

 private:
  const core::DeviceAsk* ask_of(std::string_view name) const {
    for (const core::ContainerAsk& ask : outcome_.request->containers()) {
      if (ask.name == name) {
        return &ask.gpu;
      }
    }
    return nullptr;
  }

  // The shorthands as keys of their container, so that everybody after us reads one form.
  void write_annotations() {
    const auto& annotations = pod_.words.annotations;
    const std::string& target = outcome_.shorthand_target;
    Labels added;
    const auto add = [&](std::string_view from, std::string_view prefix, std::string_view suffix,
                         auto convert) {
      const auto found = annotations.find(std::string(from));
      const std::string name = fmt::format("container.{}.{}", target, suffix);
      const std::string key = fmt::format("{}/{}", prefix, name);
      const bool fits = !target.empty() && name.size() <= kMostKeyName;
      if (found != annotations.end() && fits && !annotations.contains(key)) {
        added.emplace(key, convert(found->second));
      }
    };
    const auto verbatim = [](const std::string& value) { return value; };
    add("gpu-memory", "nvidia.com", "gpu-memory.request", mebibytes);
    add("gpu-memory.limit", "nvidia.com", "gpu-memory.limit", verbatim);
    add("gpu-fraction.limit", "kai.scheduler", "gpu-memory.portion.limit", verbatim);
    if (added.empty()) {
      return;
    }
    if (!object_["metadata"]["annotations"].exists()) {
      patch_.operation("add", "/metadata/annotations").open_object().close_object();
      patch_.end();
    }
    for (const auto& [key, value] : added) {
      patch_.operation("add", "/metadata/annotations/" + pointer_step(key)).put(value);
      patch_.end();
    }
  }

  // A bare number is MiB, anything else a quantity; both have been read before.
  static std::string mebibytes(const std::string& value) {
    const auto size =
        request::is_digits(value) ? request::parse_mib(value) : request::parse_quantity(value);
    return size ? fmt::format("{}Mi", size->ceil_mib()) : value;
  }

  std::vector<WantedEnv> wanted_of(const ContainerWords& container,
                                   const core::DeviceAsk* ask) const {
    std::vector<WantedEnv> wanted;
    if (ask == nullptr || !ask->wants_gpu()) {
      if (!has_env(container, kVisible)) {
        wanted.push_back({.name = kVisible, .value = "void"});
      }
      return wanted;
    }
    if (ask->is_exclusive()) {
      if (rules_.assigns_whole) {
        wanted.push_back(
            {.name = kVisible,
             .reference = request::slot_reference(container.name, request::kDevicesField)});
      }
    } else {
      for (const request::InjectedEnv& env : request::kInjectedEnv) {
        wanted.push_back(
            {.name = env.name, .reference = request::slot_reference(container.name, env.field)});
      }
    }
    const auto priority = outcome_.task_priorities.find(container.name);
    if (priority != outcome_.task_priorities.end() && !has_env(container, "CUDA_TASK_PRIORITY")) {
      wanted.push_back(
          {.name = "CUDA_TASK_PRIORITY", .value = fmt::format("{}", priority->second)});
    }
    return wanted;
  }

  static bool has_env(const ContainerWords& container, std::string_view name) {
    return std::ranges::any_of(container.env,
                               [&](const request::EnvWord& env) { return env.name == name; });
  }

  void write_env(const ContainerWords& container, const std::string& path,
                 const std::vector<WantedEnv>& wanted) {
    bool has_list = !container.env.empty();  // an empty one may be made anew
    for (const WantedEnv& env : wanted) {
      const std::optional<std::string> place = place_for(container, path, env);
      if (!place) {
        continue;
      }
      if (!has_list) {
        patch_.operation("add", path + "/env").open_list().close_list();
        patch_.end();
        has_list = true;
      }
      const bool adds = place->ends_with('-');
      json::Text& value = patch_.operation(adds ? "add" : "replace", *place);
      value.open_object().key("name").put(env.name);
      if (env.reference.empty()) {
        value.key("value").put(env.value);
      } else {
        value.key("valueFrom").open_object().key("fieldRef").open_object();
        value.key("apiVersion").put("v1").key("fieldPath").put(env.reference);
        value.close_object().close_object();
      }
      value.close_object();
      patch_.end();
    }
  }

  // The end of the list, or the entry of this name that hides all devices. What else stands there
  // stays: either it is ours already, or the validating review refuses it. Of several entries of
  // one name the last counts for Kubernetes.
  static std::optional<std::string> place_for(const ContainerWords& container,
                                              const std::string& path, const WantedEnv& env) {
    const auto last =
        std::ranges::find(container.env | std::views::reverse, env.name, &request::EnvWord::name);
    if (last == container.env.rend()) {
      return path + "/env/-";
    }
    const bool hides = env.name == kVisible && last->field_path.empty() &&
                       (last->value == "void" || last->value == "none");
    if (!hides) {
      return std::nullopt;
    }
    return fmt::format("{}/env/{}", path, std::distance(last, container.env.rend()) - 1);
  }

  const Pod& pod_;
  Element object_;
  const request::PodOutcome& outcome_;
  const ReviewRules& rules_;
  Patch patch_;
};

// New ephemeral containers see no device: an image may say otherwise.
std::string patch_ephemeral(const Review& review) {
  Patch patch;
  const Element known = review.old_object["spec"]["ephemeralContainers"];
  std::size_t place = 0;
  for (const Element container : review.object["spec"]["ephemeralContainers"].items()) {
    const std::string path = fmt::format("/spec/ephemeralContainers/{}/env", place++);
    const std::string_view name = container["name"].text();
    if (any_named(known, name) || any_named(container["env"], kVisible)) {
      continue;
    }
    if (!container["env"].exists()) {
      patch.operation("add", path).open_list().close_list();
      patch.end();
    }
    json::Text& value = patch.operation("add", path + "/-");
    value.open_object().key("name").put(kVisible).key("value").put("void").close_object();
    patch.end();
  }
  return patch.take();
}

}  // namespace

Change change_of(const Review& review, const ReviewRules& rules) {
  if (review.subresource == "ephemeralcontainers") {
    return {.patch = patch_ephemeral(review)};
  }
  if (review.kind != "Pod" || review.operation != "CREATE" || !review.subresource.empty()) {
    return {};
  }
  const auto pod = read_pod(review.object);
  if (!pod.ok() || pod->scheduler_name != rules.scheduler_name) {
    return {};
  }
  request::PodOutcome outcome = request::read_pod(pod->words, rules.pod);
  if (!outcome.ok()) {
    return {};  // the validating review refuses it, with all that is wrong
  }
  std::string patch = PodPatch(*pod, review.object, outcome, rules).run();
  return {.patch = std::move(patch), .warnings = std::move(outcome.warnings)};
}

}  // namespace berth::kube
