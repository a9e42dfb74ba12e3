// MIG instances in a state file.
#pragma once

#include <string>

#include "base/result.h"
#include "fake/state/layout.h"

namespace berth::fake::tool {

// Makes the entry `instance` the next instance of the GPU entry `gpu`, which goes into MIG mode.
void adopt_instance(State& state, int instance, int gpu);

// Cuts an instance of `profile` ("2g.20gb") from a GPU in MIG mode; returns its UUID. Errors: a
// wrong profile, more slices or memory than are left, no free entry.
Result<std::string> create_instance(State& state, int gpu, const std::string& profile);
Result<void> destroy_instance(State& state, int instance);

}  // namespace berth::fake::tool
