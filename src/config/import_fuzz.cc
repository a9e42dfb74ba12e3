// Any bytes as a manifest: errors, or queues that can be written and read back to the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.h"
#include "config/import.h"
#include "config/queue_file.h"
#include "config/queue_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::config;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto import = import_manifests({{.file = "fuzz.yaml", .text = text}});
  if (!import.ok()) {
    ASSERT(!import.error().message().empty());
    return 0;
  }
  const std::string written = queue_file_text(import->config);
  const auto again = read_queue_file(written, "again.yaml", {});
  ASSERT(again.ok(), again.ok() ? "" : again.error().message(), written);
  ASSERT(*again == import->config, written);
  return 0;
}
