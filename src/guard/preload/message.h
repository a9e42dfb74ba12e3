// The lines that the guard prints: one write each, no stdio, no memory.
#pragma once

#include <cstdint>

namespace berth::guard {

// The line of a refusal; the first of a process and device always, then one per 10 s.
void print_refusal(int target, std::uint64_t asked);

// The line of a start that fails closed; once per process.
void print_closed(const char* directory, const char* reason);

}  // namespace berth::guard
