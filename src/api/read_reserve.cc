#include "api/read_reserve.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/placement/registry.h"
#include "request/mig_profile.h"
#include "request/units.h"

namespace berth::api {

using json::Value;
using lease::Outcome;
using lease::Refusal;

namespace {

constexpr std::int64_t kMaxSeconds = std::int64_t{366} * 24 * 3600;
constexpr std::int64_t kMaxMib = request::kMaxLeaseMib;

constexpr auto kFields = std::to_array<std::string_view>({"key",
                                                          "memory",
                                                          "gpu_mem_mb",
                                                          "memory_limit",
                                                          "container",
                                                          "owner",
                                                          "labels",
                                                          "queue",
                                                          "priority",
                                                          "node",
                                                          "devices",
                                                          "models",
                                                          "policy",
                                                          "queue_timeout_seconds",
                                                          "confirm_seconds",
                                                          "ttl_seconds",
                                                          "supersedes",
                                                          "count",
                                                          "wait_for_hardware",
                                                          "exclusive",
                                                          "fraction",
                                                          "mig_profile",
                                                          "compute_milli",
                                                          "cpu_milli",
                                                          "ram_mib",
                                                          "max_seconds",
                                                          "executor_config",
                                                          "preemptible",
                                                          "guard",
                                                          "mps"});

constexpr auto kExecutorFields = std::to_array<std::string_view>(
    {"cpu_millicores", "ram_mem_mb", "gpu_mem_mb", "enable_job_scheduler", "gpu_device"});

// Reads members one after the other and keeps the first thing that is wrong.
class Reader {
 public:
  explicit Reader(const Value& body) : body_(body) {}

  const std::optional<Refusal>& refusal() const { return refusal_; }

  void refuse(Refusal refusal) {
    if (!refusal_.has_value()) {
      refusal_ = std::move(refusal);
    }
  }

  // Null and absent are the same.
  const Value* find(std::string_view field) const {
    const Value* value = body_.find(field);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  std::string text(std::string_view field, std::size_t most) {
    const Value* value = find(field);
    if (value == nullptr) {
      return {};
    }
    if (!value->is_string() || value->as_string().size() > most) {
      refuse(bad_field(field, *value,
                       fmt::format("{} is a string of at most {} bytes", field, most),
                       fmt::format("write \"{}\": \"…\"", field)));
      return {};
    }
    return value->as_string();
  }

  bool flag(std::string_view field, bool otherwise) {
    const Value* value = find(field);
    if (value == nullptr) {
      return otherwise;
    }
    if (!value->is_bool()) {
      refuse(bad_field(field, *value, fmt::format("{} is true or false", field),
                       "without quotes, as JSON has it"));
      return otherwise;
    }
    return value->as_bool();
  }

  std::optional<std::int64_t> integer(std::string_view field, std::int64_t least,
                                      std::int64_t most) {
    const Value* value = find(field);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (!value->is_integer() || value->as_integer() < least || value->as_integer() > most) {
      refuse(bad_field(field, *value,
                       fmt::format("{} is a whole number from {} to {}", field, least, most),
                       "write it without quotes, unit or point"));
      return std::nullopt;
    }
    return value->as_integer();
  }

  std::optional<Duration> seconds(std::string_view field, std::int64_t least) {
    const auto value = integer(field, least, kMaxSeconds);
    return value.has_value() ? std::optional(Duration(*value * 1000)) : std::nullopt;
  }

  std::vector<std::string> names(std::string_view field) {
    const Value* value = find(field);
    std::vector<std::string> names;
    if (value == nullptr) {
      return names;
    }
    bool good = value->is_array() && value->as_array().size() <= 64;
    if (good) {
      for (const Value& item : value->as_array()) {
        good = good && item.is_string() && !item.as_string().empty();
        names.push_back(item.is_string() ? item.as_string() : std::string());
      }
    }
    if (!good) {
      refuse(bad_field(field, *value, fmt::format("{} is a list of at most 64 names", field),
                       fmt::format("write \"{}\": [\"…\"]", field)));
      names.clear();
    }
    return names;
  }

  // MiB; nothing when absent. Zero is an answer too.
  std::optional<std::int64_t> mib(std::string_view field, bool text_allowed) {
    const Value* value = find(field);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (value->is_integer() && value->as_integer() >= 0 && value->as_integer() <= kMaxMib) {
      return value->as_integer();
    }
    if (value->is_string() && text_allowed) {
      const auto size = request::parse_lease_size(value->as_string());
      if (size.has_value() && size->ceil_mib() <= kMaxMib) {
        return size->ceil_mib();
      }
      refuse(
          bad_memory(field, *value,
                     size.has_value() ? std::string("is more than 2^40 MiB") : size.error().rule));
      return std::nullopt;
    }
    refuse(bad_memory(field, *value,
                      text_allowed ? "is a whole number of MiB, or a string like \"4Gi\""
                                   : "is a whole number of MiB"));
    return std::nullopt;
  }

  static Refusal bad_memory(std::string_view field, const Value& value, const std::string& rule) {
    return {.status = 400,
            .code = "invalid-memory",
            .field = std::string(field),
            .value = shown(value),
            .message = fmt::format("{}: {}", field, rule),
            .hint =
                "4096, \"4096Mi\", \"4Gi\" and \"4G\" are 4096 MiB; leave it out, or write 0, "
                "for work without a GPU; at most 2^40 MiB"};
  }

 private:
  const Value& body_;
  std::optional<Refusal> refusal_;
};

Refusal together(std::string_view field, std::string message) {
  return {.status = 400,
          .code = "invalid-field",
          .field = std::string(field),
          .message = std::move(message),
          .hint = "give one of memory (or gpu_mem_mb), fraction, exclusive and mig_profile"};
}

// memory and gpu_mem_mb are two names of one thing.
std::optional<std::int64_t> read_memory(Reader& reader) {
  const auto memory = reader.mib("memory", true);
  const auto kaapana = reader.mib("gpu_mem_mb", false);
  if (memory.has_value() && kaapana.has_value() && *memory != *kaapana) {
    reader.refuse(together(
        "gpu_mem_mb", fmt::format("memory is {} MiB and gpu_mem_mb is {} MiB", *memory, *kaapana)));
  }
  return memory.has_value() ? memory : kaapana;
}

std::optional<Nano> read_fraction(Reader& reader) {
  const Value* value = reader.find("fraction");
  if (value == nullptr) {
    return std::nullopt;
  }
  if ((value->is_integer() && value->as_integer() == 0) ||
      (value->is_string() && value->as_string() == "0")) {
    return std::nullopt;
  }
  if (value->is_string()) {
    const auto fraction = request::parse_fraction(value->as_string());
    if (fraction.has_value()) {
      return *fraction;
    }
  }
  reader.refuse(bad_field("fraction", *value,
                          "fraction is a string with a number between 0 and 1, at most 9 digits",
                          "write \"fraction\": \"0.5\"; a whole device is \"exclusive\": true"));
  return std::nullopt;
}

core::DeviceAsk read_gpu(Reader& reader) {
  const auto memory = read_memory(reader);
  const auto fraction = read_fraction(reader);
  const bool exclusive = reader.flag("exclusive", false);
  const std::string profile = reader.text("mig_profile", 64);
  const auto limit = reader.mib("memory_limit", true);
  const int count = static_cast<int>(reader.integer("count", 0, 16).value_or(1));
  const int kinds = (memory.value_or(0) > 0 ? 1 : 0) + (fraction.has_value() ? 1 : 0) +
                    (exclusive ? 1 : 0) + (profile.empty() ? 0 : 1);
  if (kinds > 1) {
    reader.refuse(together(exclusive              ? "exclusive"
                           : fraction.has_value() ? "fraction"
                                                  : "mig_profile",
                           "more than one says how much of a device is asked for"));
    return {};
  }
  if (kinds == 0) {
    if (limit.value_or(0) > 0) {
      reader.refuse(bad_field("memory_limit", Value(*limit), "memory_limit goes with memory",
                              "add memory, the claim; without one this is work without a GPU"));
    }
    return {};
  }
  if (count == 0) {
    reader.refuse(bad_field("count", Value(0), "count is 1 to 16 where a GPU is asked for",
                            "leave memory out for work without a GPU"));
  }
  core::DeviceAsk ask;
  if (memory.value_or(0) > 0) {
    ask = core::DeviceAsk::memory_mib(*memory, count);
    if (limit.has_value() && *limit < *memory) {
      reader.refuse(bad_field("memory_limit", Value(*limit),
                              fmt::format("memory_limit is at least memory, {} MiB", *memory),
                              "leave it out for a limit equal to the claim"));
    }
    ask.limit_mib = limit;
  } else if (fraction.has_value()) {
    ask = core::DeviceAsk::fraction_nano(fraction->count(), count);
  } else if (exclusive) {
    ask = core::DeviceAsk::whole_devices(count);
  } else {
    const auto parsed = request::parse_mig_profile(profile);
    if (!parsed.has_value()) {
      reader.refuse(bad_field("mig_profile", Value(profile), parsed.error().rule,
                              "`berth gpus` lists the instances that there are"));
      return {};
    }
    ask = core::DeviceAsk::mig_instances(parsed->text(), count);
  }
  if (limit.has_value() && ask.kind != core::AskKind::memory) {
    reader.refuse(bad_field("memory_limit", Value(*limit), "memory_limit goes with memory",
                            "leave it out, or ask for memory"));
  }
  return ask;
}

// Kaapana's dictionary stands for the single fields.
Value expand_executor_config(const Value& body, Reader& reader) {
  const Value* config = reader.find("executor_config");
  if (config == nullptr) {
    return body;
  }
  if (!config->is_object()) {
    reader.refuse(bad_field("executor_config", *config, "executor_config is an object",
                            "as Kaapana writes it: {\"gpu_mem_mb\": 4096, \"ram_mem_mb\": 500}"));
    return body;
  }
  if (auto known = check_fields(*config, kExecutorFields); !known) {
    Refusal refusal = known.error();
    refusal.field = "executor_config." + refusal.field;
    reader.refuse(std::move(refusal));
    return body;
  }
  Value expanded = body;
  const auto take = [&](std::string_view from, std::string_view to) {
    const Value* value = config->find(from);
    if (value == nullptr || value->is_null()) {
      return;
    }
    if (reader.find(to) != nullptr) {
      reader.refuse(bad_field(to, *body.find(to),
                              fmt::format("{} stands beside executor_config.{}", to, from),
                              "give one of the two"));
    }
    expanded.set(std::string(to), *value);
  };
  take("gpu_mem_mb", "gpu_mem_mb");
  take("cpu_millicores", "cpu_milli");
  take("ram_mem_mb", "ram_mib");
  return expanded;
}

void read_labels(Reader& reader, lease::Ask& ask) {
  const Value* labels = reader.find("labels");
  if (labels == nullptr) {
    return;
  }
  bool good = labels->is_object() && labels->as_object().size() <= 16;
  if (good) {
    for (const auto& [name, text] : labels->as_object()) {
      good = good && !name.empty() && name.size() <= 128 && text.is_string() &&
             text.as_string().size() <= 512;
      ask.labels[name] = text.is_string() ? text.as_string() : std::string();
    }
  }
  if (!good) {
    reader.refuse(bad_field("labels", *labels,
                            "labels is an object of at most 16 names with strings as values",
                            "names up to 128 bytes, values up to 512"));
  }
}

// A lease may name any registered policy; empty = its queue's, else the daemon's.
void read_policy(Reader& reader, lease::Ask& ask) {
  ask.policy = reader.text("policy", 64);
  if (ask.policy.empty()) {
    return;
  }
  if (const auto policy = core::make_policy(ask.policy, core::ClassCounts()); !policy.ok()) {
    reader.refuse(
        bad_field("policy", Value(ask.policy), policy.error().message(),
                  "`berth policies` lists them; leave it out for the policy of the queue"));
  }
}

void read_request(Reader& reader, const lease::Party& party, const Ground& ground,
                  lease::Ask& ask) {
  core::DeviceAsk gpu = read_gpu(reader);
  core::RequestSpec spec;
  // Read whether they matter or not: a field is right or wrong by itself.
  gpu.compute_milli = static_cast<int>(reader.integer("compute_milli", 1, 1000).value_or(0));
  gpu.mode =
      reader.flag("mps", false) ? core::SharingMode::sm_sharing : core::SharingMode::time_slicing;
  gpu.filter.use_uuids = reader.names("devices");
  gpu.filter.models = reader.names("models");
  read_policy(reader, ask);
  std::string named = reader.text("node", 253);
  if (gpu.wants_gpu()) {
    if (named.empty() && party.local) {
      named = ground.node;
    }
    if (named.empty() && !ask.container) {
      reader.refuse({.status = 400,
                     .code = "invalid-field",
                     .field = "node",
                     .message = "a plain process over TCP has to say on which node it runs",
                     .hint =
                         "add \"node\": the name that `berth gpus` shows; or \"container\": true "
                         "where the container is started on the node of the granted device"});
    }
    if (!named.empty()) {
      spec.nodes.names.push_back(std::move(named));
    }
    spec.containers.push_back({.name = "main", .gpu = std::move(gpu)});
  }
  spec.cpu = Milli{reader.integer("cpu_milli", 0, core::kMaxCpuMilli).value_or(0)};
  spec.ram = Memory::mib(reader.integer("ram_mib", 0, core::kMaxMemoryMib).value_or(0));
  Result<core::Request> request = core::Request::create(std::move(spec));
  if (!request) {
    reader.refuse({.status = 400,
                   .code = "invalid-field",
                   .field = "memory",
                   .message = request.error().message()});
    return;
  }
  ask.request = std::move(*request);
}

}  // namespace

std::span<const std::string_view> reserve_fields() { return kFields; }

std::span<const std::string_view> executor_config_fields() { return kExecutorFields; }

Outcome<Reserve> read_reserve(const Value& original, const lease::Party& party,
                              const Ground& ground) {
  if (auto known = check_fields(original, kFields); !known) {
    return std::unexpected(known.error());
  }
  Reader outer(original);
  const Value body = expand_executor_config(original, outer);
  if (outer.refusal().has_value()) {
    return std::unexpected(*outer.refusal());
  }
  Reader reader(body);
  Reserve reserve;
  lease::Ask& ask = reserve.ask;
  const Value* key = reader.find("key");
  if (key == nullptr || !key->is_string() || key->as_string().empty() ||
      key->as_string().size() > 512) {
    return std::unexpected(Refusal{.status = 400,
                                   .code = "invalid-key",
                                   .field = "key",
                                   .value = key == nullptr ? std::string() : shown(*key),
                                   .message = "key is a string of 1 to 512 bytes, and required",
                                   .hint = "name the task and its try, for example "
                                           "\"airflow:<dag>/<run>/<task>/<map index>/<try>\""});
  }
  ask.key = key->as_string();
  ask.container = reader.flag("container", false);
  ask.guard = reader.flag("guard", true);
  ask.wait_for_hardware = reader.flag("wait_for_hardware", false);
  ask.preemptible = reader.flag("preemptible", false);
  ask.owner = reader.text("owner", 128);
  const std::string queue = reader.text("queue", 253);
  ask.queue = queue.empty() ? "default" : queue;
  ask.priority = reader.integer("priority", -1'000'000'000, 1'000'000'000).value_or(0);
  ask.queue_timeout = reader.seconds("queue_timeout_seconds", 0);
  ask.confirm = reader.seconds("confirm_seconds", 1);
  ask.ttl = reader.seconds("ttl_seconds", 1);
  ask.max_run = reader.seconds("max_seconds", 1);
  reserve.supersedes = reader.text("supersedes", 512);
  read_labels(reader, ask);
  read_request(reader, party, ground, ask);
  if (const Value* config = original.find("executor_config");
      config != nullptr && config->is_object()) {
    ask.kaapana = json::dump(*config);
  }
  if (reader.refusal().has_value()) {
    return std::unexpected(*reader.refusal());
  }
  return reserve;
}

}  // namespace berth::api
