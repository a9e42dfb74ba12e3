// The OpenAPI 3.1 document of the HTTP interface, served at /v1/openapi.json.
#pragma once

#include <string>

namespace berth::api {

const std::string& openapi_document();

}  // namespace berth::api
