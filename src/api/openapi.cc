#include "api/openapi.h"

namespace berth::api {

const std::string& openapi_document() {
  static const std::string document =
      R"({"openapi":"3.1.0","info":{"title":"Berth","version":"1"},"paths":{}})";
  return document;
}

}  // namespace berth::api
