#include "cli/command.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace berth::cli {

namespace {

constexpr Option kCommonOptions[] = {
    {.name = "--help", .letter = 'h', .help = "show this help"},
};

}  // namespace

Arguments::Arguments(std::span<const Option> known, std::vector<Given> given,
                     std::vector<std::string> operands)
    : known_(known), given_(std::move(given)), operands_(std::move(operands)) {}

const Option& Arguments::known(std::string_view name) const {
  const auto option = std::ranges::find(known_, name, &Option::name);
  ASSERT(option != known_.end(), name);
  return *option;
}

const Arguments::Given* Arguments::find(std::string_view name) const {
  const Option* option = &known(name);
  const auto given = std::ranges::find(given_, option, &Given::option);
  return given == given_.end() ? nullptr : &*given;
}

bool Arguments::has(std::string_view name) const { return find(name) != nullptr; }

std::optional<std::string> Arguments::value(std::string_view name) const {
  if (const Given* given = find(name); given != nullptr && !given->values.empty()) {
    return given->values.front();
  }
  if (const Option& option = known(name); !option.fallback.empty()) {
    return std::string(option.fallback);
  }
  return std::nullopt;
}

std::vector<std::string> Arguments::values(std::string_view name) const {
  const Given* given = find(name);
  return given == nullptr ? std::vector<std::string>{} : given->values;
}

std::string_view first_word(const Command& command) {
  return command.name.substr(0, command.name.find(' '));
}

std::string_view second_word(const Command& command) {
  const std::size_t blank = command.name.find(' ');
  return blank == std::string_view::npos ? std::string_view() : command.name.substr(blank + 1);
}

std::span<const Option> common_options() { return kCommonOptions; }

}  // namespace berth::cli
