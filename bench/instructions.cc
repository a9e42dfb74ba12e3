// Instruction counts: the part of a workload that is spent inside the engine, by callgrind.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "suite.h"

namespace berth::bench {

namespace {

constexpr std::string_view kEngineApply = "berth::core::Engine::apply(berth::core::Event const&)";

}  // namespace

std::optional<std::int64_t> instructions_of(const Context& context, std::string_view workload) {
  if (!context.count_instructions || std::system("command -v valgrind >/dev/null") != 0) {
    return std::nullopt;
  }
  const std::string command = fmt::format(
      "valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no "
      "'--toggle-collect={}' '{}' --once {} --data '{}' 2>&1",
      kEngineApply, context.self, workload, context.data);
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  if (child == nullptr) return std::nullopt;
  char line[512];
  std::optional<std::int64_t> collected;
  while (std::fgets(line, sizeof line, child.get()) != nullptr) {
    const std::string text = line;
    const std::size_t at = text.find("Collected : ");
    if (at != std::string::npos) collected = std::stoll(text.substr(at + 12));
  }
  return collected;
}

}  // namespace berth::bench
