// Any bytes as a daemon's configuration: a value or complaints with places, never a crash; and what
// was accepted is written to a text that reads back to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "config/daemon_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const DaemonFile file = read_daemon_file(text, "fuzz.yaml");
  for (const std::string& complaint : file.complaints) {
    ASSERT(complaint.starts_with("fuzz.yaml:"), complaint);
  }
  if (file.refused()) return 0;
  const std::string written = daemon_file_text(file.config);
  const DaemonFile again = read_daemon_file(written, "again.yaml");
  ASSERT(!again.refused(), again.text(), written);
  ASSERT(again.config == file.config, written);
  return 0;
}
