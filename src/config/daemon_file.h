// The configuration file of `berth serve`: YAML -> DaemonConfig, a value that nothing changes.
//
//   DaemonFile file = read_daemon_file(text, "/etc/berth/berth.yaml");
//   if (!file.complaints.empty()) … file.text() …          // all that is wrong, each with its
//   place use(file.config);
//
// One table, daemon_settings(), has every key: its meaning, its reader, its writer and whether a
// reload is enough for it. The reference in docs/administration.md, `berth config check` and the
// log of a reload are printed from it. Thread-safety: values and functions of their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "config/section.h"
#include "config/value.h"

namespace berth::config {

enum class Overuse : std::uint8_t { report, block, kill };
enum class BurstEnd : std::uint8_t { report, end };
enum class LogLevel : std::uint8_t { info, warning, error };

struct DaemonConfig {
  std::vector<std::string> listen = {};  // empty = one socket, whose place depends on the user
  std::string state_dir = {};            // empty = likewise
  std::string node = {};                 // empty = the host's name
  std::vector<std::string> queues_files = {};  // empty = one queue without quota
  std::string policy = "spread";
  std::vector<std::string> admins = {};  // users of this machine: names or numbers
  std::string tokens_file = {};
  Overuse overuse = Overuse::report;

  struct Tls {
    std::string certificate = {};
    std::string key = {};
    bool plain_loopback = false;
    bool operator==(const Tls&) const = default;
  } tls = {};

  struct Gpu {
    bool enabled = true;
    bool nvml = true;
    std::string library = "libnvidia-ml.so.1";
    std::vector<std::string> dcgm = {};  // URLs
    std::string prometheus = {};         // URL
    std::string prometheus_selector = {};
    Duration sampling{1'000};
    std::optional<Duration> max_sample_age = {};  // empty = 3 x sampling
    bool ledger_only = false;
    Memory margin = Memory::mib(128);
    std::string guard = {};  // empty = beside the program
    bool operator==(const Gpu&) const = default;
  } gpu = {};

  struct Leases {
    Duration confirm{300'000};
    Duration ttl{120'000};
    Duration silence{300'000};
    Duration forced{3'600'000};
    Duration age_memory{3'600'000};
    Duration keep_ended{86'400'000};
    bool operator==(const Leases&) const = default;
  } leases = {};

  struct Limits {
    std::optional<std::int64_t> device_cap = {};  // empty = none
    std::int64_t overcommit_percent = 200;
    std::int64_t waiting_per_owner = 10'000;
    std::int64_t ended_leases = 100'000;
    std::int64_t max_connections = 8'192;
    std::int64_t connections_per_user = 0;  // 0 = three quarters of max_connections
    bool operator==(const Limits&) const = default;
  } limits = {};

  struct Evictions {
    Duration grace{30'000};
    bool operator==(const Evictions&) const = default;
  } evictions = {};

  struct Burst {
    Duration grace{60'000};
    BurstEnd policy = BurstEnd::report;
    bool operator==(const Burst&) const = default;
  } burst = {};

  struct Log {
    LogLevel level = LogLevel::info;
    bool operator==(const Log&) const = default;
  } log = {};

  bool operator==(const DaemonConfig&) const = default;
};

// When a change of a key counts.
enum class Takes : std::uint8_t { at_reload, at_restart };

struct Setting {
  std::string_view section;  // empty: top level
  KeyDoc doc;
  std::string_view otherwise;  // what holds when it is not said, where that is no value of its own
  Takes takes = Takes::at_restart;
  Result<void> (*read)(const Value& value, DaemonConfig& into) = nullptr;
  std::string (*write)(const DaemonConfig& config) = nullptr;  // as YAML; empty = not said
  void (*copy)(const DaemonConfig& from, DaemonConfig& into) = nullptr;

  std::string path() const;  // "gpu.sampling"
};

// In the order of the reference; those of a section lie together.
std::span<const Setting> daemon_settings();

struct DaemonFile {
  DaemonConfig config;
  std::map<std::string, Place> places;  // of what was said, by path: "gpu.sampling"
  std::vector<std::string> complaints;  // "FILE:LINE:COLUMN: …", in the order of the lines

  bool refused() const { return !complaints.empty(); }
  // The complaints, a line each, without a last line break.
  std::string text() const;
};

// An empty file says nothing and is fine.
DaemonFile read_daemon_file(std::string_view text, std::string_view file_name);

// A file that reads back to the same, every key in it; what is the default is marked so.
std::string daemon_file_text(const DaemonConfig& config);

struct Change {
  std::string path;
  std::string before;  // as YAML; "(not set)"
  std::string after;
  Takes takes = Takes::at_restart;

  // "leases.ttl: 2min -> 5min (needs a restart)"
  std::string text() const;
};

std::vector<Change> changes_between(const DaemonConfig& before, const DaemonConfig& after);

// Markdown: how values are written, and a table per section.
std::string daemon_reference_text();
inline constexpr const char* kDaemonReferenceMarker =
    "<!-- From here on: printed by `berth config fields`. -->";

}  // namespace berth::config
