// Any bytes as the body of a reservation: a claim that is valid, or a refusal that names what to
// do.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/read_reserve.h"
#include "api/write.h"
#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth;
  const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT: bytes
  const lease::Outcome<json::Value> body = api::read_body(text);
  if (!body) {
    ASSERT(!body.error().message.empty());
    return 0;
  }
  for (const bool local : {true, false}) {
    const lease::Party party{.name = "fuzz", .local = local};
    const lease::Outcome<api::Reserve> reserve = api::read_reserve(*body, party, {.node = "n0"});
    if (reserve) {
      ASSERT(!reserve->ask.key.empty() && reserve->ask.key.size() <= 512);
      ASSERT(reserve->ask.gpu().mib >= 0);
    } else {
      ASSERT(!reserve.error().code.empty() && !reserve.error().message.empty());
      ASSERT(json::parse(api::refusal_response(reserve.error()).body).ok());
    }
  }
  return 0;
}
