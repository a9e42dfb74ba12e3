#include "local/container.h"

namespace berth::local {

std::string container_cgroup(const Processes& processes, std::string_view id) {
  constexpr std::size_t kIdSize = 64;
  if (id.size() != kIdSize) return {};
  for (const Process* process : processes.all()) {
    if (!process->lives()) continue;
    for (const std::string& path : processes.cgroups(process->key.pid)) {
      const std::size_t at = path.find(id);
      if (at == std::string::npos) continue;
      const std::size_t begin = path.rfind('/', at);
      const std::size_t end = path.find('/', at);
      // Podman's monitor of the container has a cgroup beside it that bears the id too.
      if (path.substr(begin, at - begin).find("conmon") != std::string::npos) continue;
      return path.substr(0, end);
    }
  }
  return {};
}

}  // namespace berth::local
