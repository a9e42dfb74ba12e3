// The management library's own types, as far as the fake needs them.
//
// Written from the public description of the interface (nvml.h of CUDA 13.0); sizes are asserted,
// since programs built elsewhere pass these structures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::fake::nvml {

struct Device;
struct EventSet;

enum Code : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kVersionMismatch = 18,
  kInUse = 19,
  kInsufficientResources = 23,
  kArgumentVersionMismatch = 25,
  kUnknown = 999,
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(Memory) == 24);

struct MemoryV2 {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(MemoryV2) == 40);

struct ProcessInfoV1 {
  unsigned int pid;
  unsigned long long used;
};
static_assert(sizeof(ProcessInfoV1) == 16);

struct ProcessInfo {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

struct ProcessDetail {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
  unsigned long long protected_used;
};
static_assert(sizeof(ProcessDetail) == 32);

struct ProcessDetailList {
  unsigned int version;
  unsigned int mode;
  unsigned int count;
  ProcessDetail* processes;
};
static_assert(sizeof(ProcessDetailList) == 24);

struct ProcessSample {
  unsigned int pid;
  unsigned long long time_stamp;
  unsigned int multiprocessors;
  unsigned int memory;
  unsigned int encoder;
  unsigned int decoder;
};
static_assert(sizeof(ProcessSample) == 32);

struct ProcessUtilization {
  unsigned long long time_stamp;
  unsigned int pid;
  unsigned int multiprocessors;
  unsigned int memory;
  unsigned int encoder;
  unsigned int decoder;
  unsigned int jpeg;
  unsigned int flow;
};
static_assert(sizeof(ProcessUtilization) == 40);

struct ProcessesUtilization {
  unsigned int version;
  unsigned int count;
  unsigned long long last_seen;
  ProcessUtilization* processes;
};
static_assert(sizeof(ProcessesUtilization) == 24);

struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct PciInfoV1 {
  char bus_id[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int reserved[4];
};

struct Bar1Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(Bar1Memory) == 24);

struct DeviceAttributes {
  unsigned int multiprocessors;
  unsigned int copy_engines;
  unsigned int decoders;
  unsigned int encoders;
  unsigned int jpegs;
  unsigned int flows;
  unsigned int gpu_slices;
  unsigned int compute_slices;
  unsigned long long memory_mib;
};
static_assert(sizeof(DeviceAttributes) == 40);

struct EventData {
  Device* device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
static_assert(sizeof(EventData) == 32);

struct SetMemoryLimits {
  const char* name_space;
  unsigned long long soft;
  unsigned long long hard;
};
static_assert(sizeof(SetMemoryLimits) == 24);

struct GetMemoryLimits {
  const char* name_space;
  unsigned long long soft;
  unsigned long long hard;
  unsigned long long used;
};
static_assert(sizeof(GetMemoryLimits) == 32);

// "version" word of a versioned structure: its size and its number.
template <class T>
constexpr unsigned int version_of(unsigned int number) {
  return static_cast<unsigned int>(sizeof(T)) | number << 24U;
}
static_assert(version_of<MemoryV2>(2) == 0x2000028);
static_assert(version_of<ProcessDetailList>(1) == 0x1000018);
static_assert(version_of<ProcessesUtilization>(1) == 0x1000018);

}  // namespace berth::fake::nvml

using nvmlReturn_t = int;
using nvmlDevice_t = berth::fake::nvml::Device*;
using nvmlEventSet_t = berth::fake::nvml::EventSet*;
