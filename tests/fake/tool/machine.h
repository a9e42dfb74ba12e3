// What `init` makes: a state file from a fleet.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "fake/state/layout.h"

namespace berth::fake::tool {

struct Machine {
  std::string spec;  // SPEC, or the path of a YAML file with a `fleet:` section
  std::string path;  // of the state file
  std::string driver = "535";
  std::string node;  // empty = the first of SPEC
  std::optional<std::uint64_t> context_bytes;
  std::optional<std::uint64_t> reserved;
  bool fork_works = false;
};

// Written beside `path` and renamed into place. Errors: a wrong SPEC, an unknown driver line or
// node, more than 16 GPUs, a path that cannot be written.
Result<std::string> make_machine(const Machine& machine);

// "GPU-1a2b3c4d-…" in text and bytes; an identity that is no UUID gets bytes derived from its text.
void fill_uuid(DeviceEntry& entry, const std::string& text);

// "535" or a full version -> version text and CUDA version.
struct DriverLine {
  const char* line;
  const char* version;
  std::uint32_t cuda;
};
Result<DriverLine> driver_line(const std::string& text);
void set_driver(Header& header, const DriverLine& line);

}  // namespace berth::fake::tool
