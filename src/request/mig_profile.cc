#include "request/mig_profile.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace berth::request {

namespace {

constexpr auto kListed = Confidence::listed;
constexpr auto kInferred = Confidence::inferred;
constexpr auto kUnknown = std::nullopt;

constexpr MigTableRow kTable[] = {
#include "request/mig_table.inc"
};

std::unexpected<Complaint> no_profile() {
  return std::unexpected(
      Complaint{ReasonCode::bad_mig_profile,
                "a MIG profile: <slices>g.<size>gb, e.g. 1g.5gb, 3g.40gb or 1g.10gb+me"});
}

// A number from 1 to 9999 without leading zero, followed by `unit`; takes both off the front.
std::optional<int> take_number(std::string_view& text, std::string_view unit) {
  std::size_t length = 0;
  int number = 0;
  while (length < text.size() && length < 5 && text[length] >= '0' && text[length] <= '9') {
    number = number * 10 + (text[length] - '0');
    ++length;
  }
  if (length == 0 || length > 4 || text.front() == '0') return std::nullopt;
  if (!text.substr(length).starts_with(unit)) return std::nullopt;
  text.remove_prefix(length + unit.size());
  return number;
}

// Dotted words of lower-case letters and digits, comma separated: "me", "me.all", "me,gfx".
bool are_attributes(std::string_view text) {
  bool in_word = false;
  for (const char c : text) {
    const bool of_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!of_word && (!in_word || (c != '.' && c != ','))) return false;
    in_word = of_word;
  }
  return in_word;
}

Parsed<MigProfile> parse(std::string_view text, char plus) {
  MigProfile profile;
  const auto compute = take_number(text, "c.");
  const auto slices = take_number(text, "g.");
  if (!slices) return no_profile();
  const auto gigabytes = take_number(text, "gb");
  if (!gigabytes) return no_profile();
  profile.gpu_slices = *slices;
  profile.compute_slices = compute.value_or(*slices);
  profile.gigabytes = *gigabytes;
  if (profile.compute_slices > profile.gpu_slices) return no_profile();
  if (text.empty()) return profile;
  if (text.front() != plus && text.front() != '-') return no_profile();
  profile.sign = text.front() == '-' ? '-' : '+';
  text.remove_prefix(1);
  if (!are_attributes(text)) return no_profile();
  profile.attributes = text;
  return profile;
}

std::string name_of(const MigProfile& profile, char plus) {
  std::string text;
  if (profile.compute_slices != profile.gpu_slices) {
    text = fmt::format("{}c.", profile.compute_slices);
  }
  text += fmt::format("{}g.{}gb", profile.gpu_slices, profile.gigabytes);
  if (profile.sign != 0) {
    text += profile.sign == '+' ? plus : '-';
    text += profile.attributes;
  }
  return text;
}

}  // namespace

std::string MigProfile::text() const { return name_of(*this, '+'); }

std::string MigProfile::resource_name() const { return "mig-" + name_of(*this, '.'); }

Parsed<MigProfile> parse_mig_profile(std::string_view text) { return parse(text, '+'); }

Parsed<MigProfile> parse_mig_resource(std::string_view text) {
  constexpr std::string_view kPrefix = "mig-";
  if (!text.starts_with(kPrefix)) return no_profile();
  return parse(text.substr(kPrefix.size()), '.');
}

std::span<const MigTableRow> mig_table() { return kTable; }

const MigTableRow* find_mig_row(std::string_view model, std::string_view profile) {
  const auto found = std::find_if(
      std::begin(kTable), std::end(kTable),
      [&](const MigTableRow& row) { return row.model == model && row.profile == profile; });
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace berth::request
