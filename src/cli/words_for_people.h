// Amounts, times and names as tables and sentences show them.
//
//   memory_text(4096)   "4GiB"        memory_text(3174)   "3174MiB"
//   rough_memory(3200)  "3.1GiB"      span_text(3700)     "1h01m"
//
// What was promised is written exactly, what was measured roughly. Thread-safety: functions of
// their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "cli/command.h"
#include "json/value.h"
#include "sim/document.h"

namespace berth::cli {

std::string memory_text(std::int64_t mib);
std::string rough_memory(std::int64_t mib);

// "12s", "3m20s", "1h05m", "3d4h"; below zero is zero.
std::string span_text(std::int64_t seconds);
// "90s", "10m", "2h", "1d": as config::parse_duration(), and minutes as people write them. Errors:
// invalid_argument naming `option`, what was typed and the rule.
Result<Duration> time_given(std::string_view option, std::string_view text);
// Seconds since an RFC 3339 time of ours ("2026-01-02T03:04:05Z"); empty: it is none.
std::optional<std::int64_t> seconds_since(std::string_view time);

// How devices are called where people read: "GPU 0" on one machine, "n1/GPU 0" on several,
// "MIG-1a2b3c4d" for instances.
class DeviceNames {
 public:
  DeviceNames() = default;
  // `devices` as GET /v1/devices lists them.
  explicit DeviceNames(const json::Array& devices);

  // The UUID itself for one that is not known.
  std::string name(std::string_view uuid) const;
  // Every UUID in a sentence by its name, and "NODE/UUID" too.
  std::string in_words(std::string_view sentence) const;

 private:
  struct Name {
    std::string node;
    std::string short_name;
  };
  std::map<std::string, Name, std::less<>> names_;
  bool one_node_ = true;
};

// The device that someone means by UUID, by an unambiguous beginning of it, by index, or by
// "NODE/INDEX". Errors: not_found with the nearest, invalid_argument (several).
Result<std::string> device_meant(const json::Array& devices, std::string_view words);

sim::Document document_of(const json::Value& value);
// As JSON or YAML; `format` is one of these words. One of many (--watch): JSON on one line, YAML
// after "---".
std::string text_of(const json::Value& value, std::string_view format, bool one_of_many = false);

}  // namespace berth::cli
