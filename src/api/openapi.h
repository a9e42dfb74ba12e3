// The OpenAPI 3.1 document of the HTTP interface, served at /v1/openapi.json.
//
// It is src/api/openapi.json. Whoever adds a call, a field, a state, a reason or an error code
// writes it there too: openapi_test.cc and tests/api compare both.
#pragma once

#include <string_view>

namespace berth::api {

extern const std::string_view kOpenapiDocument;

}  // namespace berth::api
