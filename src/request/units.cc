#include "request/units.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "core/model/device.h"
#include "core/model/request.h"
#include "request/decimal.h"

namespace berth::request {

namespace {

constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxWholeMibBytes = core::kMaxAskMib * Memory::kBytesPerMib;

std::unexpected<Complaint> complain(ReasonCode code, std::string rule) {
  return std::unexpected(Complaint{code, std::move(rule)});
}

struct Suffix {
  std::string_view text;
  int thousands = 0;  // powers of 1000
  int kibis = 0;      // powers of 1024
};

// Kubernetes quantities.
constexpr std::array<Suffix, 16> kQuantitySuffixes{{{"", 0, 0},
                                                    {"k", 1, 0},
                                                    {"M", 2, 0},
                                                    {"G", 3, 0},
                                                    {"T", 4, 0},
                                                    {"P", 5, 0},
                                                    {"E", 6, 0},
                                                    {"Ki", 0, 1},
                                                    {"Mi", 0, 2},
                                                    {"Gi", 0, 3},
                                                    {"Ti", 0, 4},
                                                    {"Pi", 0, 5},
                                                    {"Ei", 0, 6},
                                                    {"m", -1, 0},
                                                    {"u", -2, 0},
                                                    {"n", -3, 0}}};

// The lease API and the command line: no unit = MiB, one letter = a power of 1024.
constexpr std::array<Suffix, 17> kLeaseSuffixes{{{"", 0, 2},
                                                 {"K", 0, 1},
                                                 {"Ki", 0, 1},
                                                 {"KiB", 0, 1},
                                                 {"KB", 1, 0},
                                                 {"M", 0, 2},
                                                 {"Mi", 0, 2},
                                                 {"MiB", 0, 2},
                                                 {"MB", 2, 0},
                                                 {"G", 0, 3},
                                                 {"Gi", 0, 3},
                                                 {"GiB", 0, 3},
                                                 {"GB", 3, 0},
                                                 {"T", 0, 4},
                                                 {"Ti", 0, 4},
                                                 {"TiB", 0, 4},
                                                 {"TB", 4, 0}}};

template <std::size_t N>
const Suffix* find_suffix(const std::array<Suffix, N>& table, std::string_view text) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Suffix& s) { return s.text == text; });
  return found == table.end() ? nullptr : &*found;
}

bool is_letters(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_letter);
}

struct Quantity {
  DecimalPrefix number;
  const Suffix* suffix = nullptr;  // null: there is a suffix, but none we know

  std::optional<std::int64_t> scaled_up(int extra_thousands, std::int64_t max) const {
    return number.value.scaled_up(std::int64_t{3} * (suffix->thousands + extra_thousands),
                                  10 * suffix->kibis, max);
  }
};

// A Kubernetes quantity with any suffix; empty when it is no number at all.
std::optional<Quantity> read_quantity(std::string_view text) {
  const auto number = read_decimal(text);
  if (!number) return std::nullopt;
  if (!number->rest.empty() && !is_letters(number->rest)) return std::nullopt;
  // An exponent is the unit: "1e3k" is nothing.
  if (number->has_exponent && !number->rest.empty()) return std::nullopt;
  return Quantity{*number, find_suffix(kQuantitySuffixes, number->rest)};
}

constexpr std::string_view kQuantityExample = "a size with a unit, e.g. 8Gi or 1500M";

}  // namespace

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool has_unit(std::string_view text) {
  return !text.empty() && is_letters(text.substr(text.size() - 1));
}

Parsed<Memory> parse_mib(std::string_view text) {
  const std::string expected =
      fmt::format("whole MiB from 1 to {}, digits only, e.g. 4096", core::kMaxAskMib);
  if (!is_digits(text)) return complain(ReasonCode::bad_memory, expected);
  const auto number = read_decimal(text);
  const auto mib = number ? number->value.scaled_up(0, 0, core::kMaxAskMib) : std::nullopt;
  if (!mib || *mib == 0) return complain(ReasonCode::bad_memory, expected);
  return Memory::mib(*mib);
}

Parsed<Memory> parse_quantity(std::string_view text) {
  if (text.empty()) {
    return complain(ReasonCode::bad_memory,
                    fmt::format("{}; to ask for nothing leave the key out", kQuantityExample));
  }
  const auto quantity = read_quantity(text);
  if (!quantity) return complain(ReasonCode::bad_memory, std::string(kQuantityExample));
  const Decimal& value = quantity->number.value;
  if (value.negative || value.is_zero()) {
    return complain(ReasonCode::bad_memory, fmt::format("more than 0: {}", kQuantityExample));
  }
  if (quantity->suffix == nullptr || quantity->suffix->thousands < 0) {
    return complain(
        ReasonCode::bad_memory_unit,
        "a unit of memory: Ki Mi Gi Ti Pi Ei (powers of 1024) or k M G T P E (of 1000)");
  }
  const auto bytes = quantity->scaled_up(0, kMaxWholeMibBytes);
  if (!bytes) {
    return complain(ReasonCode::bad_memory, fmt::format("at most {}Mi", core::kMaxAskMib));
  }
  if (*bytes < Memory::kBytesPerMib) {
    return complain(
        ReasonCode::memory_below_minimum,
        fmt::format("at least 1Mi{}", is_digits(text) ? "; a bare number is bytes: write "
                                                        "a unit, e.g. " +
                                                            std::string(text) + "Mi"
                                                      : ""));
  }
  return Memory::bytes(*bytes);
}

Parsed<Nano> parse_fraction(std::string_view text, int max_digits) {
  const std::string expected = fmt::format(
      "a share of a device, more than 0 and less than 1, with at most {} digits after "
      "the point, e.g. 0.25",
      max_digits);
  const auto number = read_decimal(text);
  if (!number || !number->rest.empty()) return complain(ReasonCode::bad_fraction, expected);
  const Decimal& value = number->value;
  if (value.negative || value.is_zero()) return complain(ReasonCode::bad_fraction, expected);
  if (value.point > 0) {
    return complain(ReasonCode::bad_fraction,
                    expected + "; for whole devices ask for nvidia.com/gpu: 1");
  }
  const bool too_fine = value.fractional_digits > kFractionDigits ||
                        (max_digits < kFractionDigits && value.written_after_point > max_digits);
  if (too_fine) return complain(ReasonCode::bad_fraction, expected);
  const auto nano = value.scaled_up(kFractionDigits, 0, kWholeNano.count());
  if (!nano || *nano >= kWholeNano.count()) return complain(ReasonCode::bad_fraction, expected);
  return Nano{*nano};
}

Parsed<Milli> parse_compute_share(std::string_view text) {
  const auto number = read_decimal(text);
  const auto milli = number && number->rest.empty() && !number->value.negative
                         ? number->value.scaled_up(3, 0, kWholeMilli.count())
                         : std::nullopt;
  if (!milli || *milli == 0 || number->value.fractional_digits > kFractionDigits) {
    return complain(ReasonCode::bad_compute_share,
                    "a share of a device's compute, more than 0 and at most 1, e.g. 0.25");
  }
  return Milli{*milli};
}

Parsed<int> parse_count(std::string_view text) {
  const auto number = is_digits(text) ? read_decimal(text) : std::nullopt;
  const auto count = number ? number->value.scaled_up(0, 0, core::kMaxAskCount) : std::nullopt;
  if (!count || *count == 0) {
    return complain(
        ReasonCode::bad_device_count,
        fmt::format("a number of devices from 1 to {}, digits only, e.g. 2", core::kMaxAskCount));
  }
  return static_cast<int>(*count);
}

Parsed<std::int64_t> parse_resource_integer(std::string_view text, const IntegerRule& rule) {
  const auto quantity = read_quantity(text);
  if (!quantity) return complain(rule.bad, std::string(rule.expected));
  if (quantity->suffix == nullptr || quantity->suffix->kibis != 0) {
    return complain(rule.bad_unit, fmt::format("{}, without a unit", rule.expected));
  }
  const Decimal& value = quantity->number.value;
  const std::int64_t shift = std::int64_t{3} * quantity->suffix->thousands;
  std::string_view significant = value.digits;
  while (significant.ends_with('0'))
    significant.remove_suffix(1);
  const bool whole = static_cast<std::int64_t>(significant.size()) <= value.point + shift;
  const auto magnitude = value.scaled_up(shift, 0, kMaxBytes);
  if ((!whole && !value.is_zero()) || !magnitude) {
    return complain(rule.bad, std::string(rule.expected));
  }
  const std::int64_t number = value.negative ? -*magnitude : *magnitude;
  if (number < rule.min || number > rule.max) {
    return complain(rule.bad, std::string(rule.expected));
  }
  return number;
}

Parsed<Milli> parse_cpu(std::string_view text) {
  const auto quantity = read_quantity(text);
  const bool readable =
      quantity && quantity->suffix != nullptr && (!quantity->number.value.negative);
  const auto milli = readable ? quantity->scaled_up(1, core::kMaxCpuMilli) : std::nullopt;
  if (!milli) {
    return complain(ReasonCode::bad_cpu, "a number of cores, zero or more, e.g. 4, 0.5 or 500m");
  }
  return Milli{*milli};
}

Parsed<Memory> parse_ram(std::string_view text) {
  const auto quantity = read_quantity(text);
  const bool readable = quantity && quantity->suffix != nullptr && !quantity->number.value.negative;
  const auto bytes =
      readable ? quantity->scaled_up(0, core::kMaxMemoryMib * Memory::kBytesPerMib) : std::nullopt;
  if (!bytes) return complain(ReasonCode::bad_ram, "a size, zero or more, e.g. 16Gi or 512M");
  return Memory::bytes(*bytes);
}

Parsed<Memory> parse_lease_size(std::string_view text) {
  const std::string_view expected =
      "whole MiB, or a whole number with a unit, e.g. 4096, 4GiB or 512MiB";
  const auto number = read_decimal(text);
  if (!number || number->has_sign || number->has_point || number->has_exponent ||
      text.front() < '0' || text.front() > '9') {
    return complain(ReasonCode::bad_memory,
                    number && number->has_point && !number->value.negative
                        ? fmt::format("{}; no decimal point: write 1536MiB for 1.5GiB", expected)
                        : std::string(expected));
  }
  const Suffix* suffix = find_suffix(kLeaseSuffixes, number->rest);
  if (suffix == nullptr) {
    if (!is_letters(number->rest)) {
      return complain(ReasonCode::bad_memory, std::string(expected));
    }
    return complain(ReasonCode::bad_memory_unit,
                    "one of the units K M G T, KiB MiB GiB TiB (powers of 1024) or KB MB GB TB (of "
                    "1000), exactly as written here");
  }
  const auto bytes = number->value.scaled_up(
      std::int64_t{3} * suffix->thousands, 10 * suffix->kibis, kMaxLeaseMib * Memory::kBytesPerMib);
  if (!bytes) return complain(ReasonCode::bad_memory, fmt::format("at most {} MiB", kMaxLeaseMib));
  return Memory::mib(Memory::bytes(*bytes).ceil_mib());
}

std::string fraction_text(Nano value) {
  std::string digits = fmt::format("{:09}", value.count() % kWholeNano.count());
  const std::size_t last = digits.find_last_not_of('0');
  const std::int64_t whole = value.count() / kWholeNano.count();
  if (last == std::string::npos) return fmt::format("{}", whole);
  return fmt::format("{}.{}", whole, digits.substr(0, last + 1));
}

std::string lease_size_text(Memory value) {
  const std::int64_t mib = value.ceil_mib();
  if (mib != 0 && mib % 1024 == 0) return fmt::format("{}GiB", mib / 1024);
  return fmt::format("{}MiB", mib);
}

}  // namespace berth::request
