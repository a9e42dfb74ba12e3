// The words of the command line -> values. Errors are invalid_argument and say what to write.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "grant/spec.h"
#include "grant/usage.h"

namespace berth::guard_grant {

// A verb's words: what follows it in order, and its options; an option without value is "".
struct Words {
  std::vector<std::string> plain;
  std::multimap<std::string, std::string, std::less<>> options;

  bool has(std::string_view option) const { return options.contains(option); }
  // The last value given; `otherwise` without the option.
  std::string value(std::string_view option, std::string_view otherwise) const;
};

struct Option {
  std::string_view name;  // "--slots"
  bool has_value = false;
};

// `plain` names the words that a verb takes besides its options: "DIR UUID SIZE".
Result<Words> split_words(std::span<const std::string> words, std::span<const Option> options,
                          std::string_view plain);

// With the units of leases.md 3.2: no unit is MiB.
Result<Memory> parse_size(std::string_view text);
struct Range {
  std::int64_t min = 0;  // both included
  std::int64_t max = 0;
};
// A whole number; `what` is what people gave it for: "--slots".
Result<std::int64_t> parse_integer(std::string_view what, std::string_view text, Range range);
// UUID:PID:SIZE
Result<grant::ReportedUse> parse_reported(std::string_view text);
// UUID:REQUEST:LIMIT[:CAP]
Result<grant::DeviceShare> parse_device(std::string_view text);
// The words of `create`.
Result<grant::GrantSpec> parse_spec(const Words& words);

}  // namespace berth::guard_grant
