#include "request/reason.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "base/assert.h"

namespace berth::request {

namespace {

// In the order of ReasonCode.
constexpr std::array<std::string_view, kReasonCodes> kNames{
    "BadMemory",
    "MemoryBelowMinimum",
    "BadMemoryUnit",
    "BadFraction",
    "BadDeviceCount",
    "BadComputeMode",
    "BadComputeShare",
    "BadPercent",
    "BadCores",
    "BadMigProfile",
    "BadCpu",
    "BadRam",
    "BadValue",
    "UnknownKey",
    "UnknownContainer",
    "DuplicateContainer",
    "TargetMismatch",
    "AmbiguousTarget",
    "LimitBelowRequest",
    "LimitConflict",
    "LimitWithoutRequest",
    "CountWithoutShare",
    "MpsWithoutShare",
    "FractionAndMemory",
    "MemoryDisagrees",
    "WholeAndShare",
    "MixedFamilies",
    "SharedCountAboveOne",
    "SharingDisabled",
    "ProtectedKey",
    "ImmutableKey",
    "NodeNamePreset",
    "PrivilegedShare",
    "ProtectedEnv",
    "NotPortableToKai",
    "ModeWithoutMemory",
    "ComputeIgnored",
    "FractionIgnored",
    "ZeroIgnored",
    "PercentIgnored",
    "NameTooLongForFractiond",
    "UnsupportedFamily",
    "MisplacedKey",
    "HintIgnored",
};

constexpr std::size_t kLongestPrinted = 80;

// Bytes of the well-formed UTF-8 character at the front; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t n) {
    if (text.size() < n) return false;
    for (std::size_t i = 1; i < n; ++i) {
      if ((byte(i) & 0xC0U) != 0x80U) return false;
    }
    return true;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(2) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(3)) return 0;
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continues(4)) return 0;
    const bool out_of_range = (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F);
    return out_of_range ? 0 : 4;
  }
  return 0;
}

// Levenshtein, with a swap of neighbours counting one.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

auto order_of(const Finding& f) {
  return std::tie(f.key, f.container, f.code, f.value, f.rule, f.position);
}

template <typename Order>
void sort_once(std::vector<Finding>& findings, Order order) {
  std::sort(findings.begin(), findings.end(),
            [&](const Finding& a, const Finding& b) { return order(a) < order(b); });
  findings.erase(std::unique(findings.begin(), findings.end()), findings.end());
}

}  // namespace

std::string_view reason_name(ReasonCode code) {
  const auto index = static_cast<std::size_t>(code);
  ASSERT(index < kNames.size(), index);
  return kNames[index];
}

std::optional<ReasonCode> reason_from_name(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ReasonCode>(found - kNames.begin());
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= kLongestPrinted) return out + "…";
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string Finding::text() const {
  const std::string where =
      container.empty() ? "" : fmt::format(" (container {})", printable(container));
  return fmt::format("{}: {}={}: {}{}", reason_name(code), printable(key), printable(value), rule,
                     where);
}

void sort_findings(std::vector<Finding>& findings) { sort_once(findings, order_of); }

void sort_by_position(std::vector<Finding>& findings) {
  sort_once(findings,
            [](const Finding& f) { return std::tuple_cat(std::tie(f.position), order_of(f)); });
}

Error to_error(const std::vector<Finding>& findings) {
  ASSERT(!findings.empty());
  std::string text;
  for (const Finding& finding : findings) {
    if (!text.empty()) text += '\n';
    text += finding.text();
  }
  return invalid_argument(std::move(text));
}

std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  if (word.empty() || word.size() > 64) return std::nullopt;  // nothing we know is that long
  std::optional<std::string_view> best;
  std::size_t best_distance =
      word.size() / 3 + 1;  // one slip per three letters is still the same word
  for (const std::string_view candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) > best_distance) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance || (distance == best_distance && !best)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace berth::request
