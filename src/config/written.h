// Values as a YAML file has them: what the readers of value.h take, written.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"

namespace berth::config {

// Plain where every reader of YAML takes it for a text, else in double quotes.
std::string scalar(std::string_view text);

std::string written(bool value);
std::string written(std::int64_t value);
std::string written(Duration value);                         // "90s", "2min": the largest unit
std::string written(Memory value);                           // "128MiB"
std::string written(const std::string& value);               // empty stays empty
std::string written(const std::vector<std::string>& value);  // "[a, b]"; empty stays empty

}  // namespace berth::config
