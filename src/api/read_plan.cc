#include "api/read_plan.h"

#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "api/body.h"
#include "api/read_reserve.h"

namespace berth::api {

using json::Value;
using lease::Outcome;

namespace {

constexpr std::int64_t kMostElements = 10'000;

constexpr auto kFields =
    std::to_array<std::string_view>({"name", "command", "environment", "directory", "umask",
                                     "after", "after_rule", "array", "grace_seconds", "lease"});

// "0-15", "0-15%4", "7".
std::optional<jobs::Range> read_range(std::string_view text) {
  jobs::Range range;
  const auto number = [&](std::int64_t& into) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    const bool good = error == std::errc() && into >= 0 && into <= 1'000'000;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return good;
  };
  if (!number(range.first)) {
    return std::nullopt;
  }
  range.last = range.first;
  if (text.starts_with('-')) {
    text.remove_prefix(1);
    if (!number(range.last)) {
      return std::nullopt;
    }
  }
  if (text.starts_with('%')) {
    text.remove_prefix(1);
    if (!number(range.at_once) || range.at_once == 0) {
      return std::nullopt;
    }
  }
  const bool sane =
      text.empty() && range.last >= range.first && range.last - range.first < kMostElements;
  return sane ? std::optional(range) : std::nullopt;
}

Outcome<std::vector<std::string>> read_words(const Value& body, std::string_view name,
                                             std::string_view rule) {
  std::vector<std::string> words;
  const Value* list = body.find(name);
  if (list == nullptr || list->is_null()) {
    return words;
  }
  const auto bad = [&](const Value& value) {
    return std::unexpected(bad_field(name, value, fmt::format("{} is {}", name, rule),
                                     "send a list of strings without NUL"));
  };
  if (!list->is_array()) {
    return bad(*list);
  }
  for (const Value& word : list->as_array()) {
    if (!word.is_string() || word.as_string().find('\0') != std::string::npos) {
      return bad(word);
    }
    words.push_back(word.as_string());
  }
  return words;
}

Outcome<std::string> read_text(const Value& body, std::string_view name, std::size_t most) {
  const Value* text = body.find(name);
  if (text == nullptr || text->is_null()) {
    return std::string();
  }
  if (!text->is_string() || text->as_string().size() > most ||
      text->as_string().find('\0') != std::string::npos) {
    return std::unexpected(bad_field(name, *text,
                                     fmt::format("{} is a string of at most {} bytes", name, most),
                                     "write a shorter one, or leave it out"));
  }
  return text->as_string();
}

// How its process starts and ends.
Outcome<void> read_process(const Value& body, jobs::Plan& plan) {
  if (const Value* umask = body.find("umask"); umask != nullptr && !umask->is_null()) {
    if (!umask->is_integer() || umask->as_integer() < 0 || umask->as_integer() > 0777) {
      return std::unexpected(bad_field("umask", *umask, "umask is a whole number from 0 to 511",
                                       "18 is 022 in octal, which is taken where there is none"));
    }
    plan.umask = static_cast<std::uint32_t>(umask->as_integer());
  }
  if (const Value* grace = body.find("grace_seconds"); grace != nullptr && !grace->is_null()) {
    if (!grace->is_integer() || grace->as_integer() < 0 || grace->as_integer() > 86'400) {
      return std::unexpected(bad_field("grace_seconds", *grace,
                                       "grace_seconds is a whole number from 0 to 86400",
                                       "leave it out for 30"));
    }
    plan.grace = Duration(grace->as_integer() * 1000);
  }
  return {};
}

}  // namespace

std::span<const std::string_view> plan_fields() { return kFields; }

Outcome<jobs::Plan> read_plan(const Value& body, const lease::Party& party, std::string_view node) {
  if (auto known = check_fields(body, kFields); !known) {
    return std::unexpected(known.error());
  }
  jobs::Plan plan;
  auto command = read_words(body, "command", "the program and its words");
  auto environment = read_words(body, "environment", "a list of NAME=value");
  auto after = read_words(body, "after", "a list of ids of jobs");
  auto name = read_text(body, "name", 128);
  auto directory = read_text(body, "directory", 4096);
  auto array = read_text(body, "array", 64);
  auto rule = read_text(body, "after_rule", 8);
  for (const auto* words : {&command, &environment, &after}) {
    if (!*words) {
      return std::unexpected(words->error());
    }
  }
  for (const auto* text : {&name, &directory, &array, &rule}) {
    if (!*text) {
      return std::unexpected(text->error());
    }
  }
  if (command->empty() || command->front().empty()) {
    return std::unexpected(bad_field("command", Value(),
                                     "command is the program to run, and required",
                                     "send {\"command\": [\"python3\", \"train.py\"]}"));
  }
  if (!directory->starts_with('/')) {
    return std::unexpected(bad_field("directory", *directory,
                                     "directory is an absolute path, and required",
                                     "send the directory in which the program is to run"));
  }
  if (!rule->empty() && *rule != "ok" && *rule != "any") {
    return std::unexpected(bad_field("after_rule", *rule, "after_rule is ok or any",
                                     "ok: all of them succeeded; any: all of them are over"));
  }
  if (!array->empty()) {
    plan.array = read_range(*array);
    if (!plan.array.has_value()) {
      return std::unexpected(bad_field(
          "array", *array, "array is FIRST-LAST or FIRST-LAST%AT_ONCE, at most 10000 elements",
          "0-15%4: sixteen elements, four at once"));
    }
  }
  if (auto process = read_process(body, plan); !process) {
    return std::unexpected(process.error());
  }
  Value wanted = json::object();
  if (const Value* lease = body.find("lease"); lease != nullptr && !lease->is_null()) {
    if (!lease->is_object() || lease->find("key") != nullptr) {
      return std::unexpected(bad_field("lease", *lease,
                                       "lease holds the fields of POST /v1/leases without key",
                                       "send {\"lease\": {\"memory\": \"4GiB\"}}"));
    }
    wanted = *lease;
  }
  wanted.set("key", "job");
  if (!party.local && wanted.find("node") == nullptr) {
    // Jobs run here or nowhere. Whoever may not have any is told that, not to name a node.
    wanted.set("node", std::string(node));
  }
  Outcome<Reserve> reserve = read_reserve(wanted, party, {.node = node});
  if (!reserve) {
    return std::unexpected(reserve.error());
  }
  plan.name = *name;
  plan.command = *command;
  plan.environment = *environment;
  plan.directory = *directory;
  plan.after = *after;
  plan.rule = *rule == "any" ? jobs::AfterRule::any : jobs::AfterRule::ok;
  plan.ask = std::move(reserve->ask);
  return plan;
}

}  // namespace berth::api
