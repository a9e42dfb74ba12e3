#include "cli/cluster_scan.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "json/dom.h"
#include "kube/objects/grant.h"
#include "kube/objects/node_reading.h"
#include "kube/objects/read.h"
#include "kube/objects/time.h"
#include "net/target.h"
#include "request/pod.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr std::string_view kPods =
    "/api/v1/pods?fieldSelector=spec.schedulerName%3Dberth-scheduler";
constexpr std::string_view kEveryPod =
    "/api/v1/pods?fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed";

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const kube::Condition* condition_of(const kube::Pod& pod, std::string_view type) {
  const auto found = std::ranges::find(pod.conditions, type, &kube::Condition::type);
  return found == pod.conditions.end() ? nullptr : &*found;
}

std::string id_of(const kube::Pod& pod) { return pod.meta.namespace_name + "/" + pod.meta.name; }

std::string_view state_of(const kube::Pod& pod) {
  if (pod.phase == "Succeeded") {
    return "released";
  }
  if (pod.phase == "Failed") {
    return "lost";
  }
  if (pod.meta.deleting) {
    return "ending";
  }
  if (!pod.assigned()) {
    return "waiting";
  }
  return pod.phase == "Running" ? "active" : "granted";
}

// What a pod's grant holds, device by device; containers on one device are added up.
struct Holding {
  std::string uuid;
  std::int64_t request_mib = 0;
  std::int64_t limit_mib = 0;
};

std::vector<Holding> holdings_of(const kube::Pod& pod) {
  std::vector<Holding> held;
  const auto text = pod.meta.annotations.find(std::string(kube::kGrantAnnotation));
  if (text == pod.meta.annotations.end() || pod.ended()) {
    return held;
  }
  const kube::GrantReading reading = kube::read_grant(text->second);
  if (!reading.record) {
    return held;
  }
  for (const kube::GrantedContainer& container : reading.record->containers) {
    for (const kube::GrantedDevice& device : container.devices) {
      const auto known = std::ranges::find(held, device.uuid, &Holding::uuid);
      if (known == held.end()) {
        held.push_back({device.uuid, device.request_mib, device.limit_mib});
      } else {
        known->request_mib += device.request_mib;
        known->limit_mib += device.limit_mib;
      }
    }
  }
  return held;
}

// What a pod asks for that has no grant yet, of its first container with a GPU. Fractions and whole
// devices have no size before their device is known.
Holding asked_by(const kube::Pod& pod) {
  const request::PodOutcome outcome = request::read_pod(pod.words);
  if (!outcome.ok()) {
    return {};
  }
  for (const core::ContainerAsk& container : outcome.request->containers()) {
    if (container.gpu.kind == core::AskKind::memory) {
      return {.uuid = {},
              .request_mib = container.gpu.mib,
              .limit_mib = container.gpu.limit_mib.value_or(container.gpu.mib)};
    }
  }
  return {};
}

Value lease_of(const kube::Pod& pod) {
  const std::string_view state = state_of(pod);
  const kube::Condition* scheduled = condition_of(pod, "PodScheduled");
  const bool bound = scheduled != nullptr && scheduled->status == "True";
  const std::int64_t until = bound ? scheduled->transition_ms : now_ms();
  json::Array devices;
  std::int64_t request = 0;
  std::int64_t limit = 0;
  for (const Holding& held : holdings_of(pod)) {
    devices.push_back(json::object({{"uuid", held.uuid},
                                    {"node", pod.words.preset_node},
                                    {"memory_mib", held.request_mib},
                                    {"limit_mib", held.limit_mib}}));
    request = held.request_mib;
    limit = held.limit_mib;
  }
  if (devices.empty() && !pod.ended()) {
    const Holding asked = asked_by(pod);
    request = asked.request_mib;
    limit = asked.limit_mib;
  }
  const auto queue = pod.meta.labels.find("berth.dev/queue");
  const auto level = pod.meta.annotations.find("berth.dev/isolation");
  Value out = json::object(
      {{"id", id_of(pod)},
       {"owner", pod.meta.namespace_name},
       {"state", state},
       {"node", pod.words.preset_node},
       {"memory_mib", request},
       {"limit_mib", limit},
       {"devices", std::move(devices)},
       {"priority", pod.priority},
       {"isolation", level == pod.meta.annotations.end() ? "advisory" : level->second},
       {"queued_at", kube::time_text(pod.meta.created_ms)},
       {"waited_seconds", std::max<std::int64_t>(until - pod.meta.created_ms, 0) / 1000},
       {"queue",
        json::object({{"name", queue == pod.meta.labels.end() ? "default" : queue->second}})}});
  if (bound) {
    out.set("granted_at", kube::time_text(scheduled->transition_ms));
  }
  if (state == "waiting") {
    out.set("reason", scheduled == nullptr ? "NotLookedAt" : scheduled->reason);
    out.set("message", scheduled == nullptr || scheduled->message.empty()
                           ? "no scheduler of Berth has looked at it yet"
                           : scheduled->message);
  }
  return out;
}

Result<std::vector<kube::Pod>> pods_at(std::string_view path, const ReadPath& read) {
  TRY(const std::string body, read(std::string(path)));
  json::DomParser parser;
  TRY(const json::Element list, parser.parse(body));
  std::vector<kube::Pod> pods;
  for (const json::Element item : list["items"].items()) {
    if (Result<kube::Pod> pod = kube::read_pod(item)) {
      pods.push_back(std::move(*pod));
    }
  }
  return pods;
}

Value device_of(const core::Node& node, const core::Device& device, std::string_view source_problem,
                const std::vector<std::pair<std::string, Holding>>& held) {
  std::int64_t promised = 0;
  json::Array leases;
  for (const auto& [id, holding] : held) {
    if (holding.uuid == device.uuid) {
      promised += holding.request_mib;
      leases.emplace_back(id);
    }
  }
  const std::int64_t headroom = std::max<std::int64_t>(device.usable_mib() - promised, 0);
  Value out =
      json::object({{"uuid", device.uuid},
                    {"node", node.name},
                    {"index", device.index},
                    {"model", device.model},
                    {"mig", device.is_mig()},
                    {"mig_parent", device.mig_enabled},
                    {"promised_mib", promised},
                    {"committed_mib", promised},
                    {"headroom_mib", headroom},
                    {"foreign_mib", 0},
                    {"used_mib", Value()},
                    {"mode", leases.empty() ? "free" : "shared"},
                    {"health", device.health == core::DeviceHealth::ok ? "ok" : "unhealthy"},
                    {"drained", device.cordoned || node.cordoned},
                    {"leases", std::move(leases)}});
  if (device.total) {
    out.set("total_mib", device.total->floor_mib());
    out.set("reserve_mib", device.total->floor_mib() - device.usable_mib());
  }
  if (!source_problem.empty()) {
    out.set("reason", source_problem);
  } else if (!node.ready) {
    out.set("reason", "node-not-ready");
  }
  return out;
}

Result<Value> devices_of_cluster(const ReadPath& read) {
  TRY(const std::string body, read("/api/v1/nodes"));
  TRY(const std::vector<kube::Pod> pods, pods_at(kEveryPod, read));
  std::vector<std::pair<std::string, Holding>> held;
  for (const kube::Pod& pod : pods) {
    for (Holding& holding : holdings_of(pod)) {
      held.emplace_back(id_of(pod), std::move(holding));
    }
  }
  json::DomParser parser;
  TRY(const json::Element list, parser.parse(body));
  json::Array devices;
  for (const json::Element item : list["items"].items()) {
    const Result<kube::Node> node = kube::read_node(item);
    if (!node) {
      continue;
    }
    const kube::NodeReading reading = kube::node_from(*node, {.allow_advisory = true});
    for (const core::Device& device : reading.node.devices) {
      devices.push_back(device_of(reading.node, device, reading.sharing_why, held));
    }
  }
  return json::object({{"devices", std::move(devices)}});
}

std::set<std::string> states_wanted(const std::string& words) {
  std::set<std::string> wanted;
  for (std::size_t from = 0; from <= words.size();) {
    const std::size_t comma = std::min(words.find(',', from), words.size());
    if (comma > from) {
      wanted.insert(words.substr(from, comma - from));
    }
    from = comma + 1;
  }
  if (wanted.erase("live") > 0) {
    wanted.insert({"waiting", "granted", "active", "ending"});
  }
  return wanted;
}

Result<Value> leases_of_cluster(const net::Target& target, const ReadPath& read) {
  std::map<std::string, std::string> query;
  for (const net::Header& word : target.query) {
    query[word.first] = word.second;
  }
  TRY(const std::vector<kube::Pod> pods, pods_at(kPods, read));
  const std::set<std::string> states = states_wanted(query["state"]);
  json::Array leases;
  for (const kube::Pod& pod : pods) {
    Value lease = lease_of(pod);
    const bool on_device =
        query["device"].empty() || std::ranges::any_of(holdings_of(pod), [&](const Holding& held) {
          return held.uuid == query["device"];
        });
    if (on_device && (states.empty() || states.contains(std::string(lease.text("state")))) &&
        (query["owner"].empty() || lease.text("owner") == query["owner"]) &&
        (query["queue"].empty() || lease.find("queue")->text("name") == query["queue"])) {
      leases.push_back(std::move(lease));
    }
  }
  const auto waits = [](const Value& lease) { return lease.text("state") != "waiting"; };
  std::ranges::stable_sort(leases, {}, waits);
  return json::object({{"leases", std::move(leases)}});
}

Error unknown_pod(std::string_view id) {
  return {ErrorCode::not_found,
          fmt::format("there is no pod {}; `berth ps --kube` lists those that Berth schedules",
                      printable(id))};
}

Result<kube::Pod> pod_named(const std::string& id, const ReadPath& read) {
  const std::size_t slash = id.find('/');
  if (slash == std::string::npos) {
    return unknown_pod(id);
  }
  const Result<std::string> body =
      read(fmt::format("/api/v1/namespaces/{}/pods/{}", net::percent_encoded(id.substr(0, slash)),
                       net::percent_encoded(id.substr(slash + 1))));
  if (!body) {
    return body.error().code() == ErrorCode::not_found ? unknown_pod(id) : body.error();
  }
  json::DomParser parser;
  TRY(const json::Element object, parser.parse(*body));
  TRY(kube::Pod pod, kube::read_pod(object));
  if (pod.scheduler_name != "berth-scheduler") {
    return Error{ErrorCode::not_found,
                 fmt::format("{} names the scheduler {}, not berth-scheduler: set "
                             "spec.schedulerName and create it anew",
                             printable(id), printable(pod.scheduler_name))};
  }
  return pod;
}

// UUIDs in a sentence by the devices' places on their nodes, as tables call them.
std::string with_names(std::string sentence, const json::Array& devices) {
  for (const Value& device : devices) {
    const std::string uuid(device.text("uuid"));
    const std::string name = fmt::format("GPU {}", device.integer("index"));
    for (std::size_t at = sentence.find(uuid); !uuid.empty() && at != std::string::npos;
         at = sentence.find(uuid, at + name.size())) {
      sentence.replace(at, uuid.size(), name);
    }
  }
  return sentence;
}

// Its own devices are listed. Which of the others it could have is not known here.
Result<Value> explained(const kube::Pod& pod, const ReadPath& read) {
  TRY(const Value all, devices_of_cluster(read));
  const json::Array& devices = all.find("devices")->as_array();
  const std::vector<Holding> held = holdings_of(pod);
  json::Array rows;
  for (const Value& device : devices) {
    if (std::ranges::find(held, device.text("uuid"), &Holding::uuid) != held.end()) {
      rows.push_back(device);
    }
  }
  return json::object({{"message", with_names(std::string(lease_of(pod).text("message")), devices)},
                       {"position", 0},
                       {"devices", std::move(rows)}});
}

}  // namespace

Result<Value> scan_cluster(const std::string& target, const ReadPath& read) {
  TRY(const net::Target parsed, net::parse_target(target));
  const std::vector<std::string>& words = parsed.segments;
  if (words.size() >= 2 && words[1] == "devices") {
    return devices_of_cluster(read);
  }
  if (words.size() == 2 && words[1] == "leases") {
    return leases_of_cluster(parsed, read);
  }
  if (words.size() >= 3 && words[1] == "leases") {
    TRY(const kube::Pod pod, pod_named(words[2], read));
    return words.size() == 3 ? Result<Value>(lease_of(pod)) : explained(pod, read);
  }
  return Error{ErrorCode::not_found,
               "only a running scheduler knows that: kubectl -n berth-system get pods"};
}

}  // namespace berth::cli
