#include "gpu/problems.h"

#include <cstddef>

#include "base/printable.h"

namespace berth::gpu {

void add_problem(std::string& problems, std::string_view problem) {
  constexpr std::size_t kMost = 400;  // bytes; the rest of a list of complaints helps nobody
  if (problem.empty()) return;
  if (problems.empty()) {
    problems = shortened(problem, kMost);
  } else if (problems.size() + problem.size() <= kMost) {
    problems += "; ";
    problems += problem;
  }
}

}  // namespace berth::gpu
