// The words of berth-fake-gpu: a verb, its operands and its options, checked against a table.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::fake::tool {

struct OptionRule {
  std::string_view name;   // "--driver"
  std::string_view value;  // what the help calls its value; empty = a switch
  std::string_view help;
};

struct VerbRule {
  std::string_view name;
  std::string_view operands;  // "SPEC", for the help
  std::size_t least = 0;      // how many operands
  std::size_t most = 0;
  std::string_view help;
  std::span<const OptionRule> options = {};
};

class Words {
 public:
  // Errors: an unknown option (with the nearest), a missing value, too few or too many operands.
  static Result<Words> parse(const VerbRule& rule, std::span<const std::string> words);

  bool has(std::string_view option) const { return options_.contains(option); }
  std::optional<std::string> text(std::string_view option) const;
  const std::vector<std::string>& operands() const { return operands_; }

  // The option's value, or `fallback` without it. Errors: not a number, out of range.
  Result<std::int64_t> number(std::string_view option, std::int64_t fallback, std::int64_t least,
                              std::int64_t most) const;
  Result<std::uint64_t> size(std::string_view option, std::uint64_t fallback) const;

 private:
  std::map<std::string, std::string, std::less<>> options_;
  std::vector<std::string> operands_;
};

// "4096", "600MiB", "1.5GiB" in bytes; `what` names it in the error.
Result<std::uint64_t> size_from(std::string_view what, const std::string& text);
Result<std::int64_t> number_from(std::string_view what, const std::string& text, std::int64_t least,
                                 std::int64_t most);

}  // namespace berth::fake::tool
