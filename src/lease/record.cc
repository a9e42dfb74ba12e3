#include "lease/record.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "json/value.h"

namespace berth::lease {

namespace {

using json::Value;

constexpr std::int64_t kVersion = 1;

constexpr std::array<std::pair<core::AskKind, std::string_view>, 5> kKinds = {
    {{core::AskKind::none, "none"},
     {core::AskKind::memory, "memory"},
     {core::AskKind::fraction, "fraction"},
     {core::AskKind::whole, "whole"},
     {core::AskKind::mig, "mig"}}};

constexpr std::array<std::pair<core::Isolation, std::string_view>, 4> kLevels = {
    {{core::Isolation::hardware, "hardware"},
     {core::Isolation::driver, "driver"},
     {core::Isolation::library, "library"},
     {core::Isolation::advisory, "advisory"}}};

template <typename Rows, typename Enum>
std::string_view name_in(const Rows& rows, Enum value) {
  for (const auto& [known, name] : rows) {
    if (known == value) {
      return name;
    }
  }
  return "";
}

template <typename Rows>
auto find_in(const Rows& rows, std::string_view name)
    -> std::optional<std::remove_cvref_t<decltype(rows[0].first)>> {
  for (const auto& [known, known_name] : rows) {
    if (known_name == name) {
      return known;
    }
  }
  return std::nullopt;
}

Error bad(std::string_view what, std::string_view value) {
  return invalid_argument(
      fmt::format("{} is \"{}\", which no version of Berth writes", what, value));
}

template <typename T>
void set_some(Value& into, std::string_view name, const std::optional<T>& value) {
  if (value.has_value()) {
    if constexpr (std::is_same_v<T, Time>) {
      into.set(std::string(name), value->ms());
    } else if constexpr (std::is_same_v<T, Duration>) {
      into.set(std::string(name), value->count());
    } else {
      into.set(std::string(name), *value);
    }
  }
}

std::optional<std::int64_t> some(const Value& from, std::string_view name) {
  const Value* found = from.find(name);
  return found != nullptr && found->is_integer() ? std::optional(found->as_integer())
                                                 : std::nullopt;
}

std::optional<Time> some_time(const Value& from, std::string_view name) {
  const auto ms = some(from, name);
  return ms.has_value() ? std::optional(Time(*ms)) : std::nullopt;
}

std::optional<Duration> some_span(const Value& from, std::string_view name) {
  const auto ms = some(from, name);
  return ms.has_value() ? std::optional(Duration(*ms)) : std::nullopt;
}

Value strings(const std::vector<std::string>& items) {
  json::Array array(items.begin(), items.end());
  return array;
}

std::vector<std::string> read_strings(const Value& from, std::string_view name) {
  std::vector<std::string> items;
  if (const Value* found = from.find(name); found != nullptr && found->is_array()) {
    for (const Value& item : found->as_array()) {
      if (item.is_string()) {
        items.push_back(item.as_string());
      }
    }
  }
  return items;
}

Value request_value(const Request& request) {
  Value value = json::object();
  const core::DeviceAsk& gpu =
      request.containers().empty() ? core::DeviceAsk() : request.containers().front().gpu;
  value.add("kind", name_in(kKinds, gpu.kind));
  if (gpu.wants_gpu()) {
    value.add("count", gpu.count);
    value.add("mib", gpu.mib);
    value.add("nano", gpu.nano);
    set_some(value, "limit_mib", gpu.limit_mib);
    set_some(value, "limit_nano", gpu.limit_nano);
    value.add("compute_milli", gpu.compute_milli);
    value.add("mps", gpu.mode == core::SharingMode::sm_sharing);
    value.add("profile", gpu.mig_profile);
    value.add("models", strings(gpu.filter.models));
    value.add("uuids", strings(gpu.filter.use_uuids));
  }
  value.add("cpu_milli", request.cpu().count());
  value.add("ram", request.ram().in_bytes());
  value.add("nodes", strings(request.nodes().names));
  return value;
}

Result<Request> read_request(const Value& value) {
  const auto kind = find_in(kKinds, value.text("kind"));
  if (!kind.has_value()) {
    return bad("request.kind", value.text("kind"));
  }
  core::RequestSpec spec;
  spec.cpu = Milli{value.integer("cpu_milli")};
  spec.ram = Memory::bytes(value.integer("ram"));
  spec.nodes.names = read_strings(value, "nodes");
  if (*kind != core::AskKind::none) {
    core::DeviceAsk gpu;
    gpu.kind = *kind;
    gpu.count = static_cast<int>(value.integer("count"));
    gpu.mib = value.integer("mib");
    gpu.nano = value.integer("nano");
    gpu.limit_mib = some(value, "limit_mib");
    gpu.limit_nano = some(value, "limit_nano");
    gpu.compute_milli = static_cast<int>(value.integer("compute_milli"));
    gpu.mode = value.flag("mps") ? core::SharingMode::sm_sharing : core::SharingMode::time_slicing;
    gpu.mig_profile = value.text("profile");
    gpu.filter.models = read_strings(value, "models");
    gpu.filter.use_uuids = read_strings(value, "uuids");
    spec.containers.push_back({.name = "main", .gpu = std::move(gpu)});
  }
  return Request::create(std::move(spec));
}

Value proof_value(const local::Proof& proof) {
  Value value = json::object_of(4)
                    .add("uid", proof.uid)
                    .add("boot_id", proof.boot_id)
                    .add("journal", proof.journal);
  if (proof.process.has_value()) {
    value.add("pid", proof.process->pid);
    value.add("start", static_cast<std::int64_t>(proof.process->start_ticks));
  }
  value.add("session", proof.session);
  value.add("leads_group", proof.leads_group);
  value.add("leads_session", proof.leads_session);
  value.add("cgroup", proof.cgroup);
  value.add("pod_uid", proof.pod_uid);
  return value;
}

local::Proof read_proof(const Value& value, std::string_view lease) {
  local::Proof proof;
  proof.lease = lease;
  proof.journal = value.text("journal");
  proof.uid = static_cast<std::uint32_t>(value.integer("uid"));
  proof.boot_id = value.text("boot_id");
  if (const auto pid = some(value, "pid")) {
    proof.process = local::ProcessKey{
        .pid = *pid, .start_ticks = static_cast<std::uint64_t>(value.integer("start"))};
  }
  proof.session = value.integer("session");
  proof.leads_group = value.flag("leads_group");
  proof.leads_session = value.flag("leads_session");
  proof.cgroup = value.text("cgroup");
  proof.pod_uid = value.text("pod_uid");
  return proof;
}

Value ask_value(const Ask& ask) {
  Value labels = json::object();
  for (const auto& [name, text] : ask.labels) {
    labels.set(name, text);
  }
  Value value = json::object_of(11)
                    .add("key", ask.key)
                    .add("owner", ask.owner)
                    .add("labels", std::move(labels))
                    .add("request", request_value(ask.request))
                    .add("queue", ask.queue)
                    .add("priority", ask.priority)
                    .add("policy", ask.policy)
                    .add("preemptible", ask.preemptible)
                    .add("container", ask.container)
                    .add("guard", ask.guard)
                    .add("wait_for_hardware", ask.wait_for_hardware);
  set_some(value, "queue_timeout", ask.queue_timeout);
  set_some(value, "confirm", ask.confirm);
  set_some(value, "ttl", ask.ttl);
  set_some(value, "max_run", ask.max_run);
  if (!ask.kaapana.empty()) {
    value.add("executor_config", ask.kaapana);
  }
  return value;
}

Result<Ask> read_ask(const Value& value) {
  Ask ask;
  ask.key = value.text("key");
  if (ask.key.empty()) {
    return bad("ask.key", "");
  }
  ask.owner = value.text("owner");
  if (const Value* labels = value.find("labels"); labels != nullptr && labels->is_object()) {
    for (const auto& [name, text] : labels->as_object()) {
      ask.labels[name] = text.is_string() ? text.as_string() : std::string();
    }
  }
  const Value* request = value.find("request");
  if (request == nullptr) {
    return bad("ask.request", "");
  }
  TRY(ask.request, read_request(*request));
  ask.queue = value.text("queue", "default");
  ask.priority = value.integer("priority");
  ask.policy = value.text("policy");
  ask.preemptible = value.flag("preemptible");
  ask.container = value.flag("container");
  ask.guard = value.flag("guard", true);
  ask.wait_for_hardware = value.flag("wait_for_hardware");
  ask.queue_timeout = some_span(value, "queue_timeout");
  ask.confirm = some_span(value, "confirm");
  ask.ttl = some_span(value, "ttl");
  ask.max_run = some_span(value, "max_run");
  ask.kaapana = value.text("executor_config");
  return ask;
}

Value held_value(const Held& held) {
  return json::object_of(6)
      .add("uuid", held.uuid)
      .add("index", held.index)
      .add("model", held.model)
      .add("mig", held.mig)
      .add("request_mib", held.request_mib)
      .add("limit_mib", held.limit_mib);
}

Held read_held(const Value& value) {
  return {.uuid = std::string(value.text("uuid")),
          .index = static_cast<int>(value.integer("index")),
          .model = std::string(value.text("model")),
          .mig = value.flag("mig"),
          .request_mib = value.integer("request_mib"),
          .limit_mib = value.integer("limit_mib")};
}

Value eviction_value(const Eviction& eviction) {
  return json::object_of(4)
      .add("beneficiary", eviction.beneficiary)
      .add("rule", static_cast<int>(eviction.rule))
      .add("deadline", eviction.deadline.ms())
      .add("text", eviction.text);
}

Result<Eviction> read_eviction(const Value& value) {
  const std::int64_t rule = value.integer("rule", -1);
  if (rule < 0 || rule > static_cast<std::int64_t>(core::Evicted::Rule::drain)) {
    return bad("evicting.rule", std::to_string(rule));
  }
  return Eviction{.beneficiary = std::string(value.text("beneficiary")),
                  .rule = static_cast<core::Evicted::Rule>(rule),
                  .deadline = Time(value.integer("deadline")),
                  .text = std::string(value.text("text"))};
}

Result<Value> versioned(std::string_view body) {
  TRY(Value value, json::parse(body));
  if (value.integer("v") != kVersion) {
    return bad("v", std::to_string(value.integer("v")));
  }
  return value;
}

}  // namespace

std::string lease_record(const Lease& lease) {
  Value value = json::object_of(14)
                    .add("v", kVersion)
                    .add("number", static_cast<std::int64_t>(lease.number))
                    .add("id", lease.id)
                    .add("ask", ask_value(lease.ask))
                    .add("principal", lease.principal)
                    .add("local", lease.local)
                    .add("uid", lease.uid)
                    .add("gid", lease.gid)
                    .add("version", static_cast<std::int64_t>(lease.version))
                    .add("state", state_name(lease.state))
                    .add("reason", reason_name(lease.reason))
                    .add("message", lease.message)
                    .add("queued_at", lease.queued_at.ms())
                    .add("queued_wall", lease.queued_wall);
  if (!lease.devices.empty()) {
    json::Array devices;
    for (const Held& held : lease.devices) {
      devices.push_back(held_value(held));
    }
    value.add("node", lease.node);
    value.add("devices", std::move(devices));
    value.add("isolation", name_in(kLevels, lease.isolation));
  }
  if (lease.proof.has_value()) {
    value.add("proof", proof_value(*lease.proof));
  }
  if (lease.evicting.has_value()) {
    value.add("evicting", eviction_value(*lease.evicting));
  }
  if (lease.granted_at.has_value()) {
    value.add("granted_at", lease.granted_at->ms());
    value.add("granted_wall", lease.granted_wall);
  }
  if (lease.ended_at.has_value()) {
    value.add("ended_at", lease.ended_at->ms());
    value.add("ended_wall", lease.ended_wall);
  }
  set_some(value, "confirm_by", lease.confirm_by);
  set_some(value, "renew_by", lease.renew_by);
  set_some(value, "deadline", lease.deadline);
  set_some(value, "force_by", lease.force_by);
  set_some(value, "forget_at", lease.forget_at);
  return json::dump(value);
}

Result<Lease> read_lease(std::string_view body) {
  TRY(const Value value, versioned(body));
  Lease lease;
  lease.number = static_cast<std::uint64_t>(value.integer("number"));
  lease.id = value.text("id");
  if (lease.number == 0 || lease.id.empty()) {
    return bad("id", lease.id);
  }
  const Value* ask = value.find("ask");
  if (ask == nullptr) {
    return bad("ask", "");
  }
  TRY(lease.ask, read_ask(*ask));
  lease.principal = value.text("principal");
  lease.local = value.flag("local");
  lease.uid = static_cast<std::uint32_t>(value.integer("uid"));
  lease.gid = static_cast<std::uint32_t>(value.integer("gid"));
  lease.version = static_cast<std::uint64_t>(value.integer("version", 1));
  const auto state = state_from_name(value.text("state"));
  const auto reason = reason_from_name(value.text("reason"));
  if (!state.has_value() || !reason.has_value()) {
    return bad(state.has_value() ? "reason" : "state",
               value.text(state.has_value() ? "reason" : "state"));
  }
  lease.state = *state;
  lease.reason = *reason;
  lease.message = value.text("message");
  lease.queued_at = Time(value.integer("queued_at"));
  lease.queued_wall = value.integer("queued_wall");
  lease.node = value.text("node");
  if (const Value* devices = value.find("devices"); devices != nullptr && devices->is_array()) {
    for (const Value& device : devices->as_array()) {
      lease.devices.push_back(read_held(device));
    }
    lease.isolation = find_in(kLevels, value.text("isolation")).value_or(core::Isolation::advisory);
  }
  if (holds(lease.state) && lease.wants_gpu() && lease.devices.empty()) {
    return bad("devices", "");
  }
  if (const Value* proof = value.find("proof")) {
    lease.proof = read_proof(*proof, lease.id);
  }
  if (const Value* evicting = value.find("evicting")) {
    TRY(lease.evicting, read_eviction(*evicting));
  }
  lease.granted_at = some_time(value, "granted_at");
  lease.granted_wall = value.integer("granted_wall");
  lease.ended_at = some_time(value, "ended_at");
  lease.ended_wall = value.integer("ended_wall");
  lease.confirm_by = some_time(value, "confirm_by");
  lease.renew_by = some_time(value, "renew_by");
  lease.deadline = some_time(value, "deadline");
  lease.force_by = some_time(value, "force_by");
  lease.forget_at = some_time(value, "forget_at");
  return lease;
}

std::string node_record(const core::Node& node) {
  json::Array devices;
  for (const core::Device& device : node.devices) {
    Value row = json::object_of(9)
                    .add("uuid", device.uuid)
                    .add("index", device.index)
                    .add("model", device.model)
                    .add("reserve", device.reserve.in_bytes())
                    .add("numa", device.numa)
                    .add("mig_profile", device.mig_profile)
                    .add("mig_parent", device.mig_parent)
                    .add("mig_enabled", device.mig_enabled)
                    .add("pci", device.pci_bus_id);
    if (device.total.has_value()) {
      row.set("total", device.total->in_bytes());
    }
    devices.emplace_back(std::move(row));
  }
  return json::dump(json::object_of(5)
                        .add("v", kVersion)
                        .add("name", node.name)
                        .add("cpu_milli", node.cpu.count())
                        .add("ram", node.ram.in_bytes())
                        .add("devices", std::move(devices)));
}

Result<core::Node> read_node(std::string_view body) {
  TRY(const Value value, versioned(body));
  core::Node node;
  node.name = value.text("name");
  node.cpu = Milli{value.integer("cpu_milli")};
  node.ram = Memory::bytes(value.integer("ram"));
  node.pod_slots = 1'000'000'000;
  if (const Value* devices = value.find("devices"); devices != nullptr && devices->is_array()) {
    for (const Value& row : devices->as_array()) {
      core::Device device;
      device.uuid = row.text("uuid");
      device.index = static_cast<int>(row.integer("index"));
      device.model = row.text("model");
      device.reserve = Memory::bytes(row.integer("reserve"));
      device.numa = static_cast<int>(row.integer("numa", -1));
      device.mig_profile = row.text("mig_profile");
      device.mig_parent = row.text("mig_parent");
      device.mig_enabled = row.flag("mig_enabled");
      device.pci_bus_id = row.text("pci");
      if (const auto total = some(row, "total")) {
        device.total = Memory::bytes(*total);
      }
      node.devices.push_back(std::move(device));
    }
  }
  TRY_VOID(core::check_node(node));
  return node;
}

}  // namespace berth::lease
