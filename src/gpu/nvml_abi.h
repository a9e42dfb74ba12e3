// The management library's binary interface, as far as this room reads it: our own names for its
// types, with sizes and offsets asserted. Facts from nvml.h of CUDA 13.0 and nvidia-node.md 7, 15.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::gpu::nvml {

struct DeviceTag;
struct EventSetTag;
using Device = DeviceTag*;
using EventSet = EventSetTag*;
using Word = unsigned int;
using LongWord = unsigned long long;

// Return codes.
inline constexpr int kSuccess = 0;
inline constexpr int kUninitialized = 1;
inline constexpr int kInvalidArgument = 2;
inline constexpr int kNotSupported = 3;
inline constexpr int kNoPermission = 4;
inline constexpr int kNotFound = 6;
inline constexpr int kInsufficientSize = 7;
inline constexpr int kDriverNotLoaded = 9;
inline constexpr int kTimeout = 10;
inline constexpr int kFunctionNotFound = 13;
inline constexpr int kGpuIsLost = 15;
inline constexpr int kVersionMismatch = 18;  // between library and kernel module
inline constexpr int kArgumentVersionMismatch = 25;

// A 64-bit figure that the driver has no value for.
inline constexpr LongWord kNotAvailable = ~LongWord{0};
// An event that concerns every instance of a GPU, or a GPU without any.
inline constexpr Word kNoInstance = 0xFFFFFFFF;
inline constexpr LongWord kXidEvent = 0x8;

inline constexpr int kComputeDefault = 0;
inline constexpr int kComputeProhibited = 2;
inline constexpr int kComputeExclusive = 3;

struct Memory {
  LongWord total, free, used;  // used: with the driver's reserve
};
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);

struct MemoryV2 {
  Word version;
  LongWord total, reserved, free, used;  // used: without the driver's reserve
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, total) == 8 &&
              offsetof(MemoryV2, used) == 32);
inline constexpr Word kMemoryV2 = sizeof(MemoryV2) | 2U << 24U;
static_assert(kMemoryV2 == 0x2000028);

struct ProcessV1 {
  Word pid;
  LongWord used;
};
static_assert(sizeof(ProcessV1) == 16 && offsetof(ProcessV1, used) == 8);

struct Process {  // of the second and third form
  Word pid;
  LongWord used;
  Word gpu_instance, compute_instance;
};
static_assert(sizeof(Process) == 24 && offsetof(Process, gpu_instance) == 16);

struct Pci {
  char bus_id_legacy[16];
  Word domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(Pci) == 68 && offsetof(Pci, bus_id) == 36);

struct Attributes {
  Word multiprocessors, copy_engines, decoders, encoders, jpeg_engines, flow_engines;
  Word gpu_slices, compute_slices;
  LongWord memory_mib;
};
static_assert(sizeof(Attributes) == 40 && offsetof(Attributes, memory_mib) == 32);

struct Event {
  Device device;
  LongWord type, data;
  Word gpu_instance, compute_instance;  // absent in the first form
};
static_assert(sizeof(Event) == 32 && offsetof(Event, gpu_instance) == 24);

}  // namespace berth::gpu::nvml
