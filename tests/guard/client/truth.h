// What the fake driver knows, past everything that the guard counts.
#pragma once

#include <cstdint>
#include <string>

namespace berth::guard_test {

// Bytes that this process holds on a device of the state file, memory that it keeps alive for a
// process that is gone included. `families` receives them by family.
std::uint64_t truth(int device, std::string* families = nullptr);

}  // namespace berth::guard_test
