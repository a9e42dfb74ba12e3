#include "guard/preload/vmm.h"

#include <sys/mman.h>

#include "guard/preload/books.h"

namespace berth::guard {

namespace {

constexpr std::uint64_t kPage = 4096;

// A mapping: the backing's index below, its pages above.
constexpr unsigned kIndexBits = 24;
constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;

// What a tile of a sparse array has in the place of an address: never page-aligned, so never the
// key of a mapping.
constexpr std::uint64_t kTileMark = 1;

// The key of a binding: the index of the multicast object's backing, and the page it is bound at.
// Several devices are bound at one place.
constexpr unsigned kPageBits = 40;

std::uint64_t binding_key(std::uint32_t group, std::uint64_t offset) {
  return (std::uint64_t{group} + 1) << kPageBits | offset / kPage;
}

// What is given back once the lock is free.
struct Freed {
  std::uint64_t bytes[kTargets] = {};
};

void give_back(const Freed& freed) {
  for (int target = 0; target < kTargets; ++target)
    release(target, freed.bytes[target]);
}

// Requires, for all of them: own.lock is held.
// True if it was the last reference.
bool drop_one(Local& own, std::uint32_t index, Freed& freed) {
  Backing& backing = own.backings[index];
  if (--backing.references != 0) return false;
  if (backing.target >= 0) freed.bytes[backing.target] += backing.bytes;
  backing.next_free = own.free_backing;
  own.free_backing = index + 1;
  return true;
}

// With a multicast object go the references to what was bound to it, which is none itself.
void drop_reference(Local& own, std::uint32_t index, Freed& freed) {
  if (!drop_one(own, index, freed) || own.bindings.count() == 0) return;
  own.bindings.take_if([&](std::uint64_t key, std::uint64_t part) {
    if (key >> kPageBits != std::uint64_t{index} + 1) return false;
    drop_one(own, static_cast<std::uint32_t>(part), freed);
    return true;
  });
}

bool take_place(Local& own, std::uint32_t& index) {
  if (own.free_backing != 0) {
    index = own.free_backing - 1;
    own.free_backing = own.backings[index].next_free;
    return true;
  }
  if (own.n_backings == own.backing_capacity) return false;
  index = own.n_backings++;
  return true;
}

// More places; called without the lock. False: no memory, or a program with 2^24 allocations.
bool grow_backings(Local& own) {
  const std::uint32_t had = own.backing_capacity;
  const std::uint32_t capacity = had == 0 ? 256 : had * 2;
  if (capacity > kIndexMask) return false;
  auto* memory =
      static_cast<Backing*>(sys::map(nullptr, capacity * sizeof(Backing), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1));
  if (memory == nullptr) return false;
  Backing* old = nullptr;
  {
    const Locked locked(own.lock);
    if (own.backing_capacity != had) {
      old = memory;  // another thread was faster
    } else {
      for (std::uint32_t i = 0; i < own.n_backings; ++i)
        memory[i] = own.backings[i];
      old = own.backings;
      own.backings = memory;
      own.backing_capacity = capacity;
    }
  }
  if (old != nullptr) sys::unmap(old, (old == memory ? capacity : had) * sizeof(Backing));
  return true;
}

// The backing of a handle; false: unknown.
bool index_of_handle(Local& own, CuAllocation handle, std::uint32_t& index) {
  const std::uint64_t* value = own.handles.find(handle);
  if (value == nullptr) return false;
  index = static_cast<std::uint32_t>(*value);
  return true;
}

// Adds a reference by way of `key` in `table`. False: the handle is not ours.
bool refer(Local& own, CuAllocation handle, std::uint32_t& index) {
  const Locked locked(own.lock);
  if (!index_of_handle(own, handle, index)) return false;
  ++own.backings[index].references;
  return true;
}

bool take_mapping(Local& own, std::uint64_t key, std::uint64_t& pages, Freed& freed) {
  const Locked locked(own.lock);
  std::uint64_t value = 0;
  if (!own.mappings.take(key, value)) return false;
  pages = value >> kIndexBits;
  drop_reference(own, static_cast<std::uint32_t>(value & kIndexMask), freed);
  return true;
}

// Adds a reference to the backing that is mapped around an address. False: none that we know.
bool refer_mapped(Local& own, CuPtr address, std::uint32_t& index) {
  const Locked locked(own.lock);
  bool known = false;
  own.mappings.take_if([&](std::uint64_t at, std::uint64_t value) {
    const bool around =
        (at & kTileMark) == 0 && address >= at && address - at < (value >> kIndexBits) * kPage;
    if (around && !known) {
      index = static_cast<std::uint32_t>(value & kIndexMask);
      ++own.backings[index].references;
      known = true;
    }
    return false;
  });
  return known;
}

}  // namespace

void backing_created(CuAllocation handle, int target, std::uint64_t bytes) {
  Local& own = *local();
  std::uint32_t index = 0;
  for (int attempt = 0; attempt < 64; ++attempt) {
    own.lock.lock();
    const bool placed = take_place(own, index);
    if (placed) {
      own.backings[index] = {.bytes = bytes, .target = target, .references = 1, .next_free = 0};
    }
    own.lock.unlock();
    if (placed) {
      enter(own.handles, handle, index);
      return;
    }
    if (!grow_backings(own)) return;
  }
}

void backing_imported(CuAllocation handle) {
  Local& own = *local();
  std::uint32_t index = 0;
  if (refer(own, handle, index)) {
    enter(own.handles, handle, index);
  } else {
    backing_created(handle, kUntouched, 0);
  }
}

void backing_retained(CuAllocation handle, CuPtr address) {
  Local& own = *local();
  std::uint32_t index = 0;
  // Or a handle that the driver made anew for the memory mapped around the address.
  const bool known = refer(own, handle, index) || refer_mapped(own, address, index);
  if (known) enter(own.handles, handle, index);
}

void backing_released(CuAllocation handle) {
  Local& own = *local();
  Freed freed;
  {
    const Locked locked(own.lock);
    std::uint64_t value = 0;
    if (!own.handles.take(handle, value)) return;
    drop_reference(own, static_cast<std::uint32_t>(value), freed);
  }
  give_back(freed);
}

void backing_mapped(CuPtr at, std::uint64_t bytes, CuAllocation handle) {
  Local& own = *local();
  std::uint32_t index = 0;
  if (refer(own, handle, index)) enter(own.mappings, at, index | (bytes / kPage << kIndexBits));
}

void range_unmapped(CuPtr at, std::uint64_t bytes) {
  Local& own = *local();
  const CuPtr end = at + bytes;
  Freed freed;
  while (at < end) {
    std::uint64_t pages = 0;
    if (!take_mapping(own, at, pages, freed) || pages == 0) break;
    at += pages * kPage;
  }
  if (at < end) {
    // A range that begins with memory we did not see mapped: look at every mapping once.
    const Locked locked(own.lock);
    own.mappings.take_if([&](std::uint64_t key, std::uint64_t value) {
      if (key < at || key >= end || (key & kTileMark) != 0) return false;
      drop_reference(own, static_cast<std::uint32_t>(value & kIndexMask), freed);
      return true;
    });
  }
  give_back(freed);
}

void group_bound(CuAllocation group, std::uint64_t offset, CuAllocation memory) {
  Local& own = *local();
  std::uint32_t part = 0;
  std::uint32_t whole = 0;
  {
    const Locked locked(own.lock);
    if (!index_of_handle(own, group, whole) || !index_of_handle(own, memory, part)) return;
    ++own.backings[part].references;
  }
  enter(own.bindings, binding_key(whole, offset), part);
}

void group_bound_at(CuAllocation group, std::uint64_t offset, CuPtr address) {
  Local& own = *local();
  std::uint32_t part = 0;
  std::uint32_t whole = 0;
  {
    const Locked locked(own.lock);
    if (!index_of_handle(own, group, whole)) return;
  }
  if (refer_mapped(own, address, part)) enter(own.bindings, binding_key(whole, offset), part);
}

void group_unbound(CuAllocation group, int target, std::uint64_t offset, std::uint64_t bytes) {
  Local& own = *local();
  Freed freed;
  {
    const Locked locked(own.lock);
    std::uint32_t whole = 0;
    if (!index_of_handle(own, group, whole)) return;
    const std::uint64_t first = binding_key(whole, offset);
    const std::uint64_t end = binding_key(whole, offset + bytes + kPage - 1);
    own.bindings.take_if([&](std::uint64_t key, std::uint64_t value) {
      const auto part = static_cast<std::uint32_t>(value);
      if (key < first || key >= end || own.backings[part].target != target) return false;
      drop_one(own, part, freed);
      return true;
    });
  }
  give_back(freed);
}

std::uint64_t tile_key(const ArrayMapInfo& info) {
  std::uint64_t key = reinterpret_cast<std::uint64_t>(info.resource);
  const auto mix = [&key](std::uint64_t part) {
    key = (key ^ part) * 0x9E3779B97F4A7C15U;
    key ^= key >> 29U;
  };
  mix(static_cast<std::uint64_t>(info.subresource_type));
  mix((std::uint64_t{info.subresource.level} << 32U) | info.subresource.layer);
  mix((std::uint64_t{info.subresource.x} << 32U) | info.subresource.y);
  mix(info.subresource.z);
  return key | kTileMark;
}

void tile_mapped(std::uint64_t tile, CuAllocation handle) {
  Local& own = *local();
  std::uint32_t index = 0;
  const bool known = refer(own, handle, index);
  tile_unmapped(tile);  // mapping over a tile lets go of what was there
  if (known) enter(own.mappings, tile, index | (std::uint64_t{1} << kIndexBits));
}

void tile_unmapped(std::uint64_t tile) {
  std::uint64_t pages = 0;
  Freed freed;
  if (take_mapping(*local(), tile, pages, freed)) give_back(freed);
}

}  // namespace berth::guard
