#include "kube/objects/fields.h"

#include <fmt/format.h>

#include "kube/objects/read.h"
#include "kube/objects/time.h"

namespace berth::kube {

using json::Element;
using json::Kind;

void Fields::fault(std::string_view path, std::string_view what) {
  if (message_.empty()) {
    message_ = fmt::format("{} {}", path, what);
  }
}

void Fields::wrong(Element from, std::string_view path, std::string_view expected) {
  fault(path, fmt::format("is {}, not {}", json::kind_name(from.kind()), expected));
}

void Fields::set_name(const Meta& meta) {
  name_ = meta.namespace_name.empty() ? meta.name
                                      : fmt::format("{}/{}", meta.namespace_name, meta.name);
}

Error Fields::error() const {
  return invalid_argument(fmt::format("{} {}: {}", kind_, name_, message_));
}

std::string Fields::text(Element from, std::string_view path) {
  if (const auto text = from.as_text()) {
    return std::string(*text);
  }
  if (from.exists()) {
    wrong(from, path, "a string");
  }
  return {};
}

std::int64_t Fields::integer(Element from, std::string_view path, std::int64_t absent) {
  if (const auto number = from.as_integer()) {
    return *number;
  }
  if (from.exists()) {
    wrong(from, path, "a whole number within 63 bits");
  }
  return absent;
}

bool Fields::flag(Element from, std::string_view path, bool absent) {
  if (const auto flag = from.as_flag()) {
    return *flag;
  }
  if (from.exists()) {
    wrong(from, path, "true or false");
  }
  return absent;
}

std::string Fields::quantity(Element from, std::string_view path) {
  const Kind kind = from.kind();
  if (kind == Kind::integer || kind == Kind::number) {
    return from.raw();
  }
  if (from.exists() && kind != Kind::text) {
    wrong(from, path, "a quantity");
    return {};
  }
  return std::string(from.text());
}

std::int64_t Fields::time_ms(Element from, std::string_view path) {
  const std::string text = this->text(from, path);
  if (text.empty()) {
    return 0;
  }
  const auto ms = parse_time_ms(text);
  if (!ms) {
    fault(path, "is no time, such as 2026-01-31T10:00:00Z");
  }
  return ms.value_or(0);
}

Element Fields::list(Element from, std::string_view path) {
  if (from.exists() && !from.is_list()) {
    wrong(from, path, "a list");
    return {};
  }
  return from;
}

Element Fields::object(Element from, std::string_view path) {
  if (from.exists() && !from.is_object()) {
    wrong(from, path, "an object");
    return {};
  }
  return from;
}

std::vector<std::string> Fields::texts(Element from, std::string_view path) {
  std::vector<std::string> texts;
  for (const Element item : list(from, path).items()) {
    texts.push_back(text(item, path));
  }
  return texts;
}

Labels Fields::labels(Element from, std::string_view path) {
  Labels labels;
  for (const auto [name, value] : object(from, path).members()) {
    labels.emplace(name, text(value, path));
  }
  return labels;
}

Labels Fields::quantities(Element from, std::string_view path) {
  Labels quantities;
  for (const auto [name, value] : object(from, path).members()) {
    quantities.emplace(name, quantity(value, path));
  }
  return quantities;
}

Meta read_meta_fields(Element object, Fields& fields) {
  const Element from = fields.object(object["metadata"], "metadata");
  Meta meta;
  meta.namespace_name = fields.text(from["namespace"], "metadata.namespace");
  meta.name = fields.text(from["name"], "metadata.name");
  fields.set_name(meta);
  meta.uid = fields.text(from["uid"], "metadata.uid");
  meta.resource_version = fields.text(from["resourceVersion"], "metadata.resourceVersion");
  meta.labels = fields.labels(from["labels"], "metadata.labels");
  meta.annotations = fields.labels(from["annotations"], "metadata.annotations");
  meta.created_ms = fields.time_ms(from["creationTimestamp"], "metadata.creationTimestamp");
  meta.generation = fields.integer(from["generation"], "metadata.generation");
  meta.deleting = from["deletionTimestamp"].exists();
  for (const Element owner :
       fields.list(from["ownerReferences"], "metadata.ownerReferences").items()) {
    if (fields.flag(owner["controller"], "metadata.ownerReferences[].controller")) {
      meta.owner_kind = fields.text(owner["kind"], "metadata.ownerReferences[].kind");
      meta.owner_uid = fields.text(owner["uid"], "metadata.ownerReferences[].uid");
    }
  }
  return meta;
}

std::vector<Condition> read_conditions(Element status, Fields& fields) {
  std::vector<Condition> conditions;
  for (const Element from : fields.list(status["conditions"], "status.conditions").items()) {
    conditions.push_back({
        .type = fields.text(from["type"], "status.conditions[].type"),
        .status = fields.text(from["status"], "status.conditions[].status"),
        .reason = fields.text(from["reason"], "status.conditions[].reason"),
        .message = fields.text(from["message"], "status.conditions[].message"),
        .transition_ms =
            fields.time_ms(from["lastTransitionTime"], "status.conditions[].lastTransitionTime"),
    });
  }
  return conditions;
}

Result<Meta> read_meta(Element object) {
  const std::string kind(object["kind"].text("object"));
  Fields fields(kind);
  Meta meta = read_meta_fields(object, fields);
  if (fields.failed()) {
    return fields.error();
  }
  return meta;
}

}  // namespace berth::kube
