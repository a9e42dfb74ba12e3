// berth-guard-grant: makes, steers and reads grant directories, which the guard library enforces.
#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "grant/death_watch.h"
#include "grant/directory.h"
#include "grant/spec.h"
#include "grant/usage.h"
#include "words.h"

namespace berth::guard_grant {

namespace {

using grant::GrantDirectory;
using Json = nlohmann::ordered_json;

constexpr std::string_view kHelp = R"(usage: berth-guard-grant VERB DIR [OPTION]...

  create DIR --grant ID --device UUID:REQUEST:LIMIT[:CAP] ...
      [--closed]             refuse what cannot be enforced (default: let it pass)
      [--filter-processes]   NVML shows the grant's own processes only
      [--private-table]      filter the lists that nvidia-smi reads as well
      [--managed-uncounted]  managed memory is free of charge
      [--share-utilisation]  NVML utilisation is the grant's own
      [--context-bytes N]    charged for each live context; bytes, or with a unit
      [--share MILLI]        thousandths of the devices' time, 1 to 1000
      [--slots N]            processes at once, 1 to 1023 (default 1023)
  read DIR [-o table|json]   who holds what
  set-cap DIR UUID SIZE      between request and limit, in force at once
  set-overhead DIR UUID SIZE memory in use that no process's account explains
  set-share DIR UUID MILLI   share of the device's time from now on
  audit DIR                  compare the total with the processes' sums; repair it
      [--reported UUID:PID:SIZE ...]   compare each with what the driver says it uses
  reclaim DIR [--watch SECONDS]   give back what dead processes hold
  remove DIR

Sizes: a number is MiB; K M G T, KiB ... TiB are powers of 1024, KB ... TB of 1000.
Exit code: 0 done, 1 failed, 2 usage.

Example:
  berth-guard-grant create /tmp/g --grant demo \
    --device GPU-8f6d0b9e-0a6f-4b52-9f0e-3a1f9c1d2e4b:1GiB:1GiB --closed
)";

std::string mib(Memory memory) {
  return fmt::format("{}.{} MiB", memory.in_bytes() / Memory::kBytesPerMib,
                     memory.in_bytes() % Memory::kBytesPerMib * 10 / Memory::kBytesPerMib);
}

Json slot_json(const grant::SlotReading& slot) {
  return {{"slot", slot.slot},
          {"pid", slot.pid},
          {"name", slot.name},
          {"alive", slot.locked},
          {"held_bytes", slot.held.in_bytes()}};
}

Json reading_json(const grant::GrantReading& reading) {
  Json json;
  json["grant"] = reading.id;
  json["closed"] = reading.closed;
  json["level"] = reading.level;
  json["processes"] = Json::array();
  for (const grant::SlotReading& slot : reading.owners)
    json["processes"].push_back(slot_json(slot));
  json["devices"] = Json::array();
  for (const grant::DeviceReading& device : reading.devices) {
    Json row = {{"uuid", grant::uuid_text(device.uuid)},
                {"request_bytes", device.request.in_bytes()},
                {"limit_bytes", device.limit.in_bytes()},
                {"cap_bytes", device.cap.in_bytes()},
                {"overhead_bytes", device.overhead.in_bytes()},
                {"context_bytes", device.context_bytes.in_bytes()},
                {"charged_bytes", device.charged.in_bytes()},
                {"refused", device.refused},
                {"overshoot_bytes", device.overshoot.in_bytes()},
                {"unknown_abi", device.unknown_abi},
                {"processes", Json::array()}};
    for (const grant::SlotReading& slot : device.slots)
      row["processes"].push_back(slot_json(slot));
    json["devices"].push_back(std::move(row));
  }
  return json;
}

void print_table(const grant::GrantReading& reading) {
  std::cout << fmt::format("grant {}, fail-{}\n", reading.id, reading.closed ? "closed" : "open");
  for (const grant::DeviceReading& device : reading.devices) {
    std::cout << fmt::format("{}  charged {} of {} (limit {}), refused {}, overshoot {}\n",
                             grant::uuid_text(device.uuid), mib(device.charged), mib(device.cap),
                             mib(device.limit), device.refused, mib(device.overshoot));
    for (const grant::SlotReading& slot : device.slots) {
      std::cout << fmt::format("  {:>8}  {:<16} {:>14}{}\n", slot.pid, slot.name, mib(slot.held),
                               slot.locked ? "" : "  (not alive, or lost its lock)");
    }
  }
}

Result<void> create_verb(std::span<const std::string> words) {
  static constexpr std::array kOptions = {
      Option{"--grant", true},        Option{"--device", true},      Option{"--closed"},
      Option{"--share", true},        Option{"--filter-processes"},  Option{"--private-table"},
      Option{"--slots", true},        Option{"--managed-uncounted"}, Option{"--share-utilisation"},
      Option{"--context-bytes", true}};
  TRY(const Words split, split_words(words, kOptions, "DIR"));
  TRY(const grant::GrantSpec spec, parse_spec(split));
  return grant::create(split.plain[0], spec);
}

Result<void> read_verb(std::span<const std::string> words) {
  static constexpr std::array kOptions = {Option{"-o", true}};
  TRY(const Words split, split_words(words, kOptions, "DIR"));
  const std::string format = split.value("-o", "table");
  if (format != "table" && format != "json") {
    return invalid_argument(fmt::format("-o {}: table and json are known", format));
  }
  TRY(const GrantDirectory directory, GrantDirectory::open(split.plain[0]));
  const grant::GrantReading reading = directory.read();
  if (format == "json") {
    std::cout << reading_json(reading).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    print_table(reading);
  }
  return success();
}

Result<void> set_verb(std::span<const std::string> words, std::string_view what) {
  TRY(const Words split,
      split_words(words, {}, what == "share" ? "DIR UUID MILLI" : "DIR UUID SIZE"));
  TRY(const grant::Uuid uuid, grant::parse_uuid(split.plain[1]));
  if (what == "share") {
    TRY(const std::int64_t share, parse_integer("share", split.plain[2], {.min = 1, .max = 1000}));
    TRY(GrantDirectory directory, GrantDirectory::open(split.plain[0]));
    return directory.set_share(uuid, Milli(share));
  }
  TRY(const Memory size, parse_size(split.plain[2]));
  TRY(GrantDirectory directory, GrantDirectory::open(split.plain[0]));
  return what == "cap" ? directory.set_cap(uuid, size) : directory.set_overhead(uuid, size);
}

Result<void> audit_verb(std::span<const std::string> words) {
  static constexpr std::array kOptions = {Option{"--reported", true}};
  TRY(const Words split, split_words(words, kOptions, "DIR"));
  std::vector<grant::ReportedUse> reported;
  const auto [begin, end] = split.options.equal_range("--reported");
  for (auto option = begin; option != end; ++option) {
    TRY(const grant::ReportedUse use, parse_reported(option->second));
    reported.push_back(use);
  }
  TRY(GrantDirectory directory, GrantDirectory::open(split.plain[0]));
  for (const grant::AuditFinding& finding : directory.audit()) {
    std::string_view outcome = "agrees";
    if (finding.repaired) outcome = "differed, repaired";
    if (!finding.exact) outcome = "too busy to compare; run it again";
    std::cout << fmt::format("{}  charged {} B, processes hold {} B: {}\n",
                             grant::uuid_text(finding.uuid), finding.charged.in_bytes(),
                             finding.held.in_bytes(), outcome);
  }
  for (const grant::UseFinding& found : grant::compare_use(directory.read(), reported)) {
    std::cout << fmt::format("{}  pid {}: the driver reports {}, the account holds {}: {}\n",
                             grant::uuid_text(found.device), found.pid, mib(found.reported),
                             mib(found.held), grant::meaning_of(found));
  }
  return success();
}

Result<void> reclaim_verb(std::span<const std::string> words) {
  static constexpr std::array kOptions = {Option{"--watch", true}};
  TRY(const Words split, split_words(words, kOptions, "DIR"));
  TRY(const std::int64_t seconds,
      parse_integer("--watch", split.value("--watch", "0"), {.min = 0, .max = 1 << 20}));
  TRY(GrantDirectory directory, GrantDirectory::open(split.plain[0]));
  int reclaimed = directory.reclaim();
  grant::DeathWatch watch;
  // A tenth of a second at most until a process that came meanwhile is watched too.
  for (std::int64_t turn = 0; turn < seconds * 10; ++turn) {
    for (const std::uint32_t pid : directory.pids())
      watch.add(pid);
    if (watch.wait(Duration(100)) > 0) reclaimed += directory.reclaim();
  }
  std::cout << fmt::format("slots reclaimed: {}\n", reclaimed);
  return success();
}

Result<void> remove_verb(std::span<const std::string> words) {
  TRY(const Words split, split_words(words, {}, "DIR"));
  return grant::remove(split.plain[0]);
}

struct Verb {
  std::string_view name;
  Result<void> (*run)(std::span<const std::string> words);
};

constexpr std::array kVerbs = {
    Verb{"create", create_verb},
    Verb{"read", read_verb},
    Verb{"set-cap", [](std::span<const std::string> words) { return set_verb(words, "cap"); }},
    Verb{"set-overhead",
         [](std::span<const std::string> words) { return set_verb(words, "overhead"); }},
    Verb{"set-share", [](std::span<const std::string> words) { return set_verb(words, "share"); }},
    Verb{"audit", audit_verb},
    Verb{"reclaim", reclaim_verb},
    Verb{"remove", remove_verb},
};

std::string nearest_verb(const std::string& typed) {
  std::vector<std::string> names;
  std::ranges::transform(kVerbs, std::back_inserter(names),
                         [](const Verb& verb) { return std::string(verb.name); });
  return nearest(typed, names);
}

int run(std::span<const std::string> words) {
  if (words.empty()) {
    std::cerr << kHelp;
    return 2;
  }
  if (std::ranges::any_of(words, [](const auto& w) { return w == "--help" || w == "-h"; })) {
    std::cout << kHelp;
    return 0;
  }
  const auto* const verb = std::ranges::find(kVerbs, words[0], &Verb::name);
  const Result<void> done = verb == kVerbs.end()
                                ? Result<void>(invalid_argument(fmt::format(
                                      "'{}' is no verb; --help lists them; did you mean '{}'?",
                                      words[0], nearest_verb(words[0]))))
                                : verb->run(words.subspan(1));
  std::cout.flush();
  if (done.ok() && std::cout.good()) return 0;
  std::cerr << "berth-guard-grant: "
            << (done.ok() ? "the output could not be written" : done.error().to_string()) << "\n";
  return !done.ok() && done.error().code() == ErrorCode::invalid_argument ? 2 : 1;
}

}  // namespace

}  // namespace berth::guard_grant

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return berth::guard_grant::run(words);
}
