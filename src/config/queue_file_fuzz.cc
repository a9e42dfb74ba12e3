// Any bytes as a queue file: a configuration or complaints with places, never a crash; and what was
// accepted is written to a text that reads back to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "config/queue_file.h"
#include "config/queue_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  QueueReader reader;
  reader.add_file(text, "fuzz.yaml");
  const QueueFile file = std::move(reader).finish({"A100", "H100"});
  for (const QueueComplaint& complaint : file.complaints) {
    ASSERT(complaint.text.starts_with("fuzz.yaml:"), complaint.text);
  }
  if (file.refused()) return 0;
  const std::string written = queue_file_text(file.config);
  const auto again = read_queue_file(written, "again.yaml", {"A100", "H100"});
  ASSERT(again.ok(), again.ok() ? "" : again.error().message(), written);
  ASSERT(*again == file.config, written);
  return 0;
}
