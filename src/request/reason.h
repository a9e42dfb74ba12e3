// Reason codes and findings: what is wrong with, or worth knowing about, the words of a request.
//
//   Finding finding{ReasonCode::bad_fraction, "gpu-fraction", "1.2", "a number between 0 and 1"};
//   finding.text();  // "BadFraction: gpu-fraction=1.2: a number between 0 and 1"
//
// The code is the contract (annotations.md 2.1): programs and users' tests match on it, while the
// sentence may get better. Thread-safety: values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace berth::request {

enum class ReasonCode : std::uint8_t {
  // values
  bad_memory,
  memory_below_minimum,
  bad_memory_unit,
  bad_fraction,
  bad_device_count,
  bad_compute_mode,
  bad_compute_share,
  bad_percent,
  bad_cores,
  bad_mig_profile,
  bad_cpu,
  bad_ram,
  bad_value,  // a word that is none of those the key knows
  // keys and targets
  unknown_key,
  unknown_container,
  duplicate_container,
  target_mismatch,
  ambiguous_target,
  // combinations
  limit_below_request,
  limit_conflict,
  limit_without_request,
  count_without_share,
  mps_without_share,
  fraction_and_memory,
  memory_disagrees,
  whole_and_share,
  mixed_families,
  shared_count_above_one,
  // policy and admission
  sharing_disabled,
  protected_key,
  immutable_key,
  node_name_preset,
  privileged_share,
  protected_env,
  // warnings: never refuse
  not_portable_to_kai,
  mode_without_memory,
  compute_ignored,
  fraction_ignored,
  zero_ignored,
  percent_ignored,
  name_too_long_for_fractiond,
  unsupported_family,
  misplaced_key,
  hint_ignored,
};
inline constexpr std::size_t kReasonCodes = static_cast<std::size_t>(ReasonCode::hint_ignored) + 1;

// "BadMemory".
std::string_view reason_name(ReasonCode code);
std::optional<ReasonCode> reason_from_name(std::string_view name);

// What a value parser says: which rule the text broke. The caller knows the key.
struct Complaint {
  ReasonCode code = ReasonCode::bad_value;
  std::string rule;  // what is expected instead, and how to mend it
  bool operator==(const Complaint&) const = default;
};

template <typename T>
using Parsed = std::expected<T, Complaint>;

// A complaint about one key.
struct Finding {
  ReasonCode code = ReasonCode::bad_value;
  std::string key = {};
  std::string value = {};
  std::string rule = {};
  std::string container = {};  // empty: the whole pod or task
  std::size_t position = 0;    // the caller's index of the word that is meant (words.h); else 0

  // "<Code>: <key>=<value>: <rule>", the value shortened and unprintable bytes escaped.
  std::string text() const;
  bool operator==(const Finding&) const = default;
};

// By key, container and code, or by position first; each finding once.
void sort_findings(std::vector<Finding>& findings);
void sort_by_position(std::vector<Finding>& findings);

// All of them as one invalid_argument, a line each. Requires: not empty.
Error to_error(const std::vector<Finding>& findings);

// Text from outside, fit for a message: at most 80 bytes, unprintable bytes and invalid UTF-8
// escaped.
std::string printable(std::string_view text);

// The candidate nearest to `word`, if one is near enough to have been meant. Ties go to the first.
std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

}  // namespace berth::request
