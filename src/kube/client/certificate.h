// What a PEM certificate says of itself.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace berth::kube {

// When the first certificate of the text ends, microseconds since 1970. Errors: invalid_argument.
Result<std::int64_t> certificate_end_us(std::string_view pem);

}  // namespace berth::kube
