// Physical memory behind virtual addresses: bytes live while any handle or mapping refers to them,
// so the release-after-map idiom is not free of charge (enforcement.md 2.3, "VMM").
// Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"
#include "guard/preload/local.h"

namespace berth::guard {

// A new physical allocation with one reference, its handle. `target` is kUntouched for memory that
// is not charged: imported, or of the host.
void backing_created(CuAllocation handle, int target, std::uint64_t bytes);
// An import. One that gives a known handle again is one more reference to it.
void backing_imported(CuAllocation handle);
// cuMemRetainAllocationHandle(address) gave `handle`.
void backing_retained(CuAllocation handle, CuPtr address);
void backing_released(CuAllocation handle);
void backing_mapped(CuPtr at, std::uint64_t bytes, CuAllocation handle);
void range_unmapped(CuPtr at, std::uint64_t bytes);

// A multicast object (a backing without bytes) refers to what is bound to it, until that is unbound
// or the object is gone.
void group_bound(CuAllocation group, std::uint64_t offset, CuAllocation memory);
void group_bound_at(CuAllocation group, std::uint64_t offset, CuPtr address);
void group_unbound(CuAllocation group, int target, std::uint64_t offset, std::uint64_t bytes);

// A tile of a sparse array, by what names it.
std::uint64_t tile_key(const ArrayMapInfo& info);
void tile_mapped(std::uint64_t tile, CuAllocation handle);
void tile_unmapped(std::uint64_t tile);

}  // namespace berth::guard
