#include "api/route.h"

#include <algorithm>

namespace berth::api {

bool path_matches(std::string_view pattern, const std::vector<std::string>& segments) {
  std::size_t at = 0;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);  // '/'
    const std::size_t end = std::min(pattern.find('/'), pattern.size());
    if (at >= segments.size() ||
        (pattern.substr(0, end) != "{}" && pattern.substr(0, end) != segments[at])) {
      return false;
    }
    pattern.remove_prefix(end);
    ++at;
  }
  return at == segments.size();
}

}  // namespace berth::api
