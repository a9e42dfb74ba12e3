// Any bytes: a tree or an error with a place, never a crash, and every place inside the text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "yaml/tree.h"

namespace {

void check_places(const berth::yaml::Node& node) {
  ASSERT(node.line >= 1 && node.column >= 1, node.line, node.column);
  for (const berth::yaml::Node& item : node.items)
    check_places(item);
  for (const berth::yaml::Entry& entry : node.entries) {
    ASSERT(entry.line >= 1 && entry.column >= 1, entry.line, entry.column);
    check_places(entry.value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto documents = berth::yaml::parse(text, "fuzz.yaml");
  if (documents.ok()) {
    for (const berth::yaml::Node& document : *documents)
      check_places(document);
  } else {
    ASSERT(documents.error().message().starts_with("fuzz.yaml:"), documents.error().message());
  }
  return 0;
}
