// Any bytes as a value: an answer, and a canonical text that reads back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "request/mig_profile.h"
#include "request/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::request;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto memory = parse_quantity(text)) ASSERT(memory->ceil_mib() >= 1, text);
  if (const auto memory = parse_mib(text)) ASSERT(memory->ceil_mib() >= 1, text);
  if (const auto nano = parse_fraction(text)) {
    ASSERT(nano->count() > 0 && *nano < berth::kWholeNano, text);
    ASSERT(parse_fraction(fraction_text(*nano)) == *nano, text);
  }
  if (const auto limit = parse_fraction(text, kLimitFractionDigits)) {
    ASSERT(parse_fraction(text) == *limit, text);
  }
  if (const auto share = parse_compute_share(text)) ASSERT(share->count() >= 1, text);
  if (const auto count = parse_count(text)) ASSERT(*count >= 1, text);
  if (const auto cpu = parse_cpu(text)) ASSERT(cpu->count() >= 0, text);
  if (const auto ram = parse_ram(text)) ASSERT(ram->in_bytes() >= 0, text);
  if (const auto lease = parse_lease_size(text)) {
    ASSERT(parse_lease_size(lease_size_text(*lease)) == *lease, text);
  }
  if (const auto profile = parse_mig_profile(text)) {
    ASSERT(parse_mig_profile(profile->text()) == *profile, text);
    ASSERT(parse_mig_resource(profile->resource_name()) == *profile, text);
  }
  return 0;
}
