// Routes: which calls there are, and whether a path is one of them.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::api {

// One call; "{}" in a path stands for one segment.
struct RoutePath {
  std::string_view method;
  std::string_view path;
};

bool path_matches(std::string_view pattern, const std::vector<std::string>& segments);

}  // namespace berth::api
