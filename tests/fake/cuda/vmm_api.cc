// Virtual memory management, and multicast objects.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "fake/cuda/array.h"
#include "fake/cuda/physical.h"
#include "fake/cuda/shares.h"

namespace berth::fake::cuda {

Slab<Physical> g_physicals;

namespace {

std::map<std::uint64_t, Mapping>& mappings() {
  static auto& all = *new std::map<std::uint64_t, Mapping>;
  return all;
}

// Sparse arrays: what is mapped where, so that an unmap drops the right reference.
std::map<std::pair<const void*, std::uint64_t>, Physical*>& tiles() {
  static auto& all = *new std::map<std::pair<const void*, std::uint64_t>, Physical*>;
  return all;
}

}  // namespace

Physical* physical_of(CUmemGenericAllocationHandle handle) {
  auto* physical = reinterpret_cast<Physical*>(handle);
  return g_physicals.is_live(physical) ? physical : nullptr;
}

CUmemGenericAllocationHandle handle_of(Physical* physical) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(physical);
}

void drop_reference(Physical* physical) {
  if (--physical->references > 0) return;
  for (Physical* part : physical->bound)
    drop_reference(part);
  if (physical->imported) {
    leave_share(physical->share_id);
  } else {
    release_share(physical->share_id);
    if (physical->entry >= 0 && !physical->multicast) {
      driver().books().release(physical->entry, Family::vmm, physical->bytes);
    }
  }
  g_physicals.destroy(physical);
}

Mapping* mapping_at(std::uint64_t address) {
  auto after = mappings().upper_bound(address);
  if (after == mappings().begin()) return nullptr;
  Mapping& mapping = std::prev(after)->second;
  return address - mapping.base < mapping.bytes ? &mapping : nullptr;
}

bool is_mapped(const Block&, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  while (address < end) {
    const Mapping* mapping = mapping_at(address);
    if (mapping == nullptr) return false;
    address = mapping->base + mapping->bytes;
  }
  return true;
}

}  // namespace berth::fake::cuda

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Family;

namespace {

enum LocationType : int { kOnDevice = 1, kOnHost = 2, kOnHostNuma = 3, kOnCurrentNuma = 4 };

CUresult check_properties(const AllocationProp* properties, int* entry) {
  if (properties == nullptr || properties->type != 1) return kInvalidValue;
  *entry = -1;
  switch (properties->location.type) {
    case kOnDevice:
      if (!driver().is_device(properties->location.id)) return kInvalidDevice;
      *entry = driver().entry_of(properties->location.id);
      return kSuccess;
    case kOnHost:
    case kOnHostNuma:
    case kOnCurrentNuma: return kSuccess;
    default: return kInvalidValue;
  }
}

Block* reservation(std::uint64_t address, std::uint64_t bytes) {
  Block* block = driver().find(address);
  const bool inside = block != nullptr && block->kind == BlockKind::reserved &&
                      address - block->base + bytes <= block->bytes;
  return inside ? block : nullptr;
}

}  // namespace

BERTH_CUDA cuMemGetAllocationGranularity(std::size_t* granularity, const AllocationProp* properties,
                                         int option) {
  ENTER(cuMemGetAllocationGranularity, granularity);
  int entry = 0;
  if (granularity == nullptr || option < 0 || option > 1) return kInvalidValue;
  if (const CUresult code = check_properties(properties, &entry); code != kSuccess) return code;
  *granularity = kVmmGranule;
  return kSuccess;
}

BERTH_CUDA cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                       const AllocationProp* properties, unsigned long long flags) {
  ENTER(cuMemCreate, handle);
  int entry = 0;
  if (handle == nullptr || flags != 0) return kInvalidValue;
  if (const CUresult code = check_properties(properties, &entry); code != kSuccess) return code;
  if (bytes == 0 || bytes % kVmmGranule != 0) return kInvalidValue;
  const Guard guard(driver().lock);
  if (entry >= 0 && !driver().books().charge(entry, Family::vmm, bytes)) return kOutOfMemory;
  Physical* made = g_physicals.make();
  if (made == nullptr) return kOutOfMemory;
  made->entry = entry;
  made->bytes = bytes;
  made->properties = *properties;
  made->references = 1;
  *handle = handle_of(made);
  return kSuccess;
}

BERTH_CUDA cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(cuMemRelease);
  const Guard guard(driver().lock);
  Physical* physical = physical_of(handle);
  if (physical == nullptr) return kInvalidValue;
  drop_reference(physical);
  return kSuccess;
}

BERTH_CUDA cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  ENTER(cuMemRetainAllocationHandle, handle);
  if (handle == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  Mapping* mapping = mapping_at(reinterpret_cast<std::uint64_t>(address));
  if (mapping == nullptr) return kInvalidValue;
  ++mapping->physical->references;
  *handle = handle_of(mapping->physical);
  return kSuccess;
}

BERTH_CUDA cuMemGetAllocationPropertiesFromHandle(AllocationProp* properties,
                                                  CUmemGenericAllocationHandle handle) {
  ENTER(cuMemGetAllocationPropertiesFromHandle, properties);
  if (properties == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  const Physical* physical = physical_of(handle);
  if (physical == nullptr) return kInvalidValue;
  *properties = physical->properties;
  return kSuccess;
}

BERTH_CUDA cuMemAddressReserve(CUdeviceptr* pointer, std::size_t bytes, std::size_t alignment,
                               CUdeviceptr, unsigned long long flags) {
  ENTER(cuMemAddressReserve, pointer);
  constexpr std::size_t kLargestAlignment = std::size_t{1} << 26;
  if (pointer == nullptr || bytes == 0 || bytes % kVmmGranule != 0 || flags != 0 ||
      (alignment & (alignment - 1)) != 0 || alignment > kLargestAlignment) {
    return kInvalidValue;
  }
  const Guard guard(driver().lock);
  // Large blocks begin at a multiple of 64 MiB, which serves every alignment.
  const std::uint64_t large = bytes > (std::size_t{4} << 20) ? bytes : (std::size_t{4} << 20) + 1;
  Block* block = driver().space.take(large);
  if (block == nullptr) return kOutOfMemory;
  block->kind = BlockKind::reserved;
  block->asked = bytes;
  *pointer = block->base;
  return kSuccess;
}

BERTH_CUDA cuMemAddressFree(CUdeviceptr pointer, std::size_t bytes) {
  ENTER(cuMemAddressFree);
  const Guard guard(driver().lock);
  Block* block = reservation(pointer, bytes);
  if (block == nullptr || block->base != pointer || block->asked != bytes) return kInvalidValue;
  const auto inside = mappings().lower_bound(pointer);
  if (inside != mappings().end() && inside->first < pointer + bytes) return kInvalidValue;
  driver().space.give_back(block);
  return kSuccess;
}

BERTH_CUDA cuMemMap(CUdeviceptr pointer, std::size_t bytes, std::size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
  ENTER(cuMemMap);
  const Guard guard(driver().lock);
  Physical* physical = physical_of(handle);
  if (physical == nullptr || flags != 0 || bytes == 0 || bytes % kVmmGranule != 0 ||
      pointer % kVmmGranule != 0 || offset > physical->bytes || bytes > physical->bytes - offset ||
      reservation(pointer, bytes) == nullptr) {
    return kInvalidValue;
  }
  const auto next = mappings().lower_bound(pointer);
  const bool taken =
      mapping_at(pointer) != nullptr || (next != mappings().end() && next->first < pointer + bytes);
  if (taken) return kAlreadyMapped;
  mappings()[pointer] = {.base = pointer, .bytes = bytes, .offset = offset, .physical = physical};
  ++physical->references;
  return kSuccess;
}

BERTH_CUDA cuMemUnmap(CUdeviceptr pointer, std::size_t bytes) {
  ENTER(cuMemUnmap);
  const Guard guard(driver().lock);
  // The range must be made of whole mappings.
  std::uint64_t at = pointer;
  while (at < pointer + bytes) {
    const auto mapping = mappings().find(at);
    if (mapping == mappings().end()) return kInvalidValue;
    at += mapping->second.bytes;
  }
  if (at != pointer + bytes || bytes == 0) return kInvalidValue;
  for (at = pointer; at < pointer + bytes;) {
    const auto mapping = mappings().find(at);
    at += mapping->second.bytes;
    drop_reference(mapping->second.physical);
    mappings().erase(mapping);
  }
  return kSuccess;
}

BERTH_CUDA cuMemSetAccess(CUdeviceptr pointer, std::size_t bytes, const AccessDesc* access,
                          std::size_t count) {
  ENTER(cuMemSetAccess);
  if (access == nullptr || count == 0) return kInvalidValue;
  const Guard guard(driver().lock);
  Block* block = reservation(pointer, bytes);
  if (block == nullptr || !is_mapped(*block, pointer, bytes)) return kInvalidValue;
  for (std::uint64_t at = pointer; at < pointer + bytes;) {
    Mapping* mapping = mapping_at(at);
    mapping->access = static_cast<std::uint64_t>(access[count - 1].flags);
    at = mapping->base + mapping->bytes;
  }
  return kSuccess;
}

BERTH_CUDA cuMemGetAccess(unsigned long long* flags, const MemLocation* location,
                          CUdeviceptr pointer) {
  ENTER(cuMemGetAccess, flags);
  if (flags == nullptr || location == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  const Mapping* mapping = mapping_at(pointer);
  if (mapping == nullptr) return kInvalidValue;
  *flags = mapping->access;
  return kSuccess;
}

namespace {

// One entry of cuMemMapArrayAsync's list, as the public interface lays it out.
struct ArrayMapInfo {
  int resource_type;  // 0 array, 1 mipmapped array
  const void* resource;
  int subresource_type;
  unsigned int place[8];
  int operation;  // 1 map, 2 unmap
  int handle_type;
  CUmemGenericAllocationHandle handle;
  unsigned long long offset;
  unsigned int devices;
  unsigned int flags;
  unsigned int reserved[2];
};
static_assert(sizeof(ArrayMapInfo) == 96 && offsetof(ArrayMapInfo, handle) == 64);

std::uint64_t tile_of(const ArrayMapInfo& info) {
  std::uint64_t key = static_cast<std::uint64_t>(info.subresource_type);
  for (int word = 0; word < 5; ++word)
    key = key * 0x100000001B3ULL ^ info.place[word];
  return key;
}

CUresult map_tile(const ArrayMapInfo& info) {
  const bool known = info.resource_type == 0
                         ? g_arrays.is_live(static_cast<const Array*>(info.resource))
                         : g_mipmaps.is_live(static_cast<const MipmappedArray*>(info.resource));
  if (!known) return kInvalidValue;
  const auto key = std::make_pair(info.resource, tile_of(info));
  const auto tile = tiles().find(key);
  if (info.operation == 2) {
    if (tile == tiles().end()) return kInvalidValue;
    drop_reference(tile->second);
    tiles().erase(tile);
    return kSuccess;
  }
  Physical* physical = physical_of(info.handle);
  if (physical == nullptr || info.operation != 1) return kInvalidValue;
  ++physical->references;
  if (tile != tiles().end()) drop_reference(tile->second);
  tiles()[key] = physical;
  return kSuccess;
}

}  // namespace

static CUresult cuMemMapArrayAsync_body(const char* entry, bool per_thread, ArrayMapInfo* infos,
                                        unsigned int count, CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  (void)stream;
  if (infos == nullptr || count == 0) return kInvalidValue;
  const Guard guard(driver().lock);
  for (unsigned int place = 0; place < count; ++place) {
    if (const CUresult code = map_tile(infos[place]); code != kSuccess) return code;
  }
  return kSuccess;
}
BERTH_STREAM_CALL(cuMemMapArrayAsync, ptsz,
                  (ArrayMapInfo * infos, unsigned int count, CUstream stream),
                  (infos, count, stream))

BERTH_CUDA cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, int type,
                                        unsigned long long flags) {
  ENTER(cuMemExportToShareableHandle);
  if (out == nullptr || flags != 0) return kInvalidValue;
  const Guard guard(driver().lock);
  Physical* physical = physical_of(handle);
  if (physical == nullptr || physical->entry < 0) return kInvalidValue;
  if ((physical->properties.handle_types & type) == 0) return kInvalidValue;
  if (physical->share_id == 0) {
    physical->share_id = export_share(physical->entry, Family::vmm, physical->bytes);
    if (physical->share_id == 0) return kOutOfMemory;
  }
  const Ticket ticket =
      make_ticket(TicketKind::physical, physical->share_id, physical->entry, physical->bytes, 0);
  if (type == 1) {
    const int fd = ticket_to_descriptor(ticket);
    if (fd < 0) return kUnknown;
    std::memcpy(out, &fd, sizeof fd);
    return kSuccess;
  }
  if (type == 8) {
    std::memset(out, 0, 64);
    std::memcpy(out, &ticket, sizeof ticket);
    return kSuccess;
  }
  return kNotSupported;
}

BERTH_CUDA cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                          int type) {
  ENTER(cuMemImportFromShareableHandle, handle);
  if (handle == nullptr) return kInvalidValue;
  Ticket ticket{};
  if (type == 1) {
    const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
    if (!ticket_from_descriptor(fd, &ticket)) return kInvalidValue;
  } else if (type == 8 && os_handle != nullptr) {
    std::memcpy(&ticket, os_handle, sizeof ticket);
  } else {
    return kNotSupported;
  }
  if (!is_ticket(ticket, TicketKind::physical)) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!import_share(ticket.id)) return kInvalidValue;
  Physical* made = g_physicals.make();
  if (made == nullptr) return kOutOfMemory;
  made->entry = static_cast<int>(ticket.device);
  made->bytes = ticket.bytes;
  made->properties.type = 1;
  made->properties.handle_types = type;
  made->properties.location = {.type = kOnDevice, .id = driver().device_of(made->entry)};
  made->references = 1;
  made->share_id = ticket.id;
  made->imported = true;
  *handle = handle_of(made);
  return kSuccess;
}

namespace {

struct MulticastProp {
  unsigned int devices;
  std::size_t bytes;
  unsigned long long handle_types;
  unsigned long long flags;
};
static_assert(sizeof(MulticastProp) == 32);

}  // namespace

BERTH_CUDA cuMulticastGetGranularity(std::size_t* granularity, const MulticastProp* properties,
                                     int option) {
  ENTER(cuMulticastGetGranularity, granularity);
  if (granularity == nullptr || properties == nullptr || option < 0 || option > 1) {
    return kInvalidValue;
  }
  *granularity = kVmmGranule;
  return kSuccess;
}

BERTH_CUDA cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                             const MulticastProp* properties) {
  ENTER(cuMulticastCreate, handle);
  if (handle == nullptr || properties == nullptr || properties->devices == 0 ||
      properties->bytes == 0 || properties->bytes % kVmmGranule != 0) {
    return kInvalidValue;
  }
  const Guard guard(driver().lock);
  Physical* made = g_physicals.make();
  if (made == nullptr) return kOutOfMemory;
  made->bytes = properties->bytes;
  made->multicast = true;
  made->references = 1;
  *handle = handle_of(made);
  return kSuccess;
}

BERTH_CUDA cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  ENTER(cuMulticastAddDevice);
  const Guard guard(driver().lock);
  const Physical* physical = physical_of(handle);
  if (physical == nullptr || !physical->multicast) return kInvalidValue;
  return driver().is_device(device) ? kSuccess : kInvalidDevice;
}

BERTH_CUDA cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                              CUmemGenericAllocationHandle memory, std::size_t memory_offset,
                              std::size_t bytes, unsigned long long flags) {
  ENTER(cuMulticastBindMem);
  const Guard guard(driver().lock);
  Physical* group = physical_of(handle);
  Physical* part = physical_of(memory);
  if (group == nullptr || !group->multicast || part == nullptr || flags != 0 || bytes == 0 ||
      offset + bytes > group->bytes || memory_offset + bytes > part->bytes) {
    return kInvalidValue;
  }
  ++part->references;
  group->bound.push_back(part);
  return kSuccess;
}

BERTH_CUDA cuMulticastBindAddr(CUmemGenericAllocationHandle handle, std::size_t offset,
                               CUdeviceptr pointer, std::size_t bytes, unsigned long long flags) {
  ENTER(cuMulticastBindAddr);
  const Guard guard(driver().lock);
  Physical* group = physical_of(handle);
  const Mapping* mapping = mapping_at(pointer);
  if (group == nullptr || !group->multicast || mapping == nullptr || flags != 0 || bytes == 0 ||
      offset + bytes > group->bytes) {
    return kInvalidValue;
  }
  ++mapping->physical->references;
  group->bound.push_back(mapping->physical);
  return kSuccess;
}

BERTH_CUDA cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t,
                             std::size_t) {
  ENTER(cuMulticastUnbind);
  const Guard guard(driver().lock);
  Physical* group = physical_of(handle);
  if (group == nullptr || !group->multicast || !driver().is_device(device)) return kInvalidValue;
  const int entry = driver().entry_of(device);
  for (auto part = group->bound.begin(); part != group->bound.end();) {
    if ((*part)->entry != entry) {
      ++part;
      continue;
    }
    drop_reference(*part);
    part = group->bound.erase(part);
  }
  return kSuccess;
}
