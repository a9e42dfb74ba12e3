// Value types of the words people write (annotations.md 1.1; leases.md 3.2), text in, exact
// integers out.
//
//   parse_quantity("1500M");    // 1 500 000 000 bytes; ceil_mib() is 1431
//   parse_lease_size("4G");     // 4096 MiB: on the command line and in the lease API
//   parse_fraction("5e-1");     // Nano{500 000 000}
//
// Nothing here uses floating point. A size rounds up, so that what is promised is never less than
// what was asked. Every error says which rule the text broke and what to write instead.
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "request/reason.h"

namespace berth::request {

// `uint` of 1.1: digits only, 1 … kMaxAskMib, as MiB. Errors: BadMemory.
Parsed<Memory> parse_mib(std::string_view text);

// `quantity` of 1.1: a Kubernetes quantity of bytes, rounded up to whole bytes, at least 1 MiB.
// Errors: BadMemory (not a number, zero, negative, too large), BadMemoryUnit (suffix m, u, n or
// unknown), MemoryBelowMinimum.
Parsed<Memory> parse_quantity(std::string_view text);

// True for `[0-9]+`: a number without sign, point, exponent or unit.
bool is_digits(std::string_view text);
// True when the text ends in a letter, as in "8Gi": its writer has thought of a unit.
bool has_unit(std::string_view text);

// `fraction` of 1.1: 0 < v < 1 with at most `max_digits` fractional digits once the exponent is
// applied. Errors: BadFraction.
inline constexpr int kFractionDigits = 9;
inline constexpr int kLimitFractionDigits = 5;  // `fraction5`
Parsed<Nano> parse_fraction(std::string_view text, int max_digits = kFractionDigits);

// A compute share as NvFractions writes it: a fraction where 1 is allowed; rounded up to milli.
// Errors: BadComputeShare.
Parsed<Milli> parse_compute_share(std::string_view text);

// `count` of 1.1: digits only, 1 … kMaxAskCount. Errors: BadDeviceCount.
Parsed<int> parse_count(std::string_view text);

// The value of an extended resource (container `resources.limits`): a whole number, by value, so
// that "4k", "4000" and "4e3" are the same. `range` is inclusive; `bad` is the code of a number out
// of range, `bad_unit` of a suffix (e.g. "Gi", which would mean bytes).
struct IntegerRule {
  std::int64_t min = 0;
  std::int64_t max = 0;
  ReasonCode bad = ReasonCode::bad_value;
  ReasonCode bad_unit = ReasonCode::bad_value;
  std::string_view expected;  // what to write, for the message
};

Parsed<std::int64_t> parse_resource_integer(std::string_view text, const IntegerRule& rule);

// CPU of a container or task: a Kubernetes quantity of cores ("4", "0.5", "500m"), rounded up to
// millicores; zero allowed. Errors: BadCpu.
Parsed<Milli> parse_cpu(std::string_view text);
// RAM of a container: a Kubernetes quantity of bytes; zero and any suffix allowed. Errors: BadRam.
Parsed<Memory> parse_ram(std::string_view text);

// Size in the units of the lease API and the command line (leases.md 3.2): whole numbers; no unit =
// MiB; K M G T, Ki…, KiB… = powers of 1024; KB MB GB TB = powers of 1000. Rounded up to whole MiB;
// zero allowed. Errors: BadMemory, BadMemoryUnit.
Parsed<Memory> parse_lease_size(std::string_view text);
inline constexpr std::int64_t kMaxLeaseMib = std::int64_t{1} << 40;

// Canonical texts, which parse back to the same value.
std::string fraction_text(Nano value);      // "0.25"
std::string lease_size_text(Memory value);  // "4GiB", "1431MiB"; value in whole MiB

}  // namespace berth::request
