// Both trace parsers against arbitrary bytes: an answer or an error, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sim/trace.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto nodes = berth::sim::parse_nodes(text, "n");
  const auto pods = berth::sim::parse_pods(text, "p");
  if (nodes.ok()) {
    for (const berth::sim::TraceNode& node : *nodes) {
      if (node.name.empty() || node.devices < 0 || node.devices > 64) std::abort();
    }
  }
  if (pods.ok()) {
    for (const berth::sim::TracePod& pod : *pods) {
      if (pod.gpu_milli < 0 || pod.gpu_milli > 1000) std::abort();
      if ((pod.num_gpu == 0) != (pod.gpu_milli == 0)) std::abort();
    }
  }
  return 0;
}
