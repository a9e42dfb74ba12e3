// berth-fake-gpu set KEY=VALUE: one table of keys.
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "fake/tool/opened.h"
#include "fake/tool/verbs.h"

namespace berth::fake::tool {

namespace {

// "250us", "10ms", "2s" in nanoseconds.
Result<std::uint64_t> duration_from(std::string_view key, const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, end);
  std::uint64_t factor = 0;
  if (unit == "ns" || (unit.empty() && value == 0)) factor = 1;
  if (unit == "us") factor = 1'000;
  if (unit == "ms") factor = 1'000'000;
  if (unit == "s") factor = 1'000'000'000;
  constexpr std::uint64_t kLongest = 3'600'000'000'000;
  if (error != std::errc{} || factor == 0 || value > kLongest / factor) {
    return invalid_argument(
        fmt::format("{}: '{}' is no duration; for example 250us or 10ms", key, printable(text)));
  }
  return value * factor;
}

Result<bool> on_or_off(std::string_view key, const std::string& text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return invalid_argument(fmt::format("{}: '{}' is neither on nor off", key, printable(text)));
}

void put_bit(HalfWord& word, std::uint32_t bit, bool on) {
  if (on) {
    word.fetch_or(bit);
  } else {
    word.fetch_and(~bit);
  }
}

template <std::uint32_t bit>
Result<void> set_special(State& state, std::string_view key, const std::string& text) {
  TRY(const bool on, on_or_off(key, text));
  put_bit(state.header.special, bit, on);
  return success();
}

Result<void> set_call_cost(State& state, std::string_view key, const std::string& text) {
  TRY(const std::uint64_t cost, duration_from(key, text));
  state.header.call_cost_ns.store(cost);
  put_bit(state.header.special, kSpecialCost, cost != 0);
  return success();
}

Result<void> set_launch_time(State& state, std::string_view key, const std::string& text) {
  TRY(const std::uint64_t time, duration_from(key, text));
  state.header.launch_ns.store(time);
  return success();
}

Result<void> set_fork_works(State& state, std::string_view key, const std::string& text) {
  TRY(const bool on, on_or_off(key, text));
  put_bit(state.header.flags, kForkWorks, on);
  return success();
}

Result<void> set_context_bytes(State& state, std::string_view key, const std::string& text) {
  TRY(const std::uint64_t bytes, size_from(key, text));
  for (DeviceEntry& entry : state.devices)
    entry.context_bytes = bytes;
  return success();
}

Result<void> set_compute_mode(State& state, std::string_view key, const std::string& text) {
  const std::pair<const char*, std::uint32_t> modes[] = {
      {"default", 0}, {"prohibited", 2}, {"exclusive", 3}};
  for (const auto& [name, mode] : modes) {
    if (text != name) continue;
    for (DeviceEntry& entry : state.devices)
      entry.compute_mode.store(mode);
    return success();
  }
  return invalid_argument(
      fmt::format("{}: '{}' is none of default, exclusive, prohibited", key, printable(text)));
}

Result<void> set_limits(State& state, std::string_view key, const std::string& text) {
  if (text != "dmem" && text != "misc" && text != "off") {
    return invalid_argument(
        fmt::format("{}: '{}' is none of dmem, misc, off", key, printable(text)));
  }
  put_bit(state.header.flags, kMiscLimits, text == "misc");
  put_bit(state.header.flags, kNoLimits, text == "off");
  return success();
}

struct Key {
  const char* name;
  Result<void> (*apply)(State& state, std::string_view key, const std::string& text);
};

constexpr Key kKeys[] = {
    {"launch-time", set_launch_time},
    {"call-cost", set_call_cost},
    {"count", set_special<kSpecialCount>},
    {"log", set_special<kSpecialLog>},
    {"context-bytes", set_context_bytes},
    {"compute-mode", set_compute_mode},
    {"limits", set_limits},
    {"fork-works", set_fork_works},
};

}  // namespace

Result<void> set(const Words& words) {
  const std::string& word = words.operands()[0];
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) {
    return invalid_argument(
        fmt::format("'{}': KEY=VALUE is expected; for example launch-time=250us", printable(word)));
  }
  const std::string key = word.substr(0, equals);
  std::vector<std::string> known;
  for (const Key& candidate : kKeys) {
    known.emplace_back(candidate.name);
    if (key != candidate.name) continue;
    TRY(const std::unique_ptr<Books> books, opened(words));
    return candidate.apply(books->state(), key, word.substr(equals + 1));
  }
  return invalid_argument(
      fmt::format("unknown key '{}'; did you mean {}?", printable(key), nearest(key, known)));
}

}  // namespace berth::fake::tool
