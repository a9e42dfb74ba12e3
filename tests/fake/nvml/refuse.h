// What an entry point that the fake does not implement answers.
#pragma once

namespace berth::fake::nvml {

// Counts the call and returns NVML_ERROR_NOT_SUPPORTED. `name` is a place in kNames.
int refuse(int name);

}  // namespace berth::fake::nvml
