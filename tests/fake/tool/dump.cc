#include "fake/tool/dump.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fake/cuda/names.h"
#include "fake/nvml/names.h"

namespace berth::fake::tool {

namespace {

using Json = nlohmann::ordered_json;

Json process_json(Books& books, int slot, int device) {
  const State& state = books.state();
  const Figures& figures = state.figures[device][slot];
  const Owner& owner = state.owners[slot];
  const std::uint64_t own = figures.total.load();
  const std::uint64_t held = books.held(slot, device);
  Json families = Json::object();
  for (int family = 0; family < kFamilies; ++family) {
    const std::uint64_t bytes = figures.family[family].load();
    if (bytes != 0) families[kFamilyNames[family]] = bytes;
  }
  return {{"pid", books.pid_of(slot)},
          {"slot", slot},
          {"command", owner.command},
          {"held", held},
          {"adopted", held - own},
          {"families", families},
          {"busy_ns", figures.busy_ns.load()}};
}

bool has_context(const Owner& owner, int device) {
  const std::uint64_t bits = (device < 64 ? owner.contexts : owner.contexts_high).load();
  return (bits >> (static_cast<unsigned>(device) % 64U) & 1U) != 0;
}

Json processes_json(Books& books, int device) {
  Json list = Json::array();
  for (int slot = 0; slot < books.slots_high(); ++slot) {
    const bool shows = has_context(books.state().owners[slot], device);
    if (!books.lives(slot) || (!shows && books.held(slot, device) == 0)) continue;
    list.push_back(process_json(books, slot, device));
  }
  for (const Foreign& foreign : books.state().foreign) {
    if (foreign.used.load() != 2 || foreign.device != static_cast<std::uint32_t>(device)) continue;
    list.push_back({{"pid", foreign.pid},
                    {"foreign", true},
                    {"command", foreign.command},
                    {"held", foreign.bytes.load()}});
  }
  return list;
}

Json device_json(Books& books, int device) {
  const DeviceEntry& entry = books.state().devices[device];
  const std::uint64_t used = books.used(device);
  const std::uint64_t room = books.room(device);
  Json json = {{"index", entry.index},
               {"uuid", entry.uuid_text},
               {"name", entry.name},
               {"bus_id", entry.bus_id},
               {"total", entry.total},
               {"reserved", entry.reserved},
               {"used", used},
               {"free", used < room ? room - used : 0},
               {"foreign", entry.foreign_bytes.load()},
               {"context_bytes", entry.context_bytes}};
  if (entry.parent >= 0) {
    json["mig_parent"] = books.state().devices[entry.parent].uuid_text;
    json["mig_profile"] = entry.profile;
  } else {
    json["mig_mode"] = entry.mig_mode.load() != 0;
  }
  json["lost"] = entry.lost.load() != 0;
  json["last_xid"] = entry.last_xid.load();
  json["busy_ns"] = entry.busy_total.load();
  json["processes"] = processes_json(books, device);
  return json;
}

Json faults_json(const State& state) {
  Json list = Json::array();
  for (const Fault& fault : state.faults) {
    if (fault.used.load() != 2) continue;
    list.push_back({{"function", fault.function},
                    {"action", fault.action},
                    {"code", fault.code},
                    {"calls", fault.calls.load()},
                    {"hits", fault.hits.load()}});
  }
  return list;
}

Json limits_json(Books& books) {
  Json list = Json::array();
  for (const MemoryLimit& limit : books.state().limits) {
    if (limit.used.load() != 2) continue;
    const auto device = static_cast<int>(limit.device);
    list.push_back({{"cgroup", limit.cgroup},
                    {"device", books.state().devices[device].uuid_text},
                    {"soft", limit.soft.load()},
                    {"hard", limit.hard.load()},
                    {"used", books.group_use(device, limit.cgroup)}});
  }
  return list;
}

// Entry points that were called, by name: counted after `set count=on`; refused ones always.
Json counts_json(const Word (&cuda)[kMaxCounters], const Word (&nvml)[kMaxCounters]) {
  Json counts = Json::object();
  for (int number = 0; number < cuda::kNameCount; ++number) {
    if (cuda[number].load() != 0) counts[cuda::kNames[number]] = cuda[number].load();
  }
  for (int number = 0; number < nvml::kNameCount; ++number) {
    if (nvml[number].load() != 0) counts[nvml::kNames[number]] = nvml[number].load();
  }
  return counts;
}

}  // namespace

std::string dump_json(Books& books) {
  const Header& header = books.state().header;
  Json devices = Json::array();
  for (int device = 0; device < books.device_count(); ++device) {
    if (books.state().devices[device].used != 0) devices.push_back(device_json(books, device));
  }
  Json document = {{"node", header.node},         {"driver", header.driver},
                   {"cuda", header.cuda_version}, {"epoch", header.epoch.load()},
                   {"devices", devices},          {"faults", faults_json(books.state())}};
  document["limits"] = limits_json(books);
  document["calls"] = counts_json(books.state().cuda_calls, books.state().nvml_calls);
  document["refused"] = counts_json(books.state().cuda_refused, books.state().nvml_refused);
  return document.dump(2) + "\n";
}

std::string dump_table(Books& books) {
  const Header& header = books.state().header;
  std::string text = fmt::format("node {}, driver {} (CUDA {}.{})\n", header.node, header.driver,
                                 header.cuda_version / 1000, header.cuda_version % 1000 / 10);
  for (int device = 0; device < books.device_count(); ++device) {
    const DeviceEntry& entry = books.state().devices[device];
    if (entry.used == 0) continue;
    text += fmt::format("{} {}  {}  total {} MiB, reserved {} MiB, used {} B\n",
                        entry.parent < 0 ? "GPU" : "  MIG", entry.index, entry.uuid_text,
                        entry.total >> 20U, entry.reserved >> 20U, books.used(device));
    for (const Json& process : processes_json(books, device)) {
      text +=
          fmt::format("    pid {}  {} B  {}\n", process["pid"].get<std::uint32_t>(),
                      process["held"].get<std::uint64_t>(), process["command"].get<std::string>());
    }
  }
  return text;
}

}  // namespace berth::fake::tool
