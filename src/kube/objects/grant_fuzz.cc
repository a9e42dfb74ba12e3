// Any bytes as the annotation `berth.dev/grant`: a record reads back as it was written; what is no
// record has a problem.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "kube/objects/grant.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::kube;
  const GrantReading reading = read_grant({reinterpret_cast<const char*>(data), size});
  ASSERT(reading.record.has_value() == reading.problem.empty());
  if (reading.record) {
    const GrantReading again = read_grant(grant_text(*reading.record));
    ASSERT(again.record == reading.record);
    ASSERT(!binding_annotations(*reading.record, {}, {.cdi = true}).empty());
  }
  return 0;
}
