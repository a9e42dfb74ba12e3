// MachineWitness: what the lease service asks of this machine's processes. Thread-safety: none.
#pragma once

#include <string>

#include "lease/service.h"

namespace berth::serve {

class MachineWitness final : public lease::Witness {
 public:
  // `guard_name`: file name of the guard's library, as the maps of a process show it.
  explicit MachineWitness(std::string guard_name) : guard_name_(std::move(guard_name)) {}

  Result<local::Proof> prove(const local::Confirmation& confirmation) override;
  bool alive(const local::Proof& proof) override;
  std::vector<local::Attribution> attribute(std::span<const local::Proof> proofs,
                                            std::span<const gpu::ProcessUse> uses) override;
  bool guarded(const local::Proof& proof) override;

 private:
  std::string guard_name_;
};

}  // namespace berth::serve
