// `berth drain` and `berth undrain`: the same call with another value.
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/daemon_client.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"
#include "net/target.h"

namespace berth::cli {

namespace {

using json::Value;

constexpr Option kOptions[] = {kOutputOption, kAddressOption, kTokenFileOption, kCaFileOption};

constexpr Example kDrainExamples[] = {
    {"berth drain 0", "nothing new on the first GPU; what runs there ends in its own time"},
    {"berth drain n1/3", "where the daemon knows several nodes"},
};

constexpr Example kUndrainExamples[] = {
    {"berth undrain 0", "the first GPU takes new work again"},
};

std::string sentence(const Value& device, const DeviceNames& names, bool drained) {
  const std::string name = names.name(device.text("uuid"));
  if (!drained) {
    return fmt::format("{} takes new work again\n", name);
  }
  const Value* leases = device.find("leases");
  const std::size_t left = leases != nullptr && leases->is_array() ? leases->as_array().size() : 0;
  if (left == 0) {
    return fmt::format("{} is drained: nothing runs there, and nothing new comes\n", name);
  }
  // By its number where that is enough.
  const bool numbered = name.starts_with("GPU ");
  return fmt::format("{} is drained: nothing new comes; {} still there (`berth ps --device {}`)\n",
                     name, left == 1 ? "1 lease is" : fmt::format("{} leases are", left),
                     numbered ? name.substr(4) : std::string(device.text("uuid")));
}

ExitCode set_drained(const Arguments& arguments, Console& console, bool drained) {
  const std::string verb = drained ? "drain" : "undrain";
  Result<DaemonClient> daemon = DaemonClient::open(arguments);
  if (!daemon) {
    return fail(verb, daemon.error(), console);
  }
  const Result<json::Array> devices = daemon->list("/v1/devices", "devices");
  if (!devices) {
    return fail(verb, devices.error(), console);
  }
  // All of them must be known before the first is touched.
  std::vector<std::string> uuids;
  for (const std::string& words : arguments.operands()) {
    const Result<std::string> uuid = device_meant(*devices, words);
    if (!uuid) {
      return fail(verb, uuid.error(), console);
    }
    uuids.push_back(*uuid);
  }
  const std::string format = *arguments.value("--output");
  const DeviceNames names(*devices);
  json::Array changed;
  for (const std::string& uuid : uuids) {
    Result<Value> device = daemon->send("PATCH", "/v1/devices/" + net::percent_encoded(uuid),
                                        json::object({{"drained", drained}}));
    if (!device) {
      return fail(verb, device.error(), console);
    }
    if (format == "table") {
      console.out << sentence(*device, names, drained);
    }
    changed.push_back(std::move(*device));
  }
  if (format != "table") {
    console.out << text_of(json::object({{"devices", std::move(changed)}}), format);
  }
  return ExitCode::done;
}

}  // namespace

constinit const Command kDrainCommand{
    .name = "drain",
    .summary = "let nothing new onto a GPU; what runs there stays",
    .description =
        "A drained GPU gets no new lease; those on it end in their own time. It stays drained over "
        "restarts of the daemon, until `berth undrain`. Administrators only.",
    .options = kOptions,
    .operand = {.name = "DEVICE",
                .help = "index, NODE/INDEX, or UUID (or its beginning)",
                .required = true,
                .repeats = true},
    .examples = kDrainExamples,
    .run = [](const Arguments& arguments,
              Console& console) { return set_drained(arguments, console, true); },
};

constinit const Command kUndrainCommand{
    .name = "undrain",
    .summary = "let new work onto a GPU again",
    .options = kOptions,
    .operand = {.name = "DEVICE",
                .help = "index, NODE/INDEX, or UUID (or its beginning)",
                .required = true,
                .repeats = true},
    .examples = kUndrainExamples,
    .run = [](const Arguments& arguments,
              Console& console) { return set_drained(arguments, console, false); },
};

}  // namespace berth::cli
