// The verbs that change a state file while programs run on it.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "fake/cuda/names.h"
#include "fake/nvml/names.h"
#include "fake/tool/instances.h"
#include "fake/tool/machine.h"
#include "fake/tool/opened.h"
#include "fake/tool/verbs.h"

namespace berth::fake::tool {

namespace {

std::vector<std::string> known_functions() {
  std::vector<std::string> names(cuda::kNames, cuda::kNames + cuda::kNameCount);
  names.insert(names.end(), nvml::kNames, nvml::kNames + nvml::kNameCount);
  return names;
}

Result<void> check_function(const std::string& name) {
  if (name == "*") return success();
  const std::vector<std::string> known = known_functions();
  for (const std::string& one : known) {
    if (one == name) return success();
  }
  return invalid_argument(
      fmt::format("no entry point is called '{}' (names are those that the library exports, like "
                  "cuMemAlloc_v2); did you mean {}?",
                  printable(name), nearest(name, known)));
}

void clear_faults(State& state, const std::string& function) {
  bool any = false;
  for (Fault& fault : state.faults) {
    if (fault.used.load() == 2 && (function.empty() || function == fault.function)) {
      fault.used.store(0);
    }
    any = any || fault.used.load() != 0;
  }
  if (!any) state.header.special.fetch_and(~static_cast<std::uint32_t>(kSpecialFaults));
}

Result<std::uint64_t> per_million(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(value > 0) || value > 1) {
    return invalid_argument(fmt::format(
        "--probability: '{}' is no number above 0 and up to 1; for example 0.01", printable(text)));
  }
  return static_cast<std::uint64_t>(std::llround(value * 1e6));
}

Result<FaultAction> action_of(const Words& words) {
  int given = 0;
  FaultAction action = FaultAction::code;
  const std::pair<const char*, FaultAction> switches[] = {{"--delay-us", FaultAction::delay},
                                                          {"--hang", FaultAction::hang},
                                                          {"--kill", FaultAction::kill},
                                                          {"--poison", FaultAction::poison}};
  for (const auto& [option, value] : switches) {
    if (!words.has(option)) continue;
    action = value;
    ++given;
  }
  if (given > 1) {
    return invalid_argument("one of --delay-us, --hang, --kill and --poison at a time");
  }
  return action;
}

Result<void> fill_fault(const Words& words, Fault& fault) {
  constexpr std::int64_t kMost = INT64_MAX / 2;
  TRY(const FaultAction action, action_of(words));
  TRY(const std::int64_t code, words.number("--code", 999, -1'000'000, 1'000'000));
  TRY(const std::int64_t nth, words.number("--nth", 1, 1, kMost));
  TRY(const std::int64_t times, words.number("--times", 1, 0, kMost));
  TRY(const std::int64_t seed, words.number("--seed", 1, 0, kMost));
  TRY(const std::int64_t delay, words.number("--delay-us", 0, 0, 3'600'000'000));
  fault.per_million = 0;
  if (const auto text = words.text("--probability")) {
    if (words.has("--nth") || words.has("--times")) {
      return invalid_argument("--probability goes without --nth and --times");
    }
    TRY(fault.per_million, per_million(*text));
  }
  fault.action = static_cast<std::uint32_t>(action);
  fault.code = code;
  fault.nth = fault.per_million != 0 ? 0 : static_cast<std::uint64_t>(nth);
  fault.times = static_cast<std::uint64_t>(times);
  fault.seed = static_cast<std::uint64_t>(seed);
  fault.delay_ns = static_cast<std::uint64_t>(delay) * 1000;
  fault.calls.store(0);
  fault.hits.store(0);
  return success();
}

Error conflict(std::string text) { return {ErrorCode::conflict, std::move(text)}; }

}  // namespace

Result<int> device_named(const Books& books, const std::string& text) {
  const State& state = books.state();
  std::string known;
  int found = -1;
  for (int device = 0; device < books.device_count(); ++device) {
    const DeviceEntry& entry = state.devices[device];
    if (entry.used == 0) continue;
    const bool by_index = entry.parent < 0 && text == std::to_string(entry.index);
    const bool by_uuid =
        text.size() > 4 && std::strncmp(entry.uuid_text, text.c_str(), text.size()) == 0;
    known += fmt::format("\n  {}  {}", entry.parent < 0 ? std::to_string(entry.index) : "-",
                         entry.uuid_text);
    if (!by_index && !by_uuid) continue;
    if (found >= 0) {
      return invalid_argument(fmt::format("'{}' begins more than one UUID", printable(text)));
    }
    found = device;
  }
  if (found >= 0) return found;
  return invalid_argument(
      fmt::format("no device is called '{}'; there are{}", printable(text), known));
}

Result<void> fail(const Words& words) {
  TRY(const std::unique_ptr<Books> books, opened(words));
  State& state = books->state();
  const std::string function = words.operands().empty() ? "" : words.operands()[0];
  if (words.has("--clear")) {
    clear_faults(state, function);
    return success();
  }
  if (function.empty()) return invalid_argument("fail: FUNCTION is missing, or --clear");
  TRY_VOID(check_function(function));
  const Books::Lock lock(*books);
  for (Fault& fault : state.faults) {
    if (fault.used.load() != 0) continue;
    TRY_VOID(fill_fault(words, fault));
    (void)std::snprintf(fault.function, sizeof fault.function, "%s", function.c_str());
    fault.used.store(2, std::memory_order_release);
    state.header.special.fetch_or(kSpecialFaults);
    return success();
  }
  return Error(ErrorCode::exhausted,
               fmt::format("{} rules are there already; fail --clear forgets them", kMaxFaults));
}

Result<void> xid(const Words& words) {
  TRY(const std::unique_ptr<Books> books, opened(words));
  TRY(const int device, device_named(*books, words.operands()[0]));
  TRY(const std::int64_t code, number_from("CODE", words.operands()[1], 1, 1000));
  constexpr std::int64_t kDoubleBitEcc = 48;
  constexpr std::int64_t kUncontained = 95;
  constexpr std::int64_t kContained = 94;
  constexpr std::int64_t kOffTheBus = 79;
  DeviceEntry& entry = books->state().devices[device];
  if (code == kDoubleBitEcc || code == kContained || code == kUncontained) {
    entry.ecc_uncorrected.fetch_add(1);
  }
  if (code == kOffTheBus) entry.lost.store(2);
  if (code == kOffTheBus || words.has("--contexts")) entry.lost_epoch.fetch_add(1);
  entry.last_xid.store(static_cast<std::uint64_t>(code));
  entry.xid_count.fetch_add(1);
  return success();
}

Result<void> lose(const Words& words) {
  TRY(const std::unique_ptr<Books> books, opened(words));
  TRY(const int device, device_named(*books, words.operands()[0]));
  DeviceEntry& entry = books->state().devices[device];
  if (words.has("--back")) {
    entry.lost.store(0);
    return success();
  }
  entry.lost_epoch.fetch_add(1);
  entry.lost.store(words.has("--bus") ? 2 : 1);
  if (words.has("--bus")) {
    entry.last_xid.store(79);
    entry.xid_count.fetch_add(1);
  }
  return success();
}

Result<void> foreign(const Words& words) {
  TRY(const std::int64_t pid, number_from("PID", words.operands()[0], 1, 4'194'304));
  TRY(const std::uint64_t bytes, size_from("BYTES", words.operands()[1]));
  TRY(const std::unique_ptr<Books> books, opened(words));
  TRY(const int device, device_named(*books, words.text("--device").value_or("0")));
  State& state = books->state();
  const Books::Lock lock(*books);
  Foreign* place = nullptr;
  for (Foreign& one : state.foreign) {
    const bool same = one.used.load() == 2 && one.pid == static_cast<std::uint32_t>(pid) &&
                      one.device == static_cast<std::uint32_t>(device);
    if (same) place = &one;
  }
  for (Foreign& one : state.foreign) {
    if (place == nullptr && one.used.load() == 0) place = &one;
  }
  if (place == nullptr) {
    return Error(ErrorCode::exhausted, fmt::format("{} foreign processes at most", kMaxForeign));
  }
  Word& sum = state.devices[device].foreign_bytes;
  const std::uint64_t before = place->used.load() == 2 ? place->bytes.load() : 0;
  place->pid = static_cast<std::uint32_t>(pid);
  place->device = static_cast<std::uint32_t>(device);
  place->graphics = words.has("--graphics") ? 1 : 0;
  (void)std::snprintf(place->command, sizeof place->command, "%s",
                      words.text("--name").value_or("foreign").c_str());
  place->bytes.store(bytes);
  place->used.store(bytes == 0 ? 0 : 2, std::memory_order_release);
  sum.store(sum.load() - before + bytes);
  return success();
}

namespace {

// "1,0": the new index of each GPU in the order of the present ones.
Result<std::vector<std::uint32_t>> new_order(const std::string& text, std::size_t gpus) {
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(gpus, false);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    std::uint32_t index = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    if (error != std::errc{} || end != word.data() + word.size() || index >= gpus || seen[index]) {
      break;
    }
    seen[index] = true;
    order.push_back(index);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  if (order.size() != gpus || !rest.empty()) {
    return invalid_argument(fmt::format("--order '{}' must name each of 0 to {} once, by commas",
                                        printable(text), gpus - 1));
  }
  return order;
}

std::string users_of(Books& books) {
  std::string users;
  for (int slot = 0; slot < books.slots_high(); ++slot) {
    if (books.lives(slot)) users += fmt::format(" {}", books.pid_of(slot));
  }
  return users;
}

}  // namespace

Result<void> reload(const Words& words) {
  TRY(const std::unique_ptr<Books> books, opened(words));
  State& state = books->state();
  if (const std::string users = users_of(*books); !users.empty() && !words.has("--force")) {
    return conflict(fmt::format("the driver is in use by{}; end them, or say --force", users));
  }
  std::vector<DeviceEntry*> gpus;
  for (int device = 0; device < books->device_count(); ++device) {
    DeviceEntry& entry = state.devices[device];
    if (entry.used != 0 && entry.parent < 0) gpus.push_back(&entry);
  }
  if (const auto text = words.text("--order")) {
    TRY(const std::vector<std::uint32_t> order, new_order(*text, gpus.size()));
    for (DeviceEntry* gpu : gpus)
      gpu->index = order[gpu->index];
  }
  if (const auto text = words.text("--driver")) {
    TRY(const DriverLine line, driver_line(*text));
    set_driver(state.header, line);
  }
  for (DeviceEntry* gpu : gpus) {
    gpu->lost.store(0);
    gpu->mig_mode.store(gpu->mig_pending.load());
    gpu->busy_until.store(0);
  }
  state.header.special.fetch_or(kSpecialReload);
  state.header.epoch.fetch_add(1);
  return success();
}

Result<void> mig(const Words& words) {
  TRY(const std::unique_ptr<Books> books, opened(words));
  State& state = books->state();
  TRY(const int device, device_named(*books, words.operands()[0]));
  const std::string& deed = words.operands()[1];
  const bool has_profile = words.operands().size() == 3;
  if (deed == "create" && has_profile) {
    const Books::Lock lock(*books);
    TRY(const std::string uuid, create_instance(state, device, words.operands()[2]));
    (void)std::printf("%s\n", uuid.c_str());
    return success();
  }
  if (has_profile || (deed != "enable" && deed != "disable" && deed != "destroy")) {
    return invalid_argument(fmt::format(
        "mig DEVICE enable, disable, create PROFILE or destroy; not '{}'", printable(deed)));
  }
  if (books->used(device) != 0) {
    return conflict(fmt::format("{} is in use", state.devices[device].uuid_text));
  }
  if (deed == "destroy") return destroy_instance(state, device);
  DeviceEntry& entry = state.devices[device];
  if (entry.parent >= 0) return invalid_argument("a MIG instance cannot be cut again");
  const std::uint32_t mode = deed == "enable" ? 1 : 0;
  for (int other = 0; mode == 0 && other < books->device_count(); ++other) {
    if (state.devices[other].parent == device) state.devices[other].used = 0;
  }
  entry.mig_mode.store(mode);
  entry.mig_pending.store(mode);
  return success();
}

Result<void> log(const Words& words) {
  TRY(const std::unique_ptr<Books> books, opened(words));
  const std::uint64_t count = books->state().header.log_count.load();
  for (std::uint64_t place = 0; place < count && place < kMaxLog; ++place) {
    const LogLine& line = books->state().log[place];
    (void)std::printf("%s %d %llu %d\n", line.symbol, line.version,
                      static_cast<unsigned long long>(line.flags), line.status);
  }
  return success();
}

}  // namespace berth::fake::tool
