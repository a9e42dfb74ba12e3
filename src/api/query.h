// Parameters of a request's query, read with the errors of leases.md 3.5. Thread-safety: functions
// of their arguments.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "lease/service.h"
#include "net/message.h"

namespace berth::api {

// A whole number in decimal digits, nothing else.
std::optional<std::int64_t> number_of(const std::string& text);

lease::Refusal bad_query(std::string_view name, std::string_view value, std::string_view rule);

// Empty when the parameter is absent.
lease::Outcome<std::optional<std::int64_t>> query_number(const net::Request& request,
                                                         std::string_view name, std::int64_t least,
                                                         std::int64_t most);

// "1" or "true", "0" or "false"; false when the parameter is absent.
lease::Outcome<bool> query_flag(const net::Request& request, std::string_view name);

lease::Outcome<void> check_query(const net::Request& request,
                                 std::initializer_list<std::string_view> known);

}  // namespace berth::api
