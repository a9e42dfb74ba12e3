// Any bytes as a record of the journal: a lease or node that writes itself down the same, or an
// error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "lease/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth;
  const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT: bytes
  if (const Result<lease::Lease> lease = lease::read_lease(text); lease.ok()) {
    const std::string written = lease::lease_record(*lease);
    const Result<lease::Lease> again = lease::read_lease(written);
    ASSERT(again.ok());
    ASSERT(lease::lease_record(*again) == written);
  }
  if (const Result<core::Node> node = lease::read_node(text); node.ok()) {
    const Result<core::Node> again = lease::read_node(lease::node_record(*node));
    ASSERT(again.ok());
  }
  return 0;
}
