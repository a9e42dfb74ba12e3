// MIG profile names, and what the known models offer.
//
//   parse_mig_profile("1g.24gb+me.all")->text();      // as NVML and nvidia-smi write it
//   parse_mig_resource("mig-1g.24gb.me.all")->text(); // the same, from a resource name
//
// Grammar: [<C>c.]<G>g.<GB>gb[+attribute,…|-attribute,…]; the compute part is left out when C = G;
// a profile has `+` attributes or `-` attributes, never both. In a resource name `+` is written `.`
// and
// `-` stays. Attributes are not a closed set: a newer driver may bring new ones.
//
// The table is data/mig_profiles.csv, compiled in; it is for simulated hardware. Real hardware is
// always enumerated: names change with driver and usable memory, and unknown models must work.
// Thread-safety: values; the table is constant.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "request/reason.h"

namespace berth::request {

struct MigProfile {
  int compute_slices = 0;  // C: of the compute instance; equals gpu_slices when left out
  int gpu_slices = 0;      // G
  int gigabytes = 0;       // GB, as the name says; not the exact size
  char sign = 0;           // '+' or '-' with attributes, else 0
  std::string attributes;  // e.g. "me", "me.all", "gfx"; comma separated

  std::string text() const;           // "1g.5gb+me"
  std::string resource_name() const;  // "mig-1g.5gb.me"
  bool operator==(const MigProfile&) const = default;
};

// Errors: BadMigProfile.
Parsed<MigProfile> parse_mig_profile(std::string_view text);
// Requires nothing of `text`; it must begin with "mig-" and is what follows "nvidia.com/" in a
// resource name. Errors: BadMigProfile.
Parsed<MigProfile> parse_mig_resource(std::string_view text);

// How sure a figure of the table is: read from a listing of the driver's, or derived.
enum class Confidence : std::uint8_t { listed, inferred };

struct MigTableRow {
  std::string_view model;    // "A100-40GB"
  std::string_view profile;  // "1g.5gb+me"
  int profile_id = 0;        // hardware id: what create calls take and nvidia-smi shows
  int compute_slices = 0;
  int memory_slices = 0;
  std::optional<std::int64_t> memory_mib;  // empty = unknown
  int max_instances = 0;
  std::string_view placements;  // first memory slices it may start at: "0 2 4"
  std::string_view attributes;  // as in MigProfile, a leading '-' kept: "", "me", "me.all", "-me"
  Confidence confidence = Confidence::inferred;  // the weaker of the next two
  Confidence memory_confidence = Confidence::inferred;
  Confidence placement_confidence = Confidence::inferred;
  int gi_enum = 0;  // NVML's GPU instance profile enum, another number space
  std::optional<int> sm_count;
  std::optional<std::int64_t> total_mib;  // a typical reading of the whole device
  std::string_view pci_device_ids;        // hexadecimal, separated by '|'
};

// In the order of the file: models together, profiles as nvidia-smi lists them.
std::span<const MigTableRow> mig_table();
// The row of a profile on a model; null if the model does not offer it or is not in the table.
const MigTableRow* find_mig_row(std::string_view model, std::string_view profile);

}  // namespace berth::request
