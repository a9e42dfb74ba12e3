// Virtual memory management: physical memory by handle, addresses by reservation, and what joins
// them.
//
// A handle's memory is held as long as anything refers to it: its creation, every retain, every
// mapping. Physical memory that was imported belongs to the exporter; this process only keeps it
// alive (shares.h).
#pragma once

#include <vector>

#include "fake/cuda/memory.h"
#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

inline constexpr std::uint64_t kVmmGranule = std::uint64_t{2} << 20;

struct Physical {
  int entry = -1;  // -1 = memory of the host
  std::uint64_t bytes = 0;
  AllocationProp properties{};
  int references = 0;
  bool multicast = false;
  std::uint64_t share_id = 0;
  bool imported = false;
  std::vector<Physical*> bound = {};  // of a multicast object
};

struct Mapping {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  Physical* physical = nullptr;
  std::uint64_t access = 0;
};

extern Slab<Physical> g_physicals;

// With the driver's lock held.
void drop_reference(Physical* physical);
bool is_mapped(const Block& reserved, std::uint64_t address, std::uint64_t bytes);
Mapping* mapping_at(std::uint64_t address);
Physical* physical_of(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle handle_of(Physical* physical);

}  // namespace berth::fake::cuda
