// What an entry point that the fake does not implement answers.
#pragma once

namespace berth::fake::cuda {

// Counts the call and returns CUDA_ERROR_NOT_SUPPORTED. `name` is a place in kNames.
int refuse(int name);

}  // namespace berth::fake::cuda
