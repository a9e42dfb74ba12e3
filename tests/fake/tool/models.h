// What is known of GPU models, so that a device of SPEC looks like the card whose name it bears.
#pragma once

#include <cstdint>
#include <string>

namespace berth::fake::tool {

struct ModelFacts {
  std::string name;
  std::uint32_t multiprocessors = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint64_t power_limit_mw = 0;
};

// By a word in the model's name ("H100", "NVIDIA-A100-SXM4-80GB"); an unknown one looks like an
// A100 under its own name.
ModelFacts model_facts(const std::string& model);

}  // namespace berth::fake::tool
