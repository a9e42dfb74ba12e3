#include "serve/witness.h"

#include <fstream>

#include <fmt/format.h>

namespace berth::serve {

Result<local::Proof> MachineWitness::prove(const local::Confirmation& confirmation) {
  return local::prove(local::Processes(), confirmation);
}

bool MachineWitness::alive(const local::Proof& proof) {
  return local::alive(local::Processes(), proof);
}

std::vector<local::Attribution> MachineWitness::attribute(std::span<const local::Proof> proofs,
                                                          std::span<const gpu::ProcessUse> uses) {
  if (uses.empty()) {
    return {};
  }
  std::vector<std::int64_t> pids;
  pids.reserve(uses.size());
  for (const gpu::ProcessUse& use : uses) {
    pids.push_back(use.pid);
  }
  std::vector<local::Attribution> owners = local::attribute(local::Processes(), proofs, pids);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i].lease.empty() && !uses[i].name.empty() &&
        owners[i].name == fmt::format("pid {}", uses[i].pid)) {
      owners[i].name += fmt::format(" ({})", uses[i].name);
    }
  }
  return owners;
}

bool MachineWitness::guarded(const local::Proof& proof) {
  if (!proof.process.has_value() || guard_name_.empty()) {
    return false;
  }
  std::ifstream maps(fmt::format("/proc/{}/maps", proof.process->pid));
  std::string line;
  while (std::getline(maps, line)) {
    if (line.ends_with("/" + guard_name_)) {
      return true;
    }
  }
  return false;
}

}  // namespace berth::serve
