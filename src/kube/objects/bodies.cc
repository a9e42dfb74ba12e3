#include "kube/objects/bodies.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "json/text.h"
#include "kube/objects/time.h"

namespace berth::kube {

namespace {

constexpr std::size_t kMostNote = 1024;
constexpr std::size_t kMostEventWord = 128;  // reason, action, instance
constexpr std::size_t kMostName = 253;

std::size_t size_of(const Labels& labels) {
  std::size_t size = 0;
  for (const auto& [key, value] : labels) {
    size += key.size() + value.size() + 8;
  }
  return size;
}

}  // namespace

ObjectRef ref_of(const Pod& pod) {
  return {.namespace_name = pod.meta.namespace_name, .name = pod.meta.name, .uid = pod.meta.uid};
}

std::string pod_path(std::string_view namespace_name, std::string_view name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", namespace_name, name);
}

std::string binding_path(std::string_view namespace_name, std::string_view name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}/binding", namespace_name, name);
}

std::string pod_status_path(std::string_view namespace_name, std::string_view name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}/status", namespace_name, name);
}

std::string events_path(std::string_view namespace_name) {
  return fmt::format("/apis/events.k8s.io/v1/namespaces/{}/events", namespace_name);
}

std::string event_path(std::string_view namespace_name, std::string_view event) {
  return fmt::format("/apis/events.k8s.io/v1/namespaces/{}/events/{}", namespace_name, event);
}

std::string binding_body(const ObjectRef& pod, std::string_view node, const Labels& annotations) {
  json::Text text(512 + size_of(annotations));
  text.open_object().key("apiVersion").put("v1").key("kind").put("Binding");
  text.key("metadata").open_object().key("name").put(pod.name);
  text.key("namespace").put(pod.namespace_name).key("uid").put(pod.uid);
  if (!annotations.empty()) {
    text.key("annotations").open_object();
    for (const auto& [key, value] : annotations) {
      text.key(key).put(value);
    }
    text.close_object();
  }
  text.close_object();
  text.key("target").open_object().key("kind").put("Node").key("name").put(node).close_object();
  return text.close_object().take();
}

std::string condition_body(std::string_view uid, const ScheduledCondition& condition) {
  json::Text text(512 + condition.message.size());
  text.open_object().key("metadata").open_object().key("uid").put(uid).close_object();
  text.key("status").open_object().key("conditions").open_list().open_object();
  text.key("type").put("PodScheduled").key("status").put("False");
  text.key("reason").put(condition.reason).key("message").put(condition.message);
  text.key("lastProbeTime").put_null();
  text.key("lastTransitionTime").put(time_text(condition.transition_ms));
  if (condition.observed_generation > 0) {
    text.key("observedGeneration").put(condition.observed_generation);
  }
  return text.close_object().close_list().close_object().close_object().take();
}

std::string event_name(const ObjectRef& regarding, std::int64_t time_us) {
  const std::string suffix = fmt::format(".{:x}", std::max<std::int64_t>(time_us, 0) * 1000);
  std::string_view name = regarding.name.substr(0, kMostName - suffix.size());
  while (name.ends_with('-') || name.ends_with('.')) {
    name.remove_suffix(1);  // a part of a DNS name ends in a letter or a digit
  }
  return fmt::format("{}{}", name, suffix);
}

std::string event_body(const EventWords& words, std::string_view name) {
  const ObjectRef& object = words.regarding;
  const std::string_view space =
      object.namespace_name.empty() ? std::string_view("default") : object.namespace_name;
  json::Text text(768 + words.note.size());
  text.open_object().key("apiVersion").put("events.k8s.io/v1").key("kind").put("Event");
  text.key("metadata").open_object().key("name").put(name).key("namespace").put(space);
  text.close_object();
  text.key("eventTime").put(micro_time_text(words.time_us)).key("type").put(words.type);
  text.key("reason").put(words.reason.substr(0, kMostEventWord));
  text.key("action").put(words.action.substr(0, kMostEventWord));
  text.key("reportingController").put(words.controller);
  text.key("reportingInstance").put(words.instance.substr(0, kMostEventWord));
  text.key("note").put(shortened(words.note, kMostNote));
  text.key("regarding").open_object().key("apiVersion").put(object.api_version);
  text.key("kind").put(object.kind);
  if (!object.namespace_name.empty()) {
    text.key("namespace").put(object.namespace_name);
  }
  text.key("name").put(object.name).key("uid").put(object.uid).close_object();
  return text.close_object().take();
}

std::string event_series_body(std::int64_t count, std::int64_t last_us) {
  json::Text text(128);
  text.open_object().key("series").open_object().key("count").put(count);
  text.key("lastObservedTime").put(micro_time_text(last_us)).close_object();
  return text.close_object().take();
}

}  // namespace berth::kube
