#include "fake/tool/models.h"

namespace berth::fake::tool {

namespace {

struct Known {
  const char* word;
  const char* name;
  std::uint32_t multiprocessors;
  std::uint32_t major;
  std::uint32_t minor;
  std::uint64_t watts;
};

constexpr Known kKnown[] = {
    {"B200", "NVIDIA B200", 148, 10, 0, 1000},
    {"H200", "NVIDIA H200", 132, 9, 0, 700},
    {"H100", "NVIDIA H100 80GB HBM3", 132, 9, 0, 700},
    {"A100", "NVIDIA A100-SXM4-80GB", 108, 8, 0, 400},
    {"A30", "NVIDIA A30", 56, 8, 0, 165},
    {"A10", "NVIDIA A10", 72, 8, 6, 150},
    {"L40", "NVIDIA L40", 142, 8, 9, 300},
    {"L4", "NVIDIA L4", 58, 8, 9, 72},
    {"V100", "Tesla V100-SXM2-16GB", 80, 7, 0, 300},
    {"T4", "Tesla T4", 40, 7, 5, 70},
    {"P100", "Tesla P100-PCIE-16GB", 56, 6, 0, 250},
};

}  // namespace

ModelFacts model_facts(const std::string& model) {
  for (const Known& known : kKnown) {
    if (model.find(known.word) == std::string::npos) continue;
    // A full name is kept as written; a bare word becomes the name that a driver gives.
    return {.name = model == known.word ? known.name : model,
            .multiprocessors = known.multiprocessors,
            .major = known.major,
            .minor = known.minor,
            .power_limit_mw = known.watts * 1000};
  }
  return {.name = model == "GPU" ? "Berth Fake GPU" : model,
          .multiprocessors = 108,
          .major = 8,
          .minor = 0,
          .power_limit_mw = 400'000};
}

}  // namespace berth::fake::tool
