// Any bytes as a scenario and as a load: a report, a value or an error with a place, never a crash.
// A scenario that parses is run too.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "scenario/load.h"
#include "scenario/run.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto report = berth::scenario::run_scenario(text, "fuzz.yaml");
  if (!report.ok()) {
    ASSERT(report.error().message().starts_with("fuzz.yaml:"), report.error().message());
  }
  const auto load = berth::scenario::parse_load(text, "fuzz.yaml");
  if (!load.ok()) {
    ASSERT(load.error().message().starts_with("fuzz.yaml:"), load.error().message());
  }
  return 0;
}
