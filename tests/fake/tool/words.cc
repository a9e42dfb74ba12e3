#include "fake/tool/words.h"

#include <charconv>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "config/value.h"

namespace berth::fake::tool {

namespace {

const OptionRule* rule_for(const VerbRule& rule, std::string_view name) {
  for (const OptionRule& option : rule.options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

Error unknown_option(const VerbRule& rule, const std::string& word) {
  std::vector<std::string> known;
  for (const OptionRule& option : rule.options)
    known.emplace_back(option.name);
  const std::string close = nearest(word, known);
  return invalid_argument(
      fmt::format("{}: unknown option '{}'{}", rule.name, printable(word),
                  close.empty() ? std::string() : fmt::format("; did you mean {}?", close)));
}

}  // namespace

Result<Words> Words::parse(const VerbRule& rule, std::span<const std::string> words) {
  Words parsed;
  bool only_operands = false;
  for (std::size_t place = 0; place < words.size(); ++place) {
    const std::string& word = words[place];
    if (only_operands || word.size() < 2 || word[0] != '-') {
      parsed.operands_.push_back(word);
      continue;
    }
    if (word == "--") {
      only_operands = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const OptionRule* option = rule_for(rule, name);
    if (option == nullptr) return unknown_option(rule, name);
    if (option->value.empty()) {
      if (equals != std::string::npos) {
        return invalid_argument(fmt::format("{}: {} takes no value", rule.name, name));
      }
      parsed.options_[name] = "";
    } else if (equals != std::string::npos) {
      parsed.options_[name] = word.substr(equals + 1);
    } else if (place + 1 < words.size()) {
      parsed.options_[name] = words[++place];
    } else {
      return invalid_argument(
          fmt::format("{}: {} needs a value: {} {}", rule.name, name, name, option->value));
    }
  }
  if (parsed.operands_.size() < rule.least || parsed.operands_.size() > rule.most) {
    return invalid_argument(
        fmt::format("{}: expected {}{}, got {} word{}; see berth-fake-gpu --help", rule.name,
                    rule.operands.empty() ? "no operands" : "", rule.operands,
                    parsed.operands_.size(), parsed.operands_.size() == 1 ? "" : "s"));
  }
  return parsed;
}

std::optional<std::string> Words::text(std::string_view option) const {
  const auto found = options_.find(option);
  if (found == options_.end()) return std::nullopt;
  return found->second;
}

Result<std::int64_t> Words::number(std::string_view option, std::int64_t fallback,
                                   std::int64_t least, std::int64_t most) const {
  const auto found = text(option);
  if (!found) return fallback;
  return number_from(option, *found, least, most);
}

Result<std::uint64_t> Words::size(std::string_view option, std::uint64_t fallback) const {
  const auto found = text(option);
  if (!found) return fallback;
  return size_from(option, *found);
}

Result<std::int64_t> number_from(std::string_view what, const std::string& text, std::int64_t least,
                                 std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return invalid_argument(fmt::format("{}: '{}' is not a whole number from {} to {}", what,
                                        printable(text), least, most));
  }
  return value;
}

Result<std::uint64_t> size_from(std::string_view what, const std::string& text) {
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc{} && end == text.data() + text.size()) return bytes;
  const auto memory = config::parse_memory(text);
  if (!memory.ok()) {
    return invalid_argument(
        fmt::format("{}: '{}' is no size; write bytes, or 600MiB, or 2GiB", what, printable(text)));
  }
  return static_cast<std::uint64_t>(memory->in_bytes());
}

}  // namespace berth::fake::tool
