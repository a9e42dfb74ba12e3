// What the measurements of leases share: the daemon as users run it, and the words that it is asked
// in. Thread-safety: functions of their arguments.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "http_load.h"
#include "suite.h"

namespace berth::bench {

inline std::string program_of(const Context& context) {
  return std::filesystem::path(context.self).parent_path().string() + "/berth";
}

inline Result<ServeProcess> serve(const Context& context, const std::string& spec) {
  return ServeProcess::start(program_of(context), "build", {"--simulate", spec, "--guard", "none"});
}

inline double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
  return values[at];
}

inline std::string lease_id(std::string_view body) {
  const std::size_t at = body.find("\"id\":\"");
  return at == std::string_view::npos
             ? ""
             : std::string(body.substr(at + 6, body.find('"', at + 6) - at - 6));
}

inline std::string reserve_body(std::string_view key, std::string_view memory) {
  return fmt::format(R"({{"key":"{}","memory":"{}","node":"n0"}})", key, memory);
}

Result<std::vector<Row>> measure_waiters(const Context& context);

}  // namespace berth::bench
